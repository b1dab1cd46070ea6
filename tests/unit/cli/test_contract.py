"""What `-o json` prints is what the JSON Schema says, which is made from the records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from pyroclast.api.waiting_codes import CODES, Stage, codes_page
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.views.contract.schema import LISTS, SINGLE, schema

PAGE = Path(__file__).parents[3] / "docs" / "codes.md"


def test_waiting_codes_list_every_pending_reason_ordered_by_stage():
    assert list(CODES) == list(PendingReason)
    stages = [facts.stage for facts in CODES.values()]
    assert stages == sorted(stages, key=list(Stage).index)


def test_codes_page_is_generated_from_the_waiting_codes():
    text = PAGE.read_text(encoding="utf-8")
    assert text == codes_page()
    assert re.findall(r"^### (\w+)$", text, re.MULTILINE) == list(PendingReason)


FILE = Path(__file__).parents[3] / "docs" / "reference" / "view-v1.schema.json"
GOLDEN = Path(__file__).with_name("golden")
SAID = re.compile(r"^\$ vcctl [^\n]* -o json\n(\{.*?)(?=^\$ |\Z)", re.MULTILINE | re.DOTALL)
OPEN = {"WaitingPlace", "UsageRecord"}
"""Records with fields more by what was asked for: a rank by plugin, a column by `--by`."""


def printed() -> Iterator[dict[str, Any]]:
    for path in sorted(GOLDEN.glob("*.txt")):
        for found in SAID.finditer(path.read_text(encoding="utf-8")):
            yield json.JSONDecoder().raw_decode(found[1])[0]


def described(kind: str) -> type[msgspec.Struct]:
    return {each.__name__: each for each in SINGLE}.get(kind) or LISTS[kind.removesuffix("List")]


def test_published_json_schema_file_matches_the_records() -> None:
    assert json.loads(FILE.read_text(encoding="utf-8")) == schema()


@pytest.mark.parametrize("document", list(printed()), ids=lambda document: str(document["kind"]))
def test_golden_json_output_conforms_to_the_schema(document: dict[str, Any]) -> None:
    Draft202012Validator(schema()).validate(document)
    record = described(document["kind"])
    known = {field.encode_name for field in msgspec.structs.fields(record)}
    items = document.get("items", [document])
    assert record.__name__ in OPEN or {name for each in items for name in each} <= known


def test_every_schema_kind_appears_in_the_golden_output() -> None:
    kinds = {each.__name__ for each in SINGLE} | {f"{kind}List" for kind in LISTS}
    assert kinds == {each["kind"] for each in printed()}


@pytest.mark.parametrize(
    "wrong", [{"code": "Nonsense"}, {"never": "no"}, {"sentence": None}, {"kind": "Explanations"}, {"trail": [{"code": "Gated"}]}]
)
def test_schema_refuses_an_invalid_explanation_document(wrong: dict[str, Any]) -> None:
    fields = {"metadata": {"name": "j"}, "queue": "q", "code": PendingReason.GATED, "never": False, "sentence": "", "asOf": ""}
    document = {"apiVersion": "view.pyroclast.dev/v1", "kind": "Explanation", **fields, "complete": False}
    validator = Draft202012Validator(schema())
    assert validator.is_valid(document)
    assert not validator.is_valid(document | wrong)

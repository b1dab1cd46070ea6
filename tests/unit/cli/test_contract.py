"""What `-o json` prints is what the JSON Schema of the documentation says, and has no other fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pyroclast.api.waiting_codes import CODES, Stage, codes_page
from pyroclast.api.waiting_reasons import PendingReason

PAGE = Path(__file__).parents[3] / "docs" / "codes.md"


def test_waiting_codes_list_every_pending_reason_ordered_by_stage():
    assert list(CODES) == list(PendingReason)
    stages = [facts.stage for facts in CODES.values()]
    assert stages == sorted(stages, key=list(Stage).index)


def test_codes_page_is_generated_from_the_waiting_codes():
    text = PAGE.read_text(encoding="utf-8")
    assert text == codes_page()
    assert re.findall(r"^### (\w+)$", text, re.MULTILINE) == list(PendingReason)


SCHEMA = json.loads((PAGE.parent / "reference" / "view-v1.schema.json").read_text(encoding="utf-8"))
GOLDEN = Path(__file__).with_name("golden")
SAID = re.compile(r"^\$ vcctl [^\n]* -o json\n(\{.*?)(?=^\$ |\Z)", re.MULTILINE | re.DOTALL)
OPEN = {"WaitingPlace", "UsageRecord"}
"""Records with fields more by what was asked for: a rank by plugin, a column by `--by`."""


def printed() -> Iterator[dict[str, Any]]:
    for path in sorted(GOLDEN.glob("*.txt")):
        for found in SAID.finditer(path.read_text(encoding="utf-8")):
            yield json.JSONDecoder().raw_decode(found[1])[0]


def test_the_schema_has_the_codes_of_all_causes_and_only_kinds_that_it_describes() -> None:
    assert SCHEMA["$defs"]["PendingReason"]["enum"] == sorted(PendingReason)
    Draft202012Validator.check_schema(SCHEMA)
    named = set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(SCHEMA)))
    assert named == SCHEMA["$defs"].keys()


@pytest.mark.parametrize("document", list(printed()), ids=lambda document: str(document["kind"]))
def test_golden_json_output_conforms_to_the_schema(document: dict[str, Any]) -> None:
    Draft202012Validator(SCHEMA).validate(document)
    record = SCHEMA["$defs"][document["kind"]]
    if "items" in document:
        record = SCHEMA["$defs"][record["properties"]["items"]["items"]["$ref"].removeprefix("#/$defs/")]
    items = document.get("items", [document])
    assert record["title"] in OPEN or {name for each in items for name in each} <= record["properties"].keys()


def test_every_schema_kind_appears_in_the_golden_output() -> None:
    kinds = {each["$ref"].removeprefix("#/$defs/") for each in SCHEMA["oneOf"]}
    assert kinds == {each["kind"] for each in printed()}


@pytest.mark.parametrize(
    "wrong", [{"code": "Nonsense"}, {"never": "no"}, {"sentence": None}, {"kind": "Explanations"}, {"trail": [{"code": "Gated"}]}]
)
def test_schema_refuses_an_invalid_explanation_document(wrong: dict[str, Any]) -> None:
    fields = {"metadata": {"name": "j"}, "queue": "q", "code": PendingReason.GATED, "never": False, "sentence": "", "asOf": ""}
    document = {"apiVersion": "view.pyroclast.dev/v1", "kind": "Explanation", **fields, "complete": False}
    validator = Draft202012Validator(SCHEMA)
    assert validator.is_valid(document)
    assert not validator.is_valid(document | wrong)

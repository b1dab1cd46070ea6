"""What a CRD of ours takes its record can bear: an object that cannot be decoded is left alone, so that nobody looks after it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from pyroclast.api import records
from pyroclast.api.crds import structural_schema

from .test_record_types import MODELS, OURS

Path = tuple[str, ...]
RAW = {"template", "volumeClaim", "jobTemplate", "templateSpec", "patch"}
"""What is kept as it came."""
ANY_ITEM, ANY_KEY = "[]", "{}"


def leaves(schema: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    if RAW & set(path):
        return
    if "properties" in schema:
        for name, inner in schema["properties"].items():
            yield from leaves(inner, (*path, name))
    elif isinstance(schema.get("additionalProperties"), Mapping):
        yield from leaves(schema["additionalProperties"], (*path, ANY_KEY))
    elif schema.get("type") == "array":
        yield from leaves(schema["items"], (*path, ANY_ITEM))
    else:
        yield path, schema


def values(schema: Mapping[str, Any]) -> list[Any]:
    """Odd ones, of which none is refused."""
    nothing = [None] if schema.get("nullable") else []
    if schema.get("x-kubernetes-int-or-string"):
        return [5, -(2**31), "garbage", "", *nothing]
    if "enum" in schema:
        return [*schema["enum"], *nothing]
    match schema.get("type"):
        case "string" if schema.get("format") == "date-time":
            return ["2016-12-31T23:59:60Z", "9999-12-31t23:59:59.123456789+99:99", "0001-01-01T00:00:00z", *nothing]
        case "string":
            return ["garbage", "", *nothing]
        case "integer":
            bits = 31 if schema.get("format") == "int32" else 63
            return [schema.get("minimum", -(2**bits)), schema.get("maximum", 2**bits - 1), *nothing]
        case "boolean":
            return [True, False, *nothing]
        case "number":
            return [1e308, -1, *nothing]
    return [[1], "x", {"a": {"b": 1}}]  # what may be anything


def built(path: Path, value: object) -> object:
    for name in reversed(path):
        value = [value] if name == ANY_ITEM else {"k" if name == ANY_KEY else name: value}
    return value


@pytest.mark.parametrize("record", OURS, ids=OURS.values())
def test_record_decodes_extreme_values_that_its_crd_accepts(record: type[records.ObjectRecord]) -> None:
    schema = structural_schema(MODELS[OURS[record]])
    parts = {name: inner for name, inner in schema["properties"].items() if name not in {"apiVersion", "kind", "metadata"}}
    wrong = []
    for path, leaf in leaves({"properties": parts}):
        for value in values(leaf):
            body = {"metadata": {"name": "x", "uid": "u"}, **built(path, value)}  # type: ignore[dict-item]
            try:
                msgspec.json.decode(json.dumps(body).encode(), type=record)
            except msgspec.ValidationError as error:
                wrong.append(f"{'.'.join(path)} = {value!r}: {error}")
    assert wrong == []


def test_job_whose_status_names_an_unknown_event_is_decoded() -> None:
    status = {"delayedActions": [{"event": "Later", "action": "AbortJob", "at": "2026-01-01T00:00:00Z"}]}
    job = msgspec.json.decode(json.dumps({"metadata": {"name": "x"}, "status": status}).encode(), type=records.Job)
    assert job.status.delayed_actions[0].event == "Later"
    words = [leaf["enum"] for path, leaf in leaves(structural_schema(MODELS["Job"])) if path[-2:] == (ANY_ITEM, "event")]
    assert len(words) == 3  # of the policies of Job and task, and of the status
    assert not any("Later" in each for each in words)

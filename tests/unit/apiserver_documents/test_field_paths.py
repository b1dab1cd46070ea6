"""Paths to fields, looked up in schemas."""

import re

import pytest

from pyroclast_standalone.apiserver.documents.field_sets import BadFieldPath, find_field

SCHEMA = {"properties": {"spec": {"properties": {"x": {"type": "string"}, "m": {"additionalProperties": {"type": "integer"}}}}}}


@pytest.mark.parametrize(("path", "want"), [(".spec.x", "string"), (".spec.m.any", "integer")])
def test_find_field_returns_the_schema_of_an_existing_path(path: str, want: str) -> None:
    assert find_field(path, SCHEMA)["type"] == want


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("spec", "expected [ or . but got: spec"),
        (".spec.nope", "does not refer to a valid field"),
        (".spec.m.a.b", "does not refer to a valid field"),
        (".spec.", "does not refer to a valid field"),
        (".spec['m']", "fields are named by dots here"),
    ],
)
def test_find_field_raises_for_an_invalid_path(path: str, want: str) -> None:
    with pytest.raises(BadFieldPath, match=f"^{re.escape(want)}$"):
        find_field(path, SCHEMA)

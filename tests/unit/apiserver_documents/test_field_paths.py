"""Paths to fields, looked up in schemas."""

import re

import pytest

from pyroclast_standalone.apiserver.documents.field_paths import BadFieldPath, find_field

SCHEMA = {"properties": {"spec": {"properties": {"x.y": {"type": "string"}, "m": {"additionalProperties": {"type": "integer"}}}}}}


@pytest.mark.parametrize(
    ("path", "want"), [(".spec['x.y']", "string"), (".spec.m.any", "integer"), (".spec['m']['a']", "integer")]
)
def test_fields_that_are_there(path: str, want: str) -> None:
    assert find_field(path, SCHEMA)["type"] == want


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("spec", "expected [ or . but got: spec"),
        (".spec.nope", "does not refer to a valid field"),
        (".spec.m.a.b", "does not refer to a valid field"),
        (".spec.", "unexpected end of JSON path"),
        (".spec[x]", "expected single quoted string but got x"),
        (".spec['m'.", "expected ] but got ."),
    ],
)
def test_paths_that_lead_nowhere(path: str, want: str) -> None:
    with pytest.raises(BadFieldPath, match=f"^{re.escape(want)}$"):
        find_field(path, SCHEMA)


def test_brackets_may_be_forbidden() -> None:
    with pytest.raises(BadFieldPath, match="array notation is not allowed"):
        find_field(".spec['m']", SCHEMA, brackets=False)

"""JSON values as expressions see them."""

from datetime import UTC, datetime

import pytest

from pyroclast_standalone.apiserver.documents.cel import of_schema
from pyroclast_standalone.apiserver.documents.cel.readers import reader_of
from pyroclast_standalone.apiserver.documents.cel.values import Duration

MOMENT = {"type": "string", "format": "date-time"}
NEW_YEAR = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schema", "value", "want"),
    [
        (MOMENT, "2020-01-01T00:00:00Z", NEW_YEAR),
        (MOMENT, "yesterday", "yesterday"),
        ({"type": "string", "format": "date"}, "2020-01-01", NEW_YEAR),
        ({"type": "string", "format": "duration"}, "2s", Duration(2 * 10**9)),
        ({"type": "string", "format": "byte"}, "aGk=", b"hi"),
        ({"type": "array", "items": MOMENT}, ["2020-01-01T00:00:00Z"], [NEW_YEAR]),
        ({"type": "object", "additionalProperties": MOMENT}, {"a": "2020-01-01T00:00:00Z"}, {"a": NEW_YEAR}),
        ({"type": "object", "properties": {"a-b": MOMENT}}, {"a-b": "2020-01-01T00:00:00Z", "c": 1}, {"a-b": NEW_YEAR, "c": 1}),
    ],
)
def test_what_is_read(schema, value, want):
    reader = reader_of(of_schema(schema))
    assert reader is not None
    assert reader(value) == want


@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": "object", "properties": {"a": {"type": "integer"}}}, {}])
def test_what_stays_as_it_is(schema):
    assert reader_of(of_schema(schema)) is None

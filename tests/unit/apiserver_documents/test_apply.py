"""Server-side apply, and the owners of fields by their path."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast_standalone.apiserver import kinds
from pyroclast_standalone.apiserver.documents import apply, field_sets
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


CONFIG_MAP = kinds.strategy_of("", "v1", "ConfigMap").schema
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def config(**data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "ns"}, "data": data}


def applied(live, document, manager, *, force=False, now=NOW):
    return apply.apply(live, document, CONFIG_MAP, manager=manager, api_version="v1", now=now, force=force)


def owners(document):
    return {
        (each["manager"], each["operation"]): sorted(map(field_sets.show_path, field_sets.members(each["fieldsV1"])))
        for each in document["metadata"].get("managedFields", ())
    }


LEAVES = st.sampled_from(["f:a", "f:b", 'k:{"n":"x"}', 'v:"y"'])
SETS = st.recursive(
    st.just({}),
    lambda inner: st.dictionaries(LEAVES, inner, min_size=1, max_size=3).flatmap(
        lambda trie: st.booleans().map(lambda own: {".": {}, **trie} if own else trie)
    ),
    max_leaves=8,
).map(lambda trie: {key: child for key, child in trie.items() if key != "."})


def listed(fields):
    return set(field_sets.members(fields))


@given(SETS, SETS)
@settings(max_examples=150)
def test_sets_of_fields_combine_as_sets(left, right):
    assert listed(field_sets.union(left, right)) == listed(left) | listed(right)
    assert listed(field_sets.difference(left, right)) == listed(left) - listed(right)
    assert listed(field_sets.intersection(left, right)) == listed(left) & listed(right)


DATA = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("12"), max_size=4)


@given(st.lists(st.tuples(st.sampled_from(["m1", "m2"]), DATA), min_size=1, max_size=6))
@settings(max_examples=60)
def test_forced_applies_leave_every_field_owned_and_the_last_value_stored(steps):
    live = None
    for manager, data in steps:
        live = applied(live, config(**data), manager, force=True)
        assert {key: live["data"][key] for key in data} == data
    owned = {path for fields in owners(live).values() for path in fields if path != ".data"}
    assert owned == {f".data.{key}" for key in live.get("data") or {}}

"""Server-side apply, and the owners of fields by their path."""

from __future__ import annotations

import copy
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast_standalone.apiserver import kinds
from pyroclast_standalone.apiserver.documents import apply, field_sets, managed_fields
from pyroclast_standalone.apiserver.documents.errors import ApplyConflict, DocumentError, PatchFailure, Undecodable
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
POD = kinds.strategy_of("", "v1", "Pod").schema
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


def updated(live, manager, change):
    new = copy.deepcopy(live)
    change(new)
    managed_fields.track_update(new, live, CONFIG_MAP, manager=manager, api_version="v1", now=LATER)
    return new


def test_fields_no_longer_applied_are_removed_unless_another_manager_owns_them():
    first = applied(None, config(a="1", b="2"), "m1")
    shared = applied(first, config(b="2"), "m2")
    assert owners(shared) == {("m1", "Apply"): [".data.a", ".data.b"], ("m2", "Apply"): [".data.b"]}
    less = applied(shared, config(c="3"), "m1")
    assert less["data"] == {"b": "2", "c": "3"}
    assert owners(less) == {("m1", "Apply"): [".data.c"], ("m2", "Apply"): [".data.b"]}


def test_conflicts_name_owners_and_fields():
    live = applied(None, config(a="1", b="2"), "m1")
    with pytest.raises(ApplyConflict) as one:
        applied(live, config(a="9"), "m2")
    assert str(one.value) == 'Apply failed with 1 conflict: conflict with "m1": .data.a'
    live = updated(live, "up", lambda new: new["data"].update(b="3"))
    with pytest.raises(ApplyConflict) as two:
        applied(live, config(a="9", b="9"), "m2")
    want = 'Apply failed with 2 conflicts: conflicts with "m1":\n- .data.a\nconflicts with "up" using v1:\n- .data.b'
    assert str(two.value) == want
    assert [cause["field"] for cause in two.value.causes] == [".data.a", ".data.b"]


def test_forced_apply_takes_over_fields_of_another_manager():
    live = applied(applied(None, config(a="1", b="2"), "m1"), config(a="9"), "m2", force=True)
    assert live["data"] == {"a": "9", "b": "2"}
    assert owners(live) == {("m1", "Apply"): [".data.b"], ("m2", "Apply"): [".data.a"]}


def test_applying_again_changes_nothing():
    live = applied(None, config(a="1"), "m1")
    assert applied(live, config(a="1"), "m1", now=LATER) == live


def test_update_takes_ownership_of_the_fields_it_changes():
    live = applied(None, config(a="1", b="2"), "m1")
    after = updated(live, "kubectl-edit", lambda new: new["data"].update(a="5", c="6"))
    assert owners(after) == {("m1", "Apply"): [".data.b"], ("kubectl-edit", "Update"): [".data.a", ".data.c"]}
    gone = updated(after, "kubectl-edit", lambda new: new["data"].pop("b"))
    assert owners(gone) == {("kubectl-edit", "Update"): [".data.a", ".data.c"]}


def test_cleared_managed_fields_stay_empty_until_the_next_apply():
    live = applied(None, config(a="1"), "m1")
    cleared = updated(live, "x", lambda new: new["metadata"].update(managedFields=[{}]))
    assert "managedFields" not in cleared["metadata"]
    assert "managedFields" not in updated(cleared, "x", lambda new: new["data"].update(z="1"))["metadata"]
    again = applied(cleared, config(b="2"), "m2")
    assert owners(again) == {("m2", "Apply"): [".data.b"], ("before-first-apply", "Update"): [".data", ".data.a"]}


UNTYPED = "failed to create typed patch object (ns/c; /v1, Kind=ConfigMap): "
VERSION = "Incorrect version specified in apply patch"


@pytest.mark.parametrize(
    ("document", "error", "want"),
    [
        ({**config(), "nope": 1}, PatchFailure, f"{UNTYPED}.nope: field not declared in schema"),
        (config(a=1), PatchFailure, f"{UNTYPED}.data.a: expected string, got 1"),
        ({**config(), "apiVersion": "v2"}, Undecodable, f"{VERSION}. Specified patch version: v2, expected: v1"),
        ({**config(), "metadata": {"name": "c", "managedFields": []}}, Undecodable, "metadata.managedFields must be nil"),
    ],
)
def test_invalid_apply_configuration_is_refused_with_the_reason(document, error, want):
    with pytest.raises(DocumentError) as refusal:
        applied(None, document, "m")
    assert (type(refusal.value), str(refusal.value)) == (error, want)


def test_list_items_are_owned_by_their_merge_keys():
    pod = {
        "metadata": {},
        "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP"}], "command": ["x"]}]},
    }
    fields = field_sets.of_document(pod, POD)
    assert [field_sets.show_path(path) for path in field_sets.members(fields)] == [
        ".metadata",
        '.spec.containers[name="c"]',
        '.spec.containers[name="c"].command',
        '.spec.containers[name="c"].name',
        '.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"]',
        '.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"].containerPort',
        '.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"].protocol',
    ]


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

"""Structural schemas: what they drop, fill in and refuse, and what makes a schema refused itself."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast_standalone.apiserver import kinds
from pyroclast_standalone.apiserver.documents.errors import causes_of
from pyroclast_standalone.apiserver.documents.structural import Structural
from tests.unit.apiserver_documents.conftest import WIDGET_SCHEMA as TOP

WIDGET = Structural(TOP)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-20, 20) | st.sampled_from(["", "a", "abc", "5%", "2026-01-01T00:00:00Z"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "v", "n", "zz", "a"]), inner, max_size=3)
    ),
    max_leaves=8,
)
SPECS = st.dictionaries(st.sampled_from([*TOP["properties"]["spec"]["properties"], "zz"]), JSON, max_size=5)


def widget(**spec):
    return {"apiVersion": "recorded.example.org/v1", "kind": "W", "metadata": {"name": "w"}, "spec": spec}


def stored(spec):
    """A widget as the server stores it."""
    document = widget(**copy.deepcopy(spec))
    WIDGET.prune(document)
    WIDGET.default(document)
    return document


def refusals(verdict):
    return sorted(f"{cause['field']}: {cause['message']}" for cause in causes_of(verdict.errors))


@given(SPECS)
def test_pruning_and_defaulting_are_idempotent(spec):
    document = stored(spec)
    settled = copy.deepcopy(document)
    assert WIDGET.prune(document) == []
    WIDGET.default(document)
    assert document == settled


@given(SPECS)
def test_validation_changes_nothing_and_never_fails(spec):
    document = stored(spec)
    before = copy.deepcopy(document)
    WIDGET.validate(document)
    WIDGET.validate(document, widget(size=1))
    assert document == before


@given(SPECS)
def test_unchanged_update_of_a_stored_object_has_no_schema_errors(spec):
    document = stored(spec)
    for unfollowed in ("map", "set", "tmpl"):  # what repeats in keyed lists, and embedded objects, are checked each time
        document["spec"].pop(unfollowed, None)
    found = refusals(WIDGET.validate(copy.deepcopy(document), document))
    assert [text for text in found if " for rule: " not in text] == []  # a rule that fails on the stored value goes on failing


def test_transition_rules_compare_with_the_old_value():
    old = widget(size=2, imm="x")
    assert WIDGET.validate(widget(size=2, imm="x"), old).errors == []
    assert refusals(WIDGET.validate(widget(size=2, imm="y"), old)) == ['spec.imm: Invalid value: "y": is immutable']


@pytest.mark.parametrize("strategy", kinds.builtin_strategies(), ids=lambda strategy: f"{strategy.api_version}-{strategy.kind}")
def test_every_kind_decodes_defaults_and_validates_an_object_without_a_spec(strategy):
    document = {"apiVersion": strategy.api_version, "kind": strategy.kind, "metadata": {"name": "x"}}
    if strategy.namespaced:
        document["metadata"]["namespace"] = "ns"
    assert strategy.decode(document) == []
    settled = copy.deepcopy(document)
    assert strategy.decode(document) == []
    strategy.default(document)
    assert document == settled
    if "create" not in strategy.verbs:
        return
    strategy.prepare_create(document)
    for error in strategy.validate(document).errors:
        assert str(error)
    assert len(strategy.cells(document, 0.0)) == len(strategy.columns)

import json

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast_standalone.apiserver import kinds
from pyroclast_standalone.apiserver.documents import json_patch, strategic
from pyroclast_standalone.apiserver.documents.errors import DocumentError, MalformedPatch, PatchFailure, Unprocessable

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b/c", "~"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=8
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(OBJECTS, OBJECTS)
@settings(max_examples=100)
def test_json_patch_yields_the_target_document_and_keeps_the_source(old, new):
    before = json.dumps(old)
    patch = jsonpatch.make_patch(old, new).patch
    assert json_patch.apply(old, patch) == new
    assert json.dumps(old) == before


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/a", "value": True},
        {"op": "remove", "path": "/nope"},
        {"op": "replace", "path": "/l/0", "value": 1},
        {"op": "add", "path": "/l/9", "value": 1},
        {"op": "add", "path": "/nope/x", "value": 1},
        {"op": "move", "path": "/b", "from": "/nope"},
        {"op": "frob", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
    ],
)
def test_inapplicable_json_patch_operation_is_refused(operation):
    with pytest.raises(Unprocessable, match="rejected our request"):
        json_patch.apply({"a": 1, "l": []}, [operation])


@pytest.mark.parametrize(
    ("operation", "want"),
    [
        ({"op": "replace", "path": "/nope", "value": 1}, {"a": 1, "l": [], "nope": 1}),
        ({"op": "add", "path": "/a"}, {"a": None, "l": []}),
        ({"op": "replace", "path": "/a"}, {"a": None, "l": []}),
        ({"op": "copy", "path": "/b", "from": "/nope"}, {"a": 1, "b": None, "l": []}),
    ],
)
def test_json_patch_accepts_operations_that_kube_apiserver_accepts(operation, want):
    assert json_patch.apply({"a": 1, "l": []}, [operation]) == want


@pytest.mark.parametrize(("patch", "kind"), [({}, "object"), ([1], "number"), ("x", "string")])
def test_malformed_json_patch_is_refused_naming_its_type(patch, kind):
    with pytest.raises(MalformedPatch, match=f"error decoding patch: json: cannot unmarshal {kind}"):
        json_patch.apply({}, patch)


@given(VALUES, VALUES)
@settings(max_examples=100)
def test_merge_patch_is_idempotent(target, patch):
    once = json_patch.merge(target, patch)
    assert json_patch.merge(once, patch) == once


@pytest.mark.parametrize(
    ("target", "patch", "want"),
    [
        ({"a": "b"}, {"a": None}, {}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [1]}, {"a": [2]}, {"a": [2]}),
        ({"a": "b"}, ["c"], ["c"]),
        ({}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
    ],
)
def test_merge_patch_replaces_values_and_removes_nulls(target, patch, want):
    assert json_patch.merge(target, patch) == want


POD = {
    "metadata": {"labels": {"x": "y"}, "finalizers": ["a", "b"]},
    "spec": {
        "containers": [{"name": "a", "image": "i", "env": [{"name": "A", "value": "1"}]}, {"name": "b"}],
        "tolerations": [1],
    },
}


def pod(**changes):
    result = json.loads(json.dumps(POD))
    for path, value in changes.items():
        holder, _, field = path.partition("_")
        result[holder][field] = value
    return result


A, B = POD["spec"]["containers"]
C = {"name": "c"}


@pytest.mark.parametrize(
    ("patch", "want"),
    [
        pytest.param({"containers": [{"name": "a", "image": "j"}]}, [{**A, "image": "j"}, B], id="by-key"),
        pytest.param({"containers": [C]}, [C, A, B], id="new-items-go-first"),
        pytest.param({"$setElementOrder/containers": [B, C, A], "containers": [C]}, [B, C, A], id="demanded-order"),
        pytest.param({"containers": [{"name": "a", "$patch": "delete"}]}, [B], id="delete"),
        pytest.param({"containers": [{"$patch": "replace"}, {"name": "z"}]}, [{"name": "z"}], id="replace-list"),
    ],
)
def test_strategic_merge_patch_merges_containers_by_name(patch, want):
    before = json.dumps(POD)
    assert strategic.merge(POD, {"spec": patch}, kinds.strategy_of("", "v1", "Pod").schema) == pod(spec_containers=want)
    assert json.dumps(POD) == before


@pytest.mark.parametrize(
    ("patch", "want"),
    [
        pytest.param({"spec": {"tolerations": [2]}}, pod(spec_tolerations=[2]), id="atomic-list"),
        pytest.param({"metadata": {"finalizers": ["c"]}}, pod(metadata_finalizers=["c", "a", "b"]), id="set"),
        pytest.param(
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}, pod(metadata_finalizers=["b"]), id="leave-set"
        ),
        pytest.param({"metadata": {"labels": {"x": None, "z": "1"}}}, pod(metadata_labels={"z": "1"}), id="map"),
        pytest.param(
            {"metadata": {"labels": {"$patch": "replace", "q": "1"}}}, pod(metadata_labels={"q": "1"}), id="replace-map"
        ),
        pytest.param(
            {"metadata": {"$retainKeys": ["labels"], "labels": {}}}, {**POD, "metadata": {"labels": {"x": "y"}}}, id="retain-keys"
        ),
    ],
)
def test_strategic_merge_patch_follows_list_strategies_and_directives(patch, want):
    before = json.dumps(POD)
    assert strategic.merge(POD, patch, kinds.strategy_of("", "v1", "Pod").schema) == want
    assert json.dumps(POD) == before


@pytest.mark.parametrize(
    ("patch", "error", "want"),
    [
        ({"spec": {"containers": [{"image": "z"}]}}, PatchFailure, "map: map[image:z] does not contain declared merge key: name"),
        ({"spec": {"$patch": "foo"}}, PatchFailure, "unknown patch type: foo in map: map[$patch:foo]"),
        ([], MalformedPatch, "invalid JSON document"),
        ({"metadata": {"$retainKeys": "x"}}, MalformedPatch, "invalid patch format of retainKeys"),
        ({"metadata": {"$setElementOrder/finalizers": 1}}, MalformedPatch, "invalid patch format of setElementOrder list"),
    ],
)
def test_invalid_strategic_merge_patch_is_refused_with_the_reason(patch, error, want):
    with pytest.raises(DocumentError) as refusal:
        strategic.merge(POD, patch, kinds.strategy_of("", "v1", "Pod").schema)
    assert (type(refusal.value), str(refusal.value)) == (error, want)

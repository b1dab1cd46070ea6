"""What an update may change, and when the generation goes up."""

import copy

import pytest

from pyroclast_standalone.apiserver import kinds
from tests.unit.apiserver_documents.conftest import WIDGETS

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
    "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [{"key": "k", "operator": "Exists"}]},
}


def made(document):
    strategy = kinds.strategy_of(*(["", *document["apiVersion"].split("/")][-2:]), document["kind"])
    new = copy.deepcopy(document)
    strategy.decode(new)
    strategy.prepare_create(new)
    assert strategy.validate(new).errors == []
    return strategy, new


def updated(strategy, old, change, subresource=""):
    new = copy.deepcopy(old)
    change(new)
    strategy.decode(new)
    strategy.prepare_update(new, old, subresource=subresource)
    return new, [error.path for error in strategy.validate_update(new, copy.deepcopy(old), subresource=subresource).errors]


def put(*path, value):
    def change(document):
        *way, last = path
        for step in way:
            document = document[step]
        document[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        (put("spec", "containers", 0, "image", value="j"), []),
        (put("spec", "activeDeadlineSeconds", value=5), []),
        (put("spec", "tolerations", value=[{"key": "k", "operator": "Exists"}, {"key": "new", "operator": "Exists"}]), []),
        (put("metadata", "labels", value={"a": "b"}), []),
        (put("spec", "tolerations", value=[]), ["spec.tolerations"]),
        (put("spec", "containers", 0, "name", value="d"), ["spec"]),
        (put("spec", "nodeName", value="n"), ["spec"]),
        (put("spec", "schedulerName", value="s"), ["spec"]),
        (put("spec", "schedulingGates", value=[{"name": "a/b"}]), ["spec.schedulingGates[0].name"]),
        (put("metadata", "labels", value={"a b": ""}), ["metadata.labels"]),
    ],
)
def test_pod_update_is_refused_for_immutable_fields(change, refused):
    strategy, old = made(POD)
    _, errors = updated(strategy, old, change)
    assert errors[: len(refused)] == refused
    assert bool(errors) == bool(refused)


def test_main_update_keeps_the_status_and_status_update_keeps_the_spec():
    strategy, old = made(POD)
    new, errors = updated(strategy, old, put("status", value={"phase": "Running"}))
    assert errors == []
    assert new["status"] == old["status"]
    new, errors = updated(strategy, old, put("spec", "containers", 0, "image", value="j"), "status")
    assert errors == []
    assert new["spec"] == old["spec"]
    new, errors = updated(strategy, old, put("status", "phase", value="Running"), "status")
    assert errors == []
    assert new["status"]["phase"] == "Running"


def test_scheduling_gates_may_be_removed_but_not_added():
    gated = copy.deepcopy(POD)
    gated["spec"]["schedulingGates"] = [{"name": "a/b"}, {"name": "c/d"}]
    strategy, old = made(gated)
    assert updated(strategy, old, put("spec", "schedulingGates", value=[{"name": "c/d"}]))[1] == []
    assert updated(strategy, old, put("spec", "nodeSelector", value={"x": "y"}))[1] == []
    assert updated(strategy, old, put("spec", "schedulingGates", value=[{"name": "e/f"}]))[1] != []


def test_the_generation_follows_the_spec():
    strategy, old = made(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d", "namespace": "ns", "uid": "u"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]},
            },
        }
    )
    assert old["metadata"]["generation"] == 1
    assert updated(strategy, old, put("spec", "replicas", value=3))[0]["metadata"]["generation"] == 2
    assert updated(strategy, old, put("metadata", "labels", value={"a": "b"}))[0]["metadata"]["generation"] == 1
    new, _ = updated(strategy, old, put("status", value={"replicas": 1}), "status")
    assert new["metadata"]["generation"] == 1
    assert new["status"]["replicas"] == 1


@pytest.fixture(scope="module")
def widgets():
    definition = copy.deepcopy(WIDGETS)
    kinds.strategy_of("apiextensions.k8s.io", "v1", "CustomResourceDefinition").decode(definition)
    return kinds.custom_strategy(definition, "v1")


def test_custom_resource_status_and_generation_follow_the_crd(widgets):
    metadata = {"name": "w1", "namespace": "ns", "uid": "u"}
    old = {
        "apiVersion": "recorded.example.org/v1",
        "kind": "W",
        "metadata": metadata,
        "spec": {"size": 2},
        "status": {"phase": "x"},
    }
    widgets.decode(old)
    widgets.prepare_create(old)
    assert "status" not in old
    assert old["metadata"]["generation"] == 1
    assert updated(widgets, old, put("spec", "size", value=3))[0]["metadata"]["generation"] == 2
    assert updated(widgets, old, put("metadata", "labels", value={"a": "b"}))[0]["metadata"]["generation"] == 1
    new, errors = updated(widgets, old, put("status", value={"phase": "y"}), "status")
    assert errors == []
    assert new["status"] == {"phase": "y"}
    assert new["metadata"]["generation"] == 1
    new, _ = updated(widgets, old, put("status", value={"phase": "y"}))
    assert "status" not in new
    assert updated(widgets, old, put("spec", "size", value=99))[1] == ["spec.size", "spec"]
    assert widgets.fields["spec.mode"](old) == "a"


def test_immutable_secrets_and_config_maps_refuse_changes_of_data():
    for kind in ("ConfigMap", "Secret"):
        document = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "c", "namespace": "ns"}, "immutable": True, "data": {}}
        strategy, old = made(document)
        assert updated(strategy, old, put("data", value={"a": "Yg=="}))[1] == ["data"]
        assert updated(strategy, old, put("immutable", value=False))[1] == ["immutable"]
        assert updated(strategy, old, put("metadata", "labels", value={"a": "b"}))[1] == []

"""Patches of templates: each rule of the merge, and what is refused."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyroclast.lifecycle.flow.patch import PatchError, merged, patched

POD: dict[str, Any] = {
    "containers": [
        {
            "name": "c",
            "image": "old",
            "command": ["a"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
            "ports": [{"containerPort": 80, "name": "web"}, {"containerPort": 53, "protocol": "UDP"}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
            "livenessProbe": {"tcpSocket": {"port": 80}},
        }
    ],
    "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}],
    "nodeSelector": {"zone": "a"},
    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["x"]}],
    "affinity": {"nodeAffinity": {"a": 1}},
    "securityContext": {"runAsUser": 1},
    "restartPolicy": "Never",
    "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": ["s"]},
}
SPEC: dict[str, Any] = {
    "queue": "q",
    "maxRetry": 5,
    "minAvailable": 1,
    "policies": [{"event": "PodFailed", "action": "RestartJob"}],
    "plugins": {"env": [], "svc": ["--x"]},
    "volumes": [{"mountPath": "/data", "volumeClaimName": "old"}],
    "tasks": [{"name": "t", "replicas": 1, "template": {"metadata": {"labels": {"l": "1"}}, "spec": POD}}],
}


def pod(**patch: Any) -> dict[str, Any]:
    return {"tasks": [{"name": "t", "template": {"spec": patch}}]}


def container(**patch: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "c", **patch}])


POD_AT = ("tasks", 0, "template", "spec")
CONTAINER_AT = (*POD_AT, "containers", 0)
CASES: dict[str, tuple[dict[str, Any], tuple[Any, ...], Any]] = {
    "a number is replaced": ({"maxRetry": 1}, ("maxRetry",), 1),
    "what is not there is set": ({"priorityClassName": "p"}, ("priorityClassName",), "p"),
    "what is left out stays": ({"maxRetry": 1}, ("queue",), "q"),
    "policies are replaced": ({"policies": [{"event": "*"}]}, ("policies",), [{"event": "*"}]),
    "plugins by name": ({"plugins": {"svc": [], "ssh": []}}, ("plugins",), {"env": [], "svc": [], "ssh": []}),
    "volumes by mountPath": (
        {"volumes": [{"mountPath": "/data", "volumeClaimName": "new"}, {"mountPath": "/b"}]},
        ("volumes",),
        [{"mountPath": "/data", "volumeClaimName": "new"}, {"mountPath": "/b"}],
    ),
    "a task by its name": ({"tasks": [{"name": "t", "replicas": 3}]}, ("tasks", 0, "replicas"), 3),
    "the only task without its name": ({"tasks": [{"replicas": 3}]}, ("tasks", 0, "replicas"), 3),
    "another task is appended": ({"tasks": [{"name": "u"}]}, ("tasks", 1), {"name": "u"}),
    "labels by key": (
        {"tasks": [{"name": "t", "template": {"metadata": {"labels": {"m": "2"}}}}]},
        ("tasks", 0, "template", "metadata", "labels"),
        {"l": "1", "m": "2"},
    ),
    "a container by its name": (container(command=["b"]), (*CONTAINER_AT, "image"), "old"),
    "command is replaced": (container(command=["b"]), (*CONTAINER_AT, "command"), ["b"]),
    "another container is appended": (pod(containers=[{"name": "d"}]), (*POD_AT, "containers", 1), {"name": "d"}),
    "pod volumes are replaced": (
        pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
        (*POD_AT, "volumes"),
        [{"name": "v", "hostPath": {"path": "/"}}],
    ),
    "nodeSelector by key": (pod(nodeSelector={"b": "c"}), (*POD_AT, "nodeSelector"), {"zone": "a", "b": "c"}),
    "tolerations by key": (
        pod(tolerations=[{"key": "k", "effect": "NoExecute"}]),
        (*POD_AT, "tolerations"),
        [{"key": "k", "operator": "Exists", "effect": "NoExecute"}],
    ),
    "hostAliases by ip": (
        pod(hostAliases=[{"ip": "10.0.0.1", "hostnames": ["y"]}]),
        (*POD_AT, "hostAliases"),
        [{"ip": "10.0.0.1", "hostnames": ["y"]}],
    ),
    "affinity is replaced": (pod(affinity={"podAffinity": {}}), (*POD_AT, "affinity"), {"podAffinity": {}}),
    "securityContext is replaced": (pod(securityContext={"fsGroup": 1}), (*POD_AT, "securityContext"), {"fsGroup": 1}),
    "other objects are merged": (
        pod(dnsConfig={"nameservers": ["2.2.2.2"]}),
        (*POD_AT, "dnsConfig"),
        {"nameservers": ["2.2.2.2"], "searches": ["s"]},
    ),
    "env by name, whole": (container(env=[{"name": "B", "value": "2"}]), (*CONTAINER_AT, "env", 1), {"name": "B", "value": "2"}),
    "mounts by mountPath": (
        container(volumeMounts=[{"mountPath": "/v", "readOnly": True}]),
        (*CONTAINER_AT, "volumeMounts"),
        [{"name": "v", "mountPath": "/v", "readOnly": True}],
    ),
    "ports by containerPort": (
        container(ports=[{"containerPort": 80, "name": "api"}]),
        (*CONTAINER_AT, "ports", 0),
        {"containerPort": 80, "name": "api"},
    ),
    "a port of another protocol": (
        container(ports=[{"containerPort": 53, "protocol": "TCP"}]),
        (*CONTAINER_AT, "ports", 2, "protocol"),
        "TCP",
    ),
    "resources by name": (
        container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}),
        (*CONTAINER_AT, "resources"),
        {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "4"}},
    ),
    "probes are replaced": (container(livenessProbe={"exec": {}}), (*CONTAINER_AT, "livenessProbe"), {"exec": {}}),
    "a list with another directive is replaced": (
        container(env=[{"$patch": "replace"}, {"name": "C", "value": "3"}]),
        (*CONTAINER_AT, "env"),
        [{"name": "C", "value": "3"}],
    ),
    "an item can be deleted": (
        container(env=[{"name": "A", "$patch": "delete"}]),
        (*CONTAINER_AT, "env"),
        [{"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
    ),
    "a map can be replaced": (pod(nodeSelector={"$patch": "replace", "b": "c"}), (*POD_AT, "nodeSelector"), {"b": "c"}),
}


@pytest.mark.parametrize(("patch", "at", "want"), CASES.values(), ids=CASES.keys())
def test_patch_applies_the_merge_rule_of_each_field_and_leaves_the_template_unchanged(
    patch: dict[str, Any], at: tuple[Any, ...], want: object
) -> None:
    before = copy.deepcopy(SPEC)
    value: Any = merged(SPEC, patch)
    for step in at:
        value = value[step]
    assert value == want
    assert before == SPEC


def test_patch_matches_unnamed_tasks_by_their_default_name() -> None:
    spec = {"tasks": [{"replicas": 1}, {"replicas": 1}]}
    result = merged(spec, {"tasks": [{"name": "default1", "replicas": 3}, {"name": "default2", "replicas": 4}]})
    assert result["tasks"] == [{"replicas": 1}, {"name": "default1", "replicas": 3}, {"name": "default2", "replicas": 4}]


def test_null_in_a_patch_removes_the_field() -> None:
    result = merged(SPEC, {"queue": None, "tasks": [{"name": "t", "template": {"spec": {"nodeSelector": None}}}]})
    assert "queue" not in result
    assert "nodeSelector" not in result["tasks"][0]["template"]["spec"]


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"x": value}
    return value


REFUSED: dict[str, tuple[Any, str]] = {
    "no list": ({"spec": {"tasks": 1}}, "patch.spec.tasks: must be a list, not a number"),
    "no item": ({"spec": {"tasks": ["t"]}}, "patch.spec.tasks[0]: must be an object, not a text"),
    "null in place of an item": ({"spec": {"tasks": [None]}}, "patch.spec.tasks[0]: must be an object, not null"),
    "no object": ({"spec": {"plugins": True}}, "patch.spec.plugins: must be an object, not a boolean"),
    "no spec": ({"jobSpec": []}, "patch.jobSpec: must be an object, not a list"),
    "no directive": ({"spec": {"$patch": "x"}}, 'patch.spec.$patch: "x" is none of merge, replace, delete'),
    "too deep": ({"spec": {"plugins": nested(1000)}}, "patch.spec: must not be nested deeper than 100 levels"),
    "no patch": (3, "patch: must be an object, not a number"),
}


@pytest.mark.parametrize(("patch", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_invalid_patch_raises_patch_error_with_field_path_and_reason(patch: Any, words: str) -> None:
    with pytest.raises(PatchError) as error:
        patched(SPEC, patch)
    assert str(error.value) == words


def test_patch_is_merged_up_to_the_maximum_nesting_depth_and_refused_beyond() -> None:
    assert merged(SPEC, {"plugins": nested(99)})["plugins"]["x"] == nested(98)
    with pytest.raises(PatchError):
        merged(SPEC, {"plugins": nested(100)})


def test_unnamed_container_of_a_patch_is_the_only_one_and_is_refused_beside_several() -> None:
    one = {"tasks": [{"name": "t", "template": {"spec": {"containers": [{"name": "c", "image": "a"}]}}}]}
    patch = {"tasks": [{"template": {"spec": {"containers": [{"image": "b"}]}}}]}
    assert merged(one, patch)["tasks"][0]["template"]["spec"]["containers"] == [{"name": "c", "image": "b"}]
    two = {"tasks": [{"name": "t", "template": {"spec": {"containers": [{"name": "c"}, {"name": "d"}]}}}]}
    with pytest.raises(PatchError, match=r"containers\[0\].* needs a name, because there are 2 to choose from"):
        merged(two, patch)


def test_patch_of_an_unnamed_task_is_refused_when_the_template_has_several_tasks() -> None:
    with pytest.raises(PatchError, match=r"tasks\[0\]: needs a name, because there are 2 to choose from"):
        merged({"tasks": [{"name": "a"}, {"name": "b"}]}, {"tasks": [{"replicas": 1}]})


def test_patch_spec_takes_precedence_over_job_spec() -> None:
    assert patched(SPEC, {"spec": {"maxRetry": 1}, "jobSpec": {"maxRetry": 2}})["maxRetry"] == 1
    assert patched(SPEC, {"jobSpec": {"maxRetry": 2}})["maxRetry"] == 2
    assert patched(SPEC, {}) == SPEC


KEYS = st.sampled_from(["tasks", "name", "template", "spec", "containers", "env", "x"])
LEAVES = st.sampled_from([None, True, 1, "t", "c", "$patch"])
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(["tasks", "plugins", "volumes", "queue", "x"]), VALUES, max_size=3))
def test_arbitrary_patch_changes_only_the_fields_it_names_or_raises_patch_error_with_the_reason(patch: dict[str, Any]) -> None:
    before = copy.deepcopy(SPEC)
    reason, result = "", {}
    try:
        result = merged(SPEC, patch)
    except PatchError as error:
        reason = str(error)
    if reason:
        assert re.fullmatch(r"(tasks|plugins|volumes)\S*: (must be|needs a) .+", reason)
    else:
        assert result.keys() == (SPEC.keys() | patch.keys()) - {name for name, value in patch.items() if value is None}
        assert [name for name in SPEC.keys() - patch.keys() if result[name] != SPEC[name]] == []
    assert before == SPEC

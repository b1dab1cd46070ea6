"""The small parts of the nodes: addresses, capacity, environment, volumes, logs, annotations, settings."""

import ipaddress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast.api.types import Key
from pyroclast.runtime.settings import SettingsError, load
from pyroclast_standalone.nodes import fleet, volumes
from pyroclast_standalone.nodes.capacity import AddressPool, Ledger, pod_requests
from pyroclast_standalone.nodes.environment import ConfigurationError, Place, argv, environment
from pyroclast_standalone.nodes.injections import NodeState, of_node, of_pod
from pyroclast_standalone.nodes.records import Node, Pod
from pyroclast_standalone.nodes.runtime import LogOptions, selected, written
from pyroclast_standalone.nodes.service import NodesSettings

PLACE = Place("10.0.0.1", "127.0.0.1", {"cpu": "8", "memory": "16Gi"})
CONTENT = {
    ("ConfigMap", Key("ns", "cm")): {"a": b"1", "not a name": b"2"},
    ("Secret", Key("ns", "s")): {"k": b"secret"},
    ("ConfigMap", Key("ns", "gone")): None,
}


def pod(container=None, **spec):
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "labels": {"l": "v"}, "annotations": {"n": 'a"b'}}
    one = {"name": "c", "image": "i", **(container or {})}
    return msgspec.convert({"metadata": metadata, "spec": {"containers": [one], "nodeName": "n0", **spec}}, Pod)


def test_address_pool_assigns_unique_addresses_and_reuses_released_addresses():
    pool = AddressPool(ipaddress.IPv4Network("10.0.0.0/29"))
    taken = [pool.take(f"pod-{number}") for number in range(6)]
    assert len(set(taken)) == 6
    with pytest.raises(RuntimeError):
        pool.take("another")
    pool.give_back("pod-2", taken[2])
    assert pool.take("another") == taken[2]
    pool.give_back("pod-0", taken[0])
    pool.keep("again", taken[0])
    with pytest.raises(RuntimeError):
        pool.take("one-more")


def test_address_released_twice_stays_with_its_new_pod():
    pool = AddressPool(ipaddress.IPv4Network("10.0.0.0/30"))
    first = pool.take("ended")
    pool.take("runs")
    pool.give_back("ended", first)
    assert pool.take("follows") == first
    pool.give_back("ended", first)
    with pytest.raises(RuntimeError):
        pool.take("another")


@pytest.mark.parametrize(
    ("spec", "want_cpu"),
    [
        pytest.param([("c", "500m")], 500, id="one"),
        pytest.param([("c", "500m"), ("c", "1")], 1500, id="sum"),
        pytest.param([("i", "2"), ("c", "500m")], 2000, id="large-init"),
        pytest.param([("i", "1"), ("s", "300m"), ("c", "500m")], 1000, id="init-beside-no-sidecar"),
        pytest.param([("s", "300m"), ("i", "1"), ("c", "500m")], 1300, id="init-beside-sidecar"),
    ],
)
def test_pod_requests_combine_containers_init_containers_and_sidecars(spec, want_cpu):
    made = [{"name": f"x{n}", "resources": {"requests": {"cpu": cpu}}, "kind": kind} for n, (kind, cpu) in enumerate(spec)]
    inits = [{**c, **({"restartPolicy": "Always"} if c["kind"] == "s" else {})} for c in made if c["kind"] != "c"]
    body = {"spec": {"containers": [c for c in made if c["kind"] == "c"], "initContainers": inits}}
    assert pod_requests(msgspec.convert(body, Pod))["cpu"] == want_cpu


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from([100, 400, 900]), st.booleans()), max_size=30))
def test_ledger_never_allocates_more_than_the_capacity(steps):
    ledger, held = Ledger({"cpu": "1", "pods": "3"}), {}
    for uid, cpu, release in steps:
        if release:
            ledger.release(uid)
            held.pop(uid, None)
        elif ledger.take(uid, pod_requests(pod({"resources": {"requests": {"cpu": f"{cpu}m"}}}))) is None:
            held.setdefault(uid, cpu)
        assert sum(held.values()) <= 1000
        assert len(held) <= 3


def test_container_environment_and_arguments_are_resolved_from_all_sources():
    container = {
        "command": ["run", "$(B)", "$$(B)", "$(NONE)"],
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "cm"}}, {"configMapRef": {"name": "gone", "optional": True}}],
        "env": [
            {"name": "A", "value": "x"},
            {"name": "B", "value": "$(A)y"},
            {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "D", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "none", "optional": True}}},
            {"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['l']"}}},
            {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "G", "valueFrom": {"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}}},
            {"name": "H", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        ],
        "resources": {"requests": {"memory": "1500Ki"}},
    }
    whole = pod(container)
    found = environment(whole, whole.spec.containers[0], PLACE, CONTENT)
    del found["PATH"]
    assert found == {
        "P_a": "1", "A": "x", "B": "xy", "C": "secret", "E": "v", "F": "10.0.0.1", "G": "2", "H": "8", "HOSTNAME": "p"
    }  # fmt: skip
    assert argv(whole.spec.containers[0], found) == ["run", "xy", "$(B)", "$(NONE)"]


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param({"configMapKeyRef": {"name": "gone", "key": "a"}}, 'configmap "gone" not found', id="missing"),
        pytest.param({"configMapKeyRef": {"name": "cm", "key": "b"}}, "couldn't find key b in ConfigMap ns/cm", id="missing-key"),
    ],
)
def test_missing_environment_source_raises_a_configuration_error(source, want):
    whole = pod({"env": [{"name": "X", "valueFrom": source}]})
    with pytest.raises(ConfigurationError, match=want):
        environment(whole, whole.spec.containers[0], PLACE, CONTENT)


def test_projected_volume_has_files_of_all_its_sources():
    projected = {
        "name": "v",
        "projected": {
            "sources": [
                {"configMap": {"name": "cm", "items": [{"key": "a", "path": "sub/a"}]}},
                {"secret": {"name": "s"}},
                {"downwardAPI": {"items": [{"path": "notes", "fieldRef": {"fieldPath": "metadata.annotations"}}]}},
                {"serviceAccountToken": {"path": "token", "audience": "x"}},
                {"configMap": {"name": "kube-root-ca.crt"}},
            ]
        },
    }
    whole = pod(volumes=[projected])
    wish = volumes.tokens(projected)[0]
    assert (wish.path, wish.audience, wish.seconds) == ("token", "x", 3600)
    found = volumes.files(whole, projected, PLACE, CONTENT, {wish: "t"})
    assert {path: file.content for path, file in found.items()} == {
        "sub/a": b"1", "k": b"secret", "notes": b'n="a\\"b"', "token": b"t"
    }  # fmt: skip
    assert volumes.files(whole, {"name": "e", "emptyDir": {}}, PLACE, CONTENT) is None
    with pytest.raises(ConfigurationError, match="gone"):
        volumes.files(whole, {"name": "g", "configMap": {"name": "gone"}}, PLACE, CONTENT)


def test_log_options_select_lines_by_tail_and_since():
    lines = [(1.0, "a"), (2.5, "b"), (3.0, "c")]
    assert list(selected(lines, LogOptions(tail=2))) == lines[1:]
    assert list(selected(lines, LogOptions(tail=0))) == []
    assert list(selected(lines, LogOptions(since=2.5))) == lines[1:]
    assert written(lines[1], LogOptions(timestamps=True)) == b"1970-01-01T00:00:02.500000000Z b\n"
    assert LogOptions.parse({"follow": "true", "sinceSeconds": "5", "tailLines": "1"}, 100) == LogOptions(
        follow=True, since=95, tail=1
    )
    with pytest.raises(ValueError, match="tailLines=x"):
        LogOptions.parse({"tailLines": "x"}, 0)


def test_fault_annotations_are_parsed_and_invalid_states_ignored():
    assert of_pod({"other": "x"}).ending("c", 0) is None
    asked = of_pod({"nodes.pyroclast.dev/fail-after": "1m30s", "nodes.pyroclast.dev/container": "c"})
    assert asked.ending("c", 0) == (90, 1)
    assert asked.ending("d", 0) is None
    assert of_node({"nodes.pyroclast.dev/state": "lost"}) is NodeState.LOST
    assert of_node({"nodes.pyroclast.dev/state": "nonsense"}) is NodeState.READY


def test_a_condition_keeps_the_time_of_its_last_change():
    shape = fleet.Shape({"cpu": "1"}, {}, "127.0.0.1", 1)
    first = fleet.node_status("n", shape, NodeState.READY, None, 0.0)
    known = msgspec.convert({"metadata": {"name": "n"}, "status": first}, Node)
    again = {c["type"]: c for c in fleet.node_status("n", shape, NodeState.NOT_READY, known, 60.0)["conditions"]}
    assert again["Ready"]["lastTransitionTime"] == "1970-01-01T00:01:00Z"
    assert again["DiskPressure"]["lastTransitionTime"] == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        pytest.param({"cpu": "many"}, "flag --cpu", id="quantity"),
        pytest.param({"label": ["zone"]}, '"zone" is not of the form name=value', id="label"),
        pytest.param({"resource": ["gpu=x"]}, "flag --resource", id="resource"),
        pytest.param({"pod-network": "10.0.0.0/33"}, "flag --pod-network", id="network"),
        pytest.param({"name-prefix": "Node"}, '"Node" cannot begin the name of a node', id="prefix"),
        pytest.param({"mode": "process"}, "--mode=process needs --data-dir", id="no-place-for-processes"),
        pytest.param({"nodes": "-1"}, "flag --nodes", id="negative"),
    ],
)
def test_invalid_node_settings_are_refused_naming_the_flag(flags, want):
    with pytest.raises(SettingsError, match=want):
        load(NodesSettings, flags)

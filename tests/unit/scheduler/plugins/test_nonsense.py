"""Plugins and what anybody may write into nodes, pods and quotas: no session fails because of it, and it is named."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast.api import keys, records
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.plugins.deviceshare.vgpu import GpuShare, decode, registered
from tests.counts import examples
from tests.scenarios import objects
from tests.unit.scheduler.deciding import configured, decided

EVERYTHING = """
actions: "enqueue, allocate, backfill, preempt, reclaim, shuffle"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: cdp}, {name: sla}, {name: pdb}, {name: resourcequota}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: capacity}, {name: nodeorder}, {name: usage}]
- plugins:
  - {name: deviceshare, arguments: {deviceshare.%s: true, deviceshare.AscendHAMiVNPUEnable: true, deviceshare.ScheduleWeight: 1}}
  - {name: tdm, arguments: {"tdm.revocable-zone.z": "0:00-0:01"}}
  - {name: resource-strategy-fit}
  - {name: rescheduling}
  - {name: task-topology}
  - {name: network-topology-aware}
  - {name: numa-aware}
"""
MANY = "9" * 5000
NUMBERS = st.sampled_from(["0", "1", "8", "9E", "1e30", "x", "", "-1", MANY, "0.0001"])
TEXT = st.sampled_from(
    [
        *["", "x", "nan", "1e999", MANY, f"{MANY}%", "true", f"{MANY}h", "0001-01-01T00:00:00", "yesterday", "z", "*"],
        *["[" * 9000, '[{"id": "c", "count": 1e300}]', '{"x/gpu": 1e400}', '{"a": {"b": 1}}', "MostAllocated"],
        *[f"GPU-0,{MANY},1,A,true,x:", f"GPU-0,1,{MANY},A,true,mig:", f"GPU-0,NVIDIA,{MANY},0:;", f"GPU-0[0-{MANY}],NVIDIA,1,1:"],
    ]
)
RESOURCES = st.dictionaries(
    st.sampled_from(["cpu", "memory", "pods", "x/gpu", keys.GPU_NUMBER, keys.GPU_MEMORY, keys.VGPU_NUMBER]), NUMBERS, max_size=4
)
OF_NODES = [keys.VGPU_NODE_REGISTER, f"{keys.HAMI_NODE_REGISTER}Ascend910B", keys.GPU_UNHEALTHY_IDS, keys.OVERSUBSCRIPTION_CPU]
OF_PODS = [
    *[keys.VGPU_IDS_NEW, keys.GPU_INDEX, keys.COOLDOWN_TIME, keys.REVOCABLE_ZONE, keys.PREEMPTABLE, keys.NUMA_TOPOLOGY_POLICY],
    *[keys.RESOURCE_STRATEGY_WEIGHT, keys.RESOURCE_STRATEGY_SCORING_TYPE, keys.DISRUPTION_MIN_AVAILABLE, keys.RUNNING_ESTIMATE],
]


def cycle(cache, configuration):
    outcome, binds = decided(cache, configuration)
    return outcome, {cache.tasks[uid].name for uid in binds}


def filled():
    cache = Cache()
    cache.queue_changed(None, objects.queue(["q"]))
    cache.node_changed(None, objects.node(["n0", 8, "16Gi", {"volcano.sh/vgpu-number": 2}]))
    cache.group_changed(None, objects.pod_group(["good", "q", 1, {"phase": "Inqueue"}]))
    cache.pod_changed(None, objects.pod(["good-0", "good", "-", 1, "1Gi"]))
    return cache


def changed(record, **parts):
    """The record with some of its JSON replaced."""
    body = msgspec.to_builtins(record)
    for name, part in parts.items():
        body[name] = {**body.get(name, {}), **part}
    return msgspec.convert(body, type(record), strict=False)


CONFIGURATIONS = {name: configured(EVERYTHING % name) for name in ("VGPUEnable", "GPUSharingEnable", "GPUNumberEnable")}


@settings(max_examples=examples(60))
@given(data=st.data())
def test_a_pod_is_placed_despite_malformed_values_in_other_nodes_and_pods(data):
    cache = filled()
    node = objects.node(["odd", 8, "16Gi", {"volcano.sh/vgpu-number": 4, "volcano.sh/gpu-number": 2}])
    annotations = data.draw(st.dictionaries(st.sampled_from(OF_NODES), TEXT, max_size=3))
    cache.node_changed(None, changed(node, metadata={"annotations": annotations}, status={"capacity": data.draw(RESOURCES)}))
    meta = {"annotations": {keys.GROUP_NAME: "old"} | data.draw(st.dictionaries(st.sampled_from(OF_PODS), TEXT, max_size=3))}
    status = {"phase": "Running", "startTime": data.draw(TEXT)}
    group = objects.pod_group(["old", "q", 1, {"phase": "Running"}])
    cache.group_changed(None, changed(group, metadata={"annotations": meta["annotations"]}))
    for i, wanted in enumerate((keys.VGPU_NUMBER, keys.GPU_NUMBER, keys.GPU_MEMORY, "cpu")):
        pod = objects.pod([f"old-{i}", "old", "odd", 1, "1Gi", {wanted: 1}])
        cache.pod_changed(None, changed(pod, metadata=meta, status=status))
        pod = objects.pod([f"want-{i}", f"want-{i}", "-", 1, "1Gi", {wanted: 1}])
        cache.group_changed(None, objects.pod_group([f"want-{i}", "q", 1, {"phase": "Inqueue"}]))
        cache.pod_changed(None, changed(pod, metadata={"annotations": {**meta["annotations"], keys.GROUP_NAME: f"want-{i}"}}))
    _, placed = cycle(cache, CONFIGURATIONS[data.draw(st.sampled_from(sorted(CONFIGURATIONS)))])
    assert "good-0" in placed


USAGE = configured("actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}, {name: usage}]}]")


def test_plugin_usage_ignores_unreadable_capacity_of_resources_it_does_not_need():
    cache = filled()
    cache.node_changed(None, changed(objects.node(["odd", 4, "8Gi"]), status={"capacity": {"cpu": "4", "nvidia.com/gpu": "9E"}}))
    outcome, placed = cycle(cache, USAGE)
    assert placed == {"good-0"}
    assert not outcome.faults


def test_plugin_usage_reports_unreadable_capacity_and_uses_allocatable_instead():
    cache = filled()
    odd = objects.node(["odd", 4, "8Gi"])
    cache.node_changed(None, changed(odd, status={"capacity": {"cpu": "9E", "memory": "x"}}))
    memory = {}
    for _ in range(2):
        (fault,) = decided(cache, USAGE, memory=memory)[0].faults
        assert (fault.kind.kind, fault.name) == ("Node", "odd")
        assert "status.capacity: cpu: 9E is out of range" in fault.reason
        assert "memory" in fault.reason
    row = cache.nodes.rows["odd"]
    assert memory["usage"].capacity(cache.snapshot().nodes)[:, row].tolist() == [4000, 8 * 2**30]
    cache.node_changed(None, odd)
    assert not decided(cache, USAGE, memory=memory)[0].faults


@pytest.mark.parametrize("text", ["yesterday", "0001-01-01T00:00:00"])
def test_an_unreadable_pod_start_time_is_treated_as_missing_without_a_fault(text):
    cache = filled()
    pod = objects.pod(["old-0", "good", "n0", 1, "1Gi"])
    cache.pod_changed(None, changed(pod, status={"phase": "Running", "startTime": text}))
    outcome, _ = cycle(cache, USAGE)
    assert not outcome.faults
    assert cache.tasks["t-old-0"].started is None


def test_unreadable_amounts_of_a_resourcequota_are_reported_as_a_fault():
    cache = filled()
    quota = objects.resource_quota({"requests.cpu": "many", "pods": "4"}, {"requests.cpu": "1", "pods": "few"})
    cache.object_changed(None, quota)
    configuration = configured("actions: enqueue\ntiers: [{plugins: [{name: resourcequota}]}]")
    (fault,) = cycle(cache, configuration)[0].faults
    assert (fault.kind.kind, fault.namespace, fault.name) == ("ResourceQuota", "t", "quota")
    assert fault.reason == (
        "status.hard.requests.cpu: 'many' is no quantity, and is passed over; "
        "status.used.pods: 'few' is no quantity, and is passed over"
    )


def test_an_invalid_hypernode_pattern_is_reported_in_every_session():
    cache = filled()
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}} for pattern in ("n.*", "n(")]
    body = {"metadata": {"name": "h", "uid": "h"}, "spec": {"tier": 1, "members": members}}
    cache.object_changed(None, msgspec.convert(body, records.HyperNode))
    configuration = configured("actions: allocate\ntiers: [{plugins: [{name: gang}, {name: network-topology-aware}]}]")
    for _ in range(2):
        (fault,) = cycle(cache, configuration)[0].faults
        assert (fault.kind.kind, fault.name) == ("HyperNode", "h")
        assert fault.reason.startswith("spec.members[1].selector.regexMatch.pattern: error parsing regexp")


def test_vgpu_annotations_with_thousands_of_digits_are_ignored():
    assert registered(f"GPU-0,{MANY},1,A,true,x:") is None
    assert decode(f"GPU-0,NVIDIA,{MANY},0:").parts == ()


@pytest.mark.parametrize("number", ["9E", "1025"])
def test_a_node_with_an_impossible_number_of_gpus_has_no_cards(number):
    capacity = {keys.GPU_NUMBER: number, keys.GPU_MEMORY: "9E"}
    assert GpuShare(by_number=True).cards(changed(objects.node(["n", 1, "1Gi"]), status={"capacity": capacity})) is None

"""Who is placed before its pods exist, and the one word for everybody else; and the pod that stands for a seat."""

import msgspec
import pytest

from pyroclast.api import keys, records
from pyroclast.lifecycle.seats.contract import PodTemplate, Seats, TaskSeats, encode, is_seat, parse_seats, pod_of, template_of
from pyroclast.lifecycle.seats.eligibility import SeatRefusal, refusal_of_job, refusal_of_pod
from tests.unit.lifecycle.builders import job, task

OURS = ("volcano",)


def pod(**spec):
    meta = {"name": "j-w-3", "namespace": "n", "labels": {"app": "x", keys.TASK_INDEX: "3"}}
    meta["annotations"] = {keys.TASK_SPEC: "w", keys.TASK_INDEX: "3", keys.JOB_VERSION: "2", "other.io/a": "b"}
    meta["annotations"] |= spec.pop("annotations", {})
    container = {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}} | spec.pop("container", {})
    return msgspec.convert(
        {"metadata": meta, "spec": {"schedulerName": "volcano", "containers": [container], **spec}}, records.Pod
    )


@pytest.mark.parametrize(
    ("spec", "way"),
    [
        pytest.param({}, None, id="simple"),
        pytest.param({"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a"}], "overhead": {"cpu": "1"}}, None, id="selector"),
        pytest.param({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {}}]}, None, id="plain volumes"),
        pytest.param({"nodeName": "n1"}, SeatRefusal.NODE, id="node"),
        pytest.param({"schedulerName": "default-scheduler"}, SeatRefusal.SCHEDULER, id="scheduler"),
        pytest.param({"schedulingGates": [{"name": "g"}]}, SeatRefusal.GATES, id="gates"),
        pytest.param({"annotations": {keys.QUEUE_ALLOCATION_GATE: "true"}}, SeatRefusal.GATES, id="gate of the queue"),
        pytest.param({"resourceClaims": [{"name": "r"}]}, SeatRefusal.RESOURCE_CLAIMS, id="resource claims"),
        pytest.param({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, SeatRefusal.CLAIMS, id="claim"),
        pytest.param({"volumes": [{"name": "v", "ephemeral": {}}]}, SeatRefusal.CLAIMS, id="ephemeral claim"),
        pytest.param({"container": {"resources": {"limits": {"nvidia.com/gpu": 1}}}}, SeatRefusal.DEVICES, id="device"),
        pytest.param({"annotations": {keys.NUMA_TOPOLOGY_POLICY: "restricted"}}, SeatRefusal.DEVICES, id="cpus"),
        pytest.param({"affinity": {"podAntiAffinity": {}}}, SeatRefusal.AFFINITY, id="affinity"),
        pytest.param({"topologySpreadConstraints": [{"maxSkew": 1}]}, SeatRefusal.AFFINITY, id="spread"),
        pytest.param({"container": {"ports": [{"hostPort": 80}]}}, SeatRefusal.PORTS, id="port"),
        pytest.param({"hostNetwork": True}, SeatRefusal.PORTS, id="host network"),
    ],
)
def test_refusal_of_pod_returns_the_unsupported_feature_and_none_for_a_simple_pod(spec, way):
    assert refusal_of_pod(pod(**spec), schedulers=OURS) is way


@pytest.mark.parametrize(
    ("spec", "way"),
    [
        pytest.param({}, None, id="simple"),
        pytest.param({"networkTopology": {"mode": "hard"}}, SeatRefusal.TOPOLOGY, id="topology"),
        pytest.param({"volumes": [{"mountPath": "/a", "volumeClaimName": "c"}]}, SeatRefusal.CLAIMS, id="claim"),
        pytest.param({"schedulerName": "other"}, SeatRefusal.SCHEDULER, id="scheduler"),
        pytest.param({"tasks": [task("w", 1, dependsOn={"name": ["m"]})]}, SeatRefusal.DEPENDS_ON, id="depends"),
        pytest.param({"tasks": [task("w", 1, topologyPolicy="best-effort")]}, SeatRefusal.DEVICES, id="cpus"),
        pytest.param({"tasks": [task("w", 4, partitionPolicy={"partitionSize": 2})]}, SeatRefusal.TOPOLOGY, id="partitions"),
    ],
)
def test_refusal_of_job_returns_the_unsupported_feature_or_forwarding_if_it_is_on(spec, way):
    found = job(**{"tasks": [task("w", 1)], "schedulerName": "volcano", **spec})
    assert refusal_of_job(found, schedulers=OURS, forwarding=False) is way
    assert refusal_of_job(found, schedulers=OURS, forwarding=True) is SeatRefusal.FORWARDING


def test_pod_built_from_a_seat_has_the_spec_labels_and_name_of_the_future_pod():
    made = pod(nodeSelector={"a": "b"}, tolerations=[{"key": "t", "tolerationSeconds": 300}])
    seats = Seats(tasks=(TaskSeats(role="w", prefix="j-w-", count=5, pod=template_of(made)),))
    group = records.Meta(name="g", namespace="n", uid="u")
    found = pod_of(group, 1, parse_seats(encode(seats)).tasks[0], 3)
    assert template_of(found).spec == template_of(made).spec
    assert found.metadata.labels == made.metadata.labels
    assert found.metadata.annotations == {keys.TASK_SPEC: "w", keys.TASK_INDEX: "3", keys.GROUP_NAME: "g"}
    assert (found.metadata.name, found.metadata.namespace) == ("j-w-3", "n")
    assert is_seat(found.metadata.uid)


def test_seat_template_is_the_same_for_pods_that_differ_only_in_node_and_index():
    one, other = pod(), pod(nodeName="n7")
    other.metadata.labels[keys.TASK_INDEX] = "8"
    assert template_of(one) == template_of(other)
    assert template_of(one) != template_of(pod(container={"resources": {"requests": {"cpu": "2"}}}))
    assert PodTemplate() == template_of(records.Pod())

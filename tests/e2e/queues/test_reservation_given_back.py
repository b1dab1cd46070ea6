"""A reservation ends when its target cannot start any more: the nodes go to others, and the PodGroup says why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.jobs.test_first_light import job
from tests.e2e.jobs.test_lifecycle import command
from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.reserving import configure, contended, events, group_of, reservation

NODES = 12
QUEUES = ("leaving", "limited", "closed")
PODS_MISSING = "2 pods of its gang are missing or wait behind a scheduling gate"


@pytest.fixture
def cluster(control_plane: str, tmp_path: Path) -> Iterator[Cluster]:
    """A control plane of the test's own, since its nodes are to be full; each queue may have a target."""
    with contended(control_plane, tmp_path, nodes=NODES) as cluster:
        yield cluster


def manifest(name: str, cpu: str, *, replicas: int, queue: str = "default", selector: dict[str, str] | None = None) -> str:
    """A gang whose pods take a node each."""
    made = json.loads(job(name, command=["sleep", "600"], replicas=replicas, queue=queue, cpu=cpu))
    made["spec"]["tasks"][0]["template"]["spec"]["nodeSelector"] = selector or {}
    return json.dumps(made)


def bare_group(name: str, cpu: str) -> list[dict[str, object]]:
    """A PodGroup for two pods that take a node each."""
    spec = {"minMember": 2, "minResources": {"cpu": str(2 * int(cpu))}, "queue": "default"}
    return [{"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}]


def gated_pods(group: str, cpu: str) -> list[dict[str, object]]:
    """Its pods, which wait behind somebody else's gate."""
    container = {"name": "c", "image": "busybox:1.37", "command": ["sleep", "600"], "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "volcano", "schedulingGates": [{"name": "somebody.example.com/gate"}], "containers": [container]}
    annotations = {"scheduling.k8s.io/group-name": group}
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{group}-{i}", "annotations": annotations}, "spec": spec}
        for i in range(2)
    ]


def create(cluster: Cluster, *texts: str) -> None:
    items = [json.loads(text) for text in texts]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    cluster.create(listed)


def runs(cluster: Cluster, name: str, count: int) -> bool:
    return bool(cluster.get("vcjob", name, "-n", "default").get("status", {}).get("running") == count)


def queue(name: str) -> str:
    return json.dumps({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}})


def is_released(cluster: Cluster, group: str, why: str) -> bool:
    return not reservation(cluster, group) and any(why in text for text in events(cluster, group, "ReservationReleased"))


@pytest.mark.timeout(600)
def test_reservation_is_released_with_a_reason_when_its_target_cannot_start(cluster: Cluster) -> None:
    cpu = str(cluster.get("nodes")["items"][0]["status"]["allocatable"]["cpu"])
    create(cluster, *(queue(name) for name in QUEUES))
    create(cluster, manifest("full", cpu, replicas=NODES))
    wait_until(lambda: runs(cluster, "full", NODES), "the nodes to be full", seconds=120)
    two = [node["metadata"]["name"] for node in cluster.get("nodes")["items"][:2]]
    cluster.kubectl("label", "node", *two, "pool=leaving")

    configure(cluster, "targetScope: queue, locksPerCycle: 4")
    bare = [*bare_group("never", cpu), *bare_group("gated", cpu), *gated_pods("gated", cpu)]
    create(cluster, *map(json.dumps, bare))
    create(cluster, *(manifest(f"job-{name}", cpu, replicas=2, queue=name, selector=pool(name)) for name in QUEUES))
    groups = {name: group_of(cluster, f"job-{name}") for name in QUEUES}
    for name, group in groups.items():
        wait_until(lambda: len(reservation(cluster, group).get("locks", ())) == 2, f"nodes for queue {name}")  # noqa: B023

    cluster.kubectl("delete", "node", two[0])
    limit = json.dumps({"spec": {"capability": {"cpu": cpu}}})
    cluster.kubectl("patch", "queue", "limited", "--type=merge", "-p", limit)
    cluster.create(command("CloseQueue", cluster.get("queue", "closed")))
    reasons = {
        groups["leaving"]: "the nodes that it may use do not hold it even when they are empty",
        groups["limited"]: "it asks for more than queue limited may have",
        groups["closed"]: "queue closed is closed",
        "never": PODS_MISSING,
        "gated": PODS_MISSING,
    }
    for group, why in reasons.items():
        wait_until(lambda: is_released(cluster, group, why), f"{group} to give its nodes back: {why}")  # noqa: B023

    create(cluster, manifest("late", cpu, replicas=1))
    cluster.kubectl("delete", "vcjob", "full", "-n", "default")
    wait_until(lambda: runs(cluster, "late", 1), "a small Job to run")


def pool(queue_name: str) -> dict[str, str]:
    """The nodes that a target of this queue may use: one set has a node that leaves."""
    return {"pool": "leaving"} if queue_name == "leaving" else {}

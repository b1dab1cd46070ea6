"""Rules of Kubernetes' own PodGroups that go beyond a gang that starts: order, eviction, topology, and who may not be mixed."""

from __future__ import annotations

import json
import time

import pytest

from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.natives import (
    GROUPS,
    NODES,
    QUEUE,
    conditions,
    gang,
    group,
    group_of,
    is_scheduled,
    job,
    make,
    member,
    nodes,
    priority_class,
    writes,
)

STILL_SECONDS = 3.0
"""So long nothing may happen that should not."""


def uids(own: Cluster, namespace: str, prefix: str) -> set[str]:
    """Of the pods that are not on their way out."""
    pods = [pod["metadata"] for pod in own.get("pods", "-n", namespace)["items"]]
    return {meta["uid"] for meta in pods if meta["name"].startswith(prefix) and "deletionTimestamp" not in meta}


def test_preemption_evicts_the_pod_without_a_disruption_budget(own: Cluster, namespace: str, cpu: str) -> None:
    make(own, namespace, group("low", gang(1)))
    for i in range(NODES):
        body = member(f"low-{i}", "low", cpu)
        body["metadata"]["labels"] = {"is": "protected" if i else "free"}
        make(own, namespace, body)
    budget = {"minAvailable": "100%", "selector": {"matchLabels": {"is": "protected"}}}
    make(own, namespace, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": budget})
    wait_until(lambda: len(nodes(own, namespace)) == NODES, "all nodes to be taken")
    high = f"high-{namespace}"
    make(own, namespace, priority_class(high, 100), group("high", gang(1, priorityClassName=high)))
    make(own, namespace, member("high-0", "high", cpu, priorityClassName=high))
    wait_until(lambda: is_scheduled(own, namespace, "high"), "the gang of higher priority to start")
    left = {pod["metadata"]["name"] for pod in own.get("pods", "-n", namespace)["items"]}
    assert left == {"low-1", "low-2", "low-3", "high-0"}


@pytest.mark.parametrize(("keeps", "left"), [(2, 3), (1, 0)], ids=["not below what its queue deserves", "with all its pods"])
def test_gang_with_disruption_mode_all_is_reclaimed_whole_or_not_at_all(
    own: Cluster, namespace: str, cpu: str, keeps: int, left: int
) -> None:
    """The pod of another gang can be reclaimed in the first case; in the second it is protected."""
    taker, giver = (f"{each}-{namespace}" for each in ("taker", "giver"))
    for name, count in ((taker, NODES - keeps), (giver, keeps)):
        body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        make(own, namespace, {**body, "spec": {"deserved": {"cpu": str(count * int(cpu))}, "reclaimable": True}})
    whole, annotations = gang(3, disruptionMode={"all": {}}), {} if left else {"volcano.sh/preemptable": "false"}
    make(own, namespace, group("base", gang(1), labels={QUEUE: giver}, annotations=annotations), member("base-0", "base", cpu))
    make(own, namespace, group("low", whole, labels={QUEUE: giver}), *(member(f"low-{i}", "low", cpu) for i in range(3)))
    wait_until(lambda: len(nodes(own, namespace)) == NODES, "all nodes to be taken")
    make(own, namespace, group("mine", gang(1), labels={QUEUE: taker}), member("mine-0", "mine", cpu))
    wait_until(lambda: is_scheduled(own, namespace, "mine"), "the queue to take back what it deserves")
    assert len(uids(own, namespace, "low-")) == left
    assert len(uids(own, namespace, "base-")) == (0 if left else 1)
    if left:
        return
    wait_until(lambda: "DisruptionTarget" in conditions(own, namespace, "low"), "the group to say so")
    for i in range(3):  # the pods are told before they are deleted
        uri = f"/api/v1/namespaces/{namespace}/pods/low-{i}"
        requests = [json.loads(line) for line in own.audit_log.read_text().splitlines() if uri in line]
        ours = [each["verb"] for each in requests if "scheduler" in each["user"]["username"]]
        assert ours.index("patch") < ours.index("delete")


def test_pod_waits_until_a_node_has_the_topology_label(own: Cluster, namespace: str, cpu: str) -> None:
    spec = gang(1, schedulingConstraints={"topology": [{"key": "rack"}]})
    make(own, namespace, group("g", spec), member("p", "g", cpu))
    wait_until(lambda: conditions(own, namespace), "the condition")
    time.sleep(STILL_SECONDS)
    assert nodes(own, namespace) == []
    own.kubectl("label", "node", "node-2", "rack=r")
    try:
        wait_until(lambda: nodes(own, namespace) == ["node-2"], "the node with the label to be taken")
    finally:
        own.kubectl("label", "node", "node-2", "rack-")


def test_services_write_only_the_status_of_a_native_podgroup(own: Cluster, namespace: str, cpu: str) -> None:
    make(own, namespace, job("gang", cpu, 2, gang(2)))
    wait_until(lambda: is_scheduled(own, namespace), "the gang to start")
    name = group_of(own, namespace, "gang")
    uri = f"/namespaces/{namespace}/podgroups/{name}"
    for verb in ("patch", "update"):
        written = [found for user, found in writes(own, uri, verb=verb) if "pyroclast" in user or "volcano" in user]
        assert all("/status" in each for each in written)
    assert own.get(GROUPS, name, "-n", namespace)["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]

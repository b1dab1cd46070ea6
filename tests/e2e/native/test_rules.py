"""Rules of Kubernetes' own PodGroups that go beyond a gang that starts: order, eviction, topology, and who may not be mixed."""

from __future__ import annotations

import json
import time

import pytest

from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.natives import (
    GROUPS,
    NODES,
    OURS,
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
    pod_spec,
    priority_class,
    writes,
)

BY_ZONE = {"schedulingConstraints": {"topology": [{"key": "zone"}]}}
STILL_SECONDS = 3.0
"""So long nothing may happen that should not."""


def uids(own: Cluster, namespace: str, prefix: str) -> set[str]:
    """Of the pods that are not on their way out."""
    pods = [pod["metadata"] for pod in own.get("pods", "-n", namespace)["items"]]
    return {meta["uid"] for meta in pods if meta["name"].startswith(prefix) and "deletionTimestamp" not in meta}


def full(own: Cluster, namespace: str, cpu: str, **more: object) -> set[str]:
    """Fill all nodes with one gang of low priority, and say which pods these are."""
    make(own, namespace, group("low", gang(NODES, **more)), *(member(f"low-{i}", "low", cpu) for i in range(NODES)))
    wait_until(lambda: len(nodes(own, namespace)) == NODES, "the gang to start")
    return uids(own, namespace, "low-")


def test_pods_beyond_the_gang_minimum_start_when_nodes_become_free(own: Cluster, namespace: str, cpu: str) -> None:
    own.kubectl("cordon", "node-3")
    try:
        make(own, namespace, group("g", gang(3)), *(member(f"p{i}", "g", cpu) for i in range(5)))
        wait_until(lambda: len(nodes(own, namespace)) == 3, "the minimum to start")
    finally:
        own.kubectl("uncordon", "node-3")
    wait_until(lambda: len(nodes(own, namespace)) == 4, "a fourth to start")
    first = next(pod for pod in own.get("pods", "-n", namespace)["items"] if pod["spec"].get("nodeName"))
    own.kubectl("delete", "pod", first["metadata"]["name"], "-n", namespace)
    wait_until(lambda: len(nodes(own, namespace)) == 4, "the fifth to start")


def test_queue_label_of_a_podgroup_overrides_those_of_pod_and_namespace(own: Cluster, namespace: str, cpu: str) -> None:
    queues = [
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": f"{each}-{namespace}"}, "spec": {}}
        for each in ("group", "pod", "namespace")
    ]
    own.kubectl("annotate", "namespace", namespace, f"{QUEUE}=namespace-{namespace}")
    pod = member("p", "g", cpu)
    pod["metadata"]["labels"] = {QUEUE: f"pod-{namespace}"}
    make(own, namespace, *queues, group("g", gang(1), labels={QUEUE: f"group-{namespace}"}), pod)

    def counted() -> list[str]:
        found = []
        for each in ("group", "pod", "namespace"):
            status = own.get("queue", f"{each}-{namespace}").get("status") or {}
            found += [each] if str((status.get("allocated") or {}).get("cpu", "0")) == cpu else []
        return found

    wait_until(lambda: counted() == ["group"], "the queue of the label to count it")


def test_no_pod_is_evicted_for_a_gang_that_would_still_not_fit(own: Cluster, namespace: str, cpu: str) -> None:
    before = full(own, namespace, cpu)
    high, size = f"high-{namespace}", NODES + 1
    pods = (member(f"p{i}", "high", cpu, priorityClassName=high) for i in range(size))
    make(own, namespace, priority_class(high, 100))
    make(own, namespace, group("high", gang(size, priorityClassName=high)), *pods)
    wait_until(lambda: conditions(own, namespace, "high"), "the condition")
    time.sleep(STILL_SECONDS)
    assert uids(own, namespace, "low-") == before


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


def test_gang_with_preemption_policy_never_does_not_evict_pods(own: Cluster, namespace: str, cpu: str) -> None:
    before = full(own, namespace, cpu)
    high = f"high-{namespace}"
    spec = gang(1, priorityClassName=high, preemptionPolicy="Never")
    pod = member("p", "high", cpu, priorityClassName=high, preemptionPolicy="Never")
    never = {**priority_class(high, 100), "preemptionPolicy": "Never"}
    make(own, namespace, never)
    make(own, namespace, group("high", spec), pod)
    wait_until(lambda: conditions(own, namespace, "high"), "the condition")
    time.sleep(STILL_SECONDS)
    assert uids(own, namespace, "low-") == before


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


def test_pods_already_placed_pin_the_topology_domain_of_their_gang(own: Cluster, namespace: str, cpu: str) -> None:
    """Zone b has one node, which is taken."""
    make(own, namespace, group("g", gang(1, **BY_ZONE)), member("p0", "g", cpu, nodeSelector={"zone": "b"}))
    wait_until(lambda: nodes(own, namespace) == ["node-3"], "the first to start")
    make(own, namespace, member("p1", "g", cpu))
    time.sleep(STILL_SECONDS)
    assert nodes(own, namespace) == ["node-3"]


def test_gang_larger_than_every_zone_waits_with_a_condition_that_names_the_zone(own: Cluster, namespace: str, cpu: str) -> None:
    make(own, namespace, group("g", gang(NODES, **BY_ZONE)), *(member(f"p{i}", "g", cpu) for i in range(NODES)))
    wait_until(lambda: conditions(own, namespace), "the condition")
    time.sleep(STILL_SECONDS)
    assert nodes(own, namespace) == []
    assert "zone" in conditions(own, namespace)["PodGroupInitiallyScheduled"][2]


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


def test_gang_with_two_scheduler_names_gets_the_error_of_kube_scheduler(own: Cluster, namespace: str, cpu: str) -> None:
    other = member("b", "g", cpu)
    other["spec"] = pod_spec(cpu, schedulingGroup={"podGroupName": "g"}, schedulerName="another")
    make(own, namespace, group("g", gang(2)), member("a", "g", cpu), other)
    text = 'all pods in a single pod group should have the same .spec.schedulerName set, got: "volcano" and "another"'
    want = ("False", "SchedulerError", text)
    wait_until(lambda: conditions(own, namespace).get("PodGroupInitiallyScheduled") == want, "the condition")
    assert nodes(own, namespace) == []


def test_volcano_and_native_podgroups_of_the_same_name_are_separate_gangs(own: Cluster, namespace: str, cpu: str) -> None:
    volcano = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
    theirs = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "v", "annotations": {"scheduling.k8s.io/group-name": "g"}}}
    make(own, namespace, {**volcano, "spec": {"minMember": 1}}, {**theirs, "spec": pod_spec(cpu)})
    make(own, namespace, group("g", gang(2)), member("n0", "g", cpu))
    wait_until(lambda: len(nodes(own, namespace)) == 1, "the group of Volcano to start")
    time.sleep(STILL_SECONDS)
    assert len(nodes(own, namespace)) == 1
    make(own, namespace, member("n1", "g", cpu))
    wait_until(lambda: len(nodes(own, namespace)) == 3, "both to start")
    assert [each["metadata"]["name"] for each in own.get(OURS, "-n", namespace)["items"]] == ["g"]


def test_services_write_only_the_status_of_a_native_podgroup(own: Cluster, namespace: str, cpu: str) -> None:
    make(own, namespace, job("gang", cpu, 2, gang(2)))
    wait_until(lambda: is_scheduled(own, namespace), "the gang to start")
    name = group_of(own, namespace, "gang")
    uri = f"/namespaces/{namespace}/podgroups/{name}"
    for verb in ("patch", "update"):
        written = [found for user, found in writes(own, uri, verb=verb) if "pyroclast" in user or "volcano" in user]
        assert all("/status" in each for each in written)
    assert own.get(GROUPS, name, "-n", namespace)["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]

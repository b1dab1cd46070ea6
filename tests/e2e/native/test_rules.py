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


def test_members_beyond_the_minimum_start_as_room_comes(own: Cluster, namespace: str, cpu: str) -> None:
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


def test_the_label_of_the_group_names_the_queue_before_all_others(own: Cluster, namespace: str, cpu: str) -> None:
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


def test_nobody_is_evicted_for_a_gang_that_would_not_start(own: Cluster, namespace: str, cpu: str) -> None:
    before = full(own, namespace, cpu)
    high, size = f"high-{namespace}", NODES + 1
    pods = (member(f"p{i}", "high", cpu, priorityClassName=high) for i in range(size))
    make(own, namespace, priority_class(high, 100))
    make(own, namespace, group("high", gang(size, priorityClassName=high)), *pods)
    wait_until(lambda: conditions(own, namespace, "high"), "the condition")
    time.sleep(STILL_SECONDS)
    assert uids(own, namespace, "low-") == before


def test_pods_that_a_disruption_budget_protects_go_last(own: Cluster, namespace: str, cpu: str) -> None:
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


def test_a_gang_that_never_preempts_evicts_nobody(own: Cluster, namespace: str, cpu: str) -> None:
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
def test_a_gang_that_goes_whole_is_reclaimed_whole_or_not(own: Cluster, namespace: str, cpu: str, keeps: int, left: int) -> None:
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


def test_members_with_nodes_pin_the_domain(own: Cluster, namespace: str, cpu: str) -> None:
    """Zone b has one node, which is taken."""
    make(own, namespace, group("g", gang(1, **BY_ZONE)), member("p0", "g", cpu, nodeSelector={"zone": "b"}))
    wait_until(lambda: nodes(own, namespace) == ["node-3"], "the first to start")
    make(own, namespace, member("p1", "g", cpu))
    time.sleep(STILL_SECONDS)
    assert nodes(own, namespace) == ["node-3"]


def test_no_zone_is_large_enough(own: Cluster, namespace: str, cpu: str) -> None:
    make(own, namespace, group("g", gang(NODES, **BY_ZONE)), *(member(f"p{i}", "g", cpu) for i in range(NODES)))
    wait_until(lambda: conditions(own, namespace), "the condition")
    time.sleep(STILL_SECONDS)
    assert nodes(own, namespace) == []
    assert "zone" in conditions(own, namespace)["PodGroupInitiallyScheduled"][2]


def test_no_pod_goes_to_a_node_without_the_label(own: Cluster, namespace: str, cpu: str) -> None:
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


def test_pods_of_two_schedulers_are_refused_in_the_words_of_kube_scheduler(own: Cluster, namespace: str, cpu: str) -> None:
    other = member("b", "g", cpu)
    other["spec"] = pod_spec(cpu, schedulingGroup={"podGroupName": "g"}, schedulerName="another")
    make(own, namespace, group("g", gang(2)), member("a", "g", cpu), other)
    text = 'all pods in a single pod group should have the same .spec.schedulerName set, got: "volcano" and "another"'
    want = ("False", "SchedulerError", text)
    wait_until(lambda: conditions(own, namespace).get("PodGroupInitiallyScheduled") == want, "the condition")
    assert nodes(own, namespace) == []


def test_groups_of_one_name_in_both_apis_are_two(own: Cluster, namespace: str, cpu: str) -> None:
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


def test_neither_spec_nor_finalizers_of_a_group_are_written(own: Cluster, namespace: str, cpu: str) -> None:
    make(own, namespace, job("gang", cpu, 2, gang(2)))
    wait_until(lambda: is_scheduled(own, namespace), "the gang to start")
    name = group_of(own, namespace, "gang")
    uri = f"/namespaces/{namespace}/podgroups/{name}"
    for verb in ("patch", "update"):
        written = [found for user, found in writes(own, uri, verb=verb) if "pyroclast" in user or "volcano" in user]
        assert all("/status" in each for each in written)
    assert own.get(GROUPS, name, "-n", namespace)["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]

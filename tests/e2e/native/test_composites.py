"""CompositePodGroups on a Kubernetes that serves them: trees of PodGroups start together, or not at all."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.natives import (
    COMPOSITES,
    GROUPS,
    composite,
    conditions,
    gang,
    group,
    is_scheduled,
    make,
    member,
    nodes,
    part,
    patches,
    priority_class,
)
from tests.e2e.support.shell import Shell

ZONE = {"schedulingConstraints": {"topology": [{"key": "zone"}]}}
QUEUED = "pyroclast.dev/Queued"
STILL_SECONDS = 3.0
STARTED = ("True", "Scheduled", "")


def members(cpu: str, **sizes: int) -> list[dict[str, object]]:
    return [member(f"{name}-{i}", name, cpu) for name, size in sizes.items() for i in range(size)]


def placed(own: Cluster, namespace: str) -> dict[str, int]:
    """How many pods of each group have a node."""
    pods = [pod for pod in own.get("pods", "-n", namespace)["items"] if pod["spec"].get("nodeName")]
    return dict(Counter(pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods))


def test_composite_podgroup_starts_all_groups_in_one_zone_and_sets_scheduled_conditions(
    own: Cluster, namespace: str, cpu: str
) -> None:
    """The pods come first, then their groups, then what these belong to."""
    make(own, namespace, *members(cpu, g=1, h=2))
    make(own, namespace, part("g", "c", 1), part("h", "d", 2))
    lacks = "CompositePodGroup c does not exist"  # before the scheduler has found the kind, it says that this is not served
    wait_until(lambda: lacks in str(conditions(own, namespace, "g")), "the group to say that it lacks its parent")
    make(own, namespace, composite("d", 1, parentCompositePodGroupName="c"), composite("c", 2, **ZONE))
    wait_until(lambda: nodes(own, namespace) == ["node-0", "node-1", "node-2"], "the whole to start")
    for name in ("c", "d"):
        scheduled = "CompositePodGroupInitiallyScheduled"
        wait_until(lambda: conditions(own, namespace, name, COMPOSITES).get(scheduled) == STARTED, f"{name} to say so")  # noqa: B023
    for name in ("g", "h"):
        wait_until(lambda: is_scheduled(own, namespace, name), f"{name} to say so")  # noqa: B023
    assert "Scheduled" in own.kubectl("get", GROUPS, "-n", namespace)


def test_composite_podgroup_binds_no_pod_until_every_group_has_all_pods(own: Cluster, namespace: str, cpu: str) -> None:
    make(own, namespace, composite("c", 2), part("g", "c", 1), part("h", "c", 2), *members(cpu, g=1, h=1))
    text = "CompositePodGroup c: 1 of 2 groups are complete; PodGroup h: 1 of 2 pods present"
    wait_until(lambda: conditions(own, namespace, "c", COMPOSITES), "the condition")
    said = conditions(own, namespace, "c", COMPOSITES)["CompositePodGroupInitiallyScheduled"]
    assert said == ("False", "Unschedulable", text)
    wait_until(lambda: conditions(own, namespace, "g"), "the group to say so too")
    shell = Shell(own.kubeconfig, namespace)
    assert text in shell.run("vcctl", "explain", "podgroup/g", "-n", namespace).stdout
    time.sleep(STILL_SECONDS)
    assert nodes(own, namespace) == []
    assert len(patches(own, f"/namespaces/{namespace}/compositepodgroups/c/status")) <= 2
    make(own, namespace, member("h-1", "h", cpu))
    wait_until(lambda: placed(own, namespace) == {"g": 1, "h": 2}, "the whole to start")


def test_composite_podgroups_in_a_parent_cycle_get_an_invalid_condition(own: Cluster, namespace: str, cpu: str) -> None:
    make(own, namespace, composite("c", 1, parentCompositePodGroupName="d"), composite("d", 1, parentCompositePodGroupName="c"))
    make(own, namespace, part("g", "c", 1), *members(cpu, g=1))
    text = "spec.parentCompositePodGroupName: CompositePodGroup c is above itself"
    for name in ("c", "d"):
        want = {"CompositePodGroupInitiallyScheduled": ("False", "Invalid", text), QUEUED: ("True", "LeftOut", text)}
        wait_until(lambda: conditions(own, namespace, name, COMPOSITES) == want, f"{name} to say so")  # noqa: B023
    assert conditions(own, namespace, "g")["PodGroupInitiallyScheduled"] == ("False", "SchedulerError", text)
    assert nodes(own, namespace) == []


def test_composite_podgroup_preempts_for_exactly_its_minimum_of_groups(own: Cluster, namespace: str, cpu: str) -> None:
    """The first group leaves no room for a second one; the two others fit."""
    make(own, namespace, *(group(f"low-{i}", gang(1)) for i in range(4)), *members(cpu, **{f"low-{i}": 1 for i in range(4)}))
    wait_until(lambda: len(nodes(own, namespace)) == 4, "all nodes to be taken")
    high = f"high-{namespace}"
    top = {"priorityClassName": high}
    sizes = {"g": 3, "h": 2, "k": 2}
    make(own, namespace, priority_class(high, 100), composite("c", 2, **top))
    make(own, namespace, *(part(name, "c", size, **top) for name, size in sizes.items()))
    make(own, namespace, *(member(f"{name}-{i}", name, cpu, **top) for name, size in sizes.items() for i in range(size)))
    wait_until(lambda: placed(own, namespace) == {"h": 2, "k": 2}, "two groups to start")


@pytest.mark.parametrize("mode", ["single", "all"])
def test_disruption_mode_decides_whether_a_composite_podgroup_is_evicted_whole_or_by_pod(
    own: Cluster, namespace: str, cpu: str, mode: str
) -> None:
    low, high = composite("low", 2, disruptionMode={mode: {}}), f"high-{namespace}"
    make(own, namespace, low, part("g", "low", 2), part("h", "low", 2), *members(cpu, g=2, h=2))
    wait_until(lambda: len(nodes(own, namespace)) == 4, "the tree to start")
    scheduled = "CompositePodGroupInitiallyScheduled"  # its next condition is written five seconds later, when its pods are gone
    wait_until(lambda: conditions(own, namespace, "low", COMPOSITES).get(scheduled) == STARTED, "the tree to say so")
    make(own, namespace, priority_class(high, 100), group("high", gang(1, priorityClassName=high)))
    make(own, namespace, member("high-0", "high", cpu, priorityClassName=high))
    wait_until(lambda: is_scheduled(own, namespace, "high"), "the gang of higher priority to start")
    left = placed(own, namespace)
    assert left.pop("high") == 1
    assert sum(left.values()) == (3 if mode == "single" else 0)
    if mode == "all":
        wait_until(lambda: "DisruptionTarget" in conditions(own, namespace, "low", COMPOSITES), "the tree to say so")
        wait_until(lambda: "DisruptionTarget" in conditions(own, namespace, "g"), "its groups to say so")

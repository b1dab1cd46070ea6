"""CompositePodGroups on a Kubernetes that serves them: trees of PodGroups start together, or not at all."""

from __future__ import annotations

from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.natives import (
    COMPOSITES,
    GROUPS,
    composite,
    conditions,
    is_scheduled,
    make,
    member,
    nodes,
    part,
)

ZONE = {"schedulingConstraints": {"topology": [{"key": "zone"}]}}
STARTED = ("True", "Scheduled", "")


def members(cpu: str, **sizes: int) -> list[dict[str, object]]:
    return [member(f"{name}-{i}", name, cpu) for name, size in sizes.items() for i in range(size)]


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

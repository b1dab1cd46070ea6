"""The readers of groups: one record whichever API described it, and each fact of Kubernetes' own PodGroups with its sources."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import pyroclast_scheduler
from pyroclast.api import records
from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.types import NATIVE_POD_GROUPS
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.lifecycle.gang.groups import Group, Hold, volcano_group, volcano_record
from pyroclast_scheduler.cache.group_readers import native
from pyroclast_scheduler.cache.group_readers.native import QueueSources
from pyroclast_scheduler.model.shapes import ShapeBook
from pyroclast_scheduler.model.tasks import task_of
from tests.scenarios import objects
from tests.unit.scheduler.natives import gang, namespace, pod

MIXED = 'all pods in a single pod group should have the same .spec.schedulerName set, got: "volcano" and "default-scheduler"'
PRIORITY = "all pods in a single pod group should have the same priority as the pod group's priority, got 5 and 0"
PARENT = "spec.parentCompositePodGroupName: CompositePodGroup c does not exist"
KEY = "scheduling.volcano.sh/queue-name"


def pods(count: int, **given: Any) -> list[records.Pod]:
    return [pod(f"p-{i}", **given) for i in range(count)]


def reading(record: records.NativePodGroup, found: Sequence[records.Pod], **given: Any) -> tuple[Group | None, bool]:
    book = ShapeBook()
    tasks = [task_of(each, book) for each in found]
    members = native.Members(tasks, *(given.pop(name, default) for name, default in _OF_MEMBERS.items()))
    queues = given.pop("queues", QueueSources())
    return native.read(record, members, kind=NATIVE_POD_GROUPS, names=("volcano",), queues=queues, **given)


_OF_MEMBERS = {"elsewhere": (), "settled": 0.0, "fixed_queue": ""}


def read(record: records.NativePodGroup, found: Sequence[records.Pod], **given: Any) -> Group:
    group, _ = reading(record, found, **given)
    assert group is not None
    return group


@dataclass(frozen=True)
class Case:
    record: records.NativePodGroup
    pods: Sequence[records.Pod]
    want: dict[str, Any]
    given: dict[str, Any] = field(default_factory=dict)


def missing(text: str) -> Hold:
    return Hold(PendingReason.PODS_MISSING, text)


DONE = [pod("d", node="n", phase="Succeeded"), pod("e", node="n", phase="Succeeded")]
CASES = {
    "basic starts with any pod": Case(gang(minimum=None), pods(5), {"min_member": 1, "hold": None}),
    "a gang needs its minCount": Case(gang(), pods(5), {"min_member": 3, "hold": None}),
    "a gang that never started counts no pod that succeeded": Case(
        gang(), [*DONE, pod("p")], {"hold": missing("1 of 3 pods present")}
    ),
    "once started, peers that succeeded are not waited for": Case(
        gang(started=True), [*DONE, pod("p", node="n")], {"min_member": 3, "hold": None}
    ),
    "the last replacement starts when nobody else comes": Case(
        gang(started=True), [*DONE, pod("p")], {"min_member": 3, "hold": None}, {"settled": 2.0}
    ),
    "members that ended before it was written that it started count": Case(
        gang(), [*DONE, pod("p", node="n")], {"min_member": 3, "hold": None}
    ),
    "until then others may be on their way": Case(
        gang(started=True), [*DONE, pod("p")], {"hold": missing("1 of 3 pods present")}, {"settled": 1.0}
    ),
    "a gang of which all succeeded lacks nobody": Case(gang(minimum=2, started=True), DONE, {"min_member": 2, "hold": None}),
    "priority is that of the group": Case(
        gang(spec={"priority": 7}), pods(3, priority=7), {"priority": 7, "hold": None}
    ),
    "a pod of another priority is an error": Case(
        gang(), [*pods(2), pod("x", priority=5)], {"hold": Hold(PendingReason.LEFT_OUT, PRIORITY, is_error=True)}
    ),
    "a pod of another scheduler is an error": Case(
        gang(), pods(3), {"hold": Hold(PendingReason.LEFT_OUT, MIXED, is_error=True)}, {"elsewhere": ["default-scheduler"]}
    ),
    "also one that is bound": Case(
        gang(), [*pods(2), pod("x", node="n", scheduler="default-scheduler")],
        {"hold": Hold(PendingReason.LEFT_OUT, MIXED, is_error=True)},
    ),
    "one pod behind a gate holds all": Case(
        gang(), [*pods(3), pod("x", spec={"schedulingGates": [{"name": "example.com/g"}]})],
        {"hold": Hold(PendingReason.GATED, "1 pod waits behind scheduling gates: example.com/g")},
    ),
    "a group whose parent is missing is held": Case(
        gang(), pods(3), {"hold": Hold(PendingReason.LEFT_OUT, PARENT)}, {"obstacle": Hold(PendingReason.LEFT_OUT, PARENT)}
    ),
    "the minimum is the sum of the oldest members": Case(
        gang(minimum=2), [pod("c", age=1, cpu=9), pod("a", age=3, cpu=2), pod("b", age=2, cpu=3)],
        {"member_resources": {"cpu": 5000, "memory": 0, "pods": 2}},
    ),
    "disruptionMode all goes whole": Case(gang(spec={"disruptionMode": {"all": {}}}), pods(3), {"evicts_whole": True}),
    "disruptionMode single does not": Case(gang(spec={"disruptionMode": {"single": {}}}), pods(3), {"evicts_whole": False}),
    "preemptionPolicy Never of the group": Case(gang(spec={"preemptionPolicy": "Never"}), pods(3), {"never_preempts": True}),
    "preemptionPolicy Never of all pods": Case(
        gang(), pods(3, spec={"preemptionPolicy": "Never"}), {"never_preempts": True}
    ),
    "the group's policy goes before that of its pods": Case(
        gang(spec={"preemptionPolicy": "PreemptLowerPriority"}), pods(3, spec={"preemptionPolicy": "Never"}),
        {"never_preempts": False},
    ),
    "topology": Case(
        gang(spec={"schedulingConstraints": {"topology": [{"key": "zone"}]}}), pods(3), {"topology_key": "zone"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_native_podgroup_and_its_pods_give_the_expected_scheduling_spec(case: Case):
    spec = read(case.record, case.pods, **case.given).spec
    assert {name: getattr(spec, name) for name in case.want} == case.want


def test_a_podgroup_without_pods_of_this_scheduler_is_ignored():
    assert reading(gang(), []) == (None, False)
    assert reading(gang(), [pod("x", node="n", scheduler="default-scheduler")]) == (None, False)


def test_only_a_started_gang_with_missing_pods_is_read_again_after_some_time():
    assert reading(gang(started=True), [*DONE, pod("p")])[1]
    assert not reading(gang(), pods(2))[1]


def test_a_started_podgroup_has_phase_inqueue_and_a_new_podgroup_pending():
    assert read(gang(started=True), pods(3)).status.phase is PodGroupPhase.INQUEUE
    assert read(gang(), pods(3)).status.phase is PodGroupPhase.PENDING


def test_a_podgroup_inherits_certain_annotations_of_its_oldest_pod_unless_it_sets_them():
    record = gang(annotations={"volcano.sh/sla-waiting-time": "1h"})
    given = {
        "volcano.sh/sla-waiting-time": "2h",
        "volcano.sh/revocable-zone": "*",
        "other": "x",
        "volcano.sh/preemptable": "false",
    }
    group = read(record, [pod("b", age=1, annotations={"volcano.sh/a": "b"}), pod("a", age=2, annotations=given)])
    assert group.metadata.annotations == {"volcano.sh/sla-waiting-time": "1h", "volcano.sh/revocable-zone": "*"}


JOB = ("batch/v1", "Job", "job-uid")


def sources(*, job: str = "", space: str = "") -> QueueSources:
    found = QueueSources()
    if job:
        found.job_changed(None, records.Meta(uid="job-uid", labels={KEY: job}))
    if space:
        found.namespace_changed(None, namespace(space).metadata)
    return found


QUEUES = {
    "label of the PodGroup": ({"labels": {KEY: "a"}, "annotations": {KEY: "b"}}, {"labels": {KEY: "c"}}, ("d", "e"), "a"),
    "annotation of the PodGroup": ({"annotations": {KEY: "b"}}, {"labels": {KEY: "c"}}, ("d", "e"), "b"),
    "label of the pod": ({}, {"labels": {KEY: "c"}, "annotations": {KEY: "x"}}, ("d", "e"), "c"),
    "annotation of the pod": ({}, {"annotations": {KEY: "x"}}, ("d", "e"), "x"),
    "the Job": ({"owner": JOB}, {}, ("d", "e"), "d"),
    "the Job of the pod": ({}, {"owner": JOB}, ("d", "e"), "d"),
    "a Job of another kind is none": ({"owner": ("example.com/v1", "Job", "job-uid")}, {}, ("d", "e"), "e"),
    "the Namespace": ({"owner": JOB}, {}, ("", "e"), "e"),
    "nobody": ({}, {}, ("", ""), ""),
}


@pytest.mark.parametrize(("group", "member", "known", "want"), QUEUES.values(), ids=QUEUES.keys())
def test_the_queue_is_taken_from_podgroup_then_pod_then_job_then_namespace(
    group: dict[str, Any], member: dict[str, Any], known: tuple[str, str], want: str
):
    found = read(gang(**group), [pod("p", **member)], queues=sources(job=known[0], space=known[1]))
    assert found.spec.queue == want


def test_the_oldest_pod_names_the_queue_until_a_pod_is_bound():
    members = [pod("young", age=1, labels={KEY: "a"}), pod("old", age=2, labels={KEY: "b"})]
    assert read(gang(minimum=1), members).spec.queue == "b"
    assert read(gang(minimum=1), members, fixed_queue="a").spec.queue == "b"
    bound = [pod("young", age=1, node="n", labels={KEY: "a"}), members[1]]
    assert read(gang(minimum=1), bound, fixed_queue="a").spec.queue == "a"


_BEHIND = ("actions", "eviction", "model", "placement", "plugins", "session", "cycle.py")
_KINDS = {"PodGroup", "PodGroupSpec", "PodGroupStatus", "PodGroupCondition", "POD_GROUPS", "NATIVE_POD_GROUPS"}


def _named(source: Path) -> set[str]:
    """The kinds of either API that a module names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in _KINDS:
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            found.update(alias.name for alias in node.names if alias.name in _KINDS)
        elif isinstance(node, ast.Attribute) and node.attr.startswith("NativePodGroup"):
            found.add(node.attr)
    return found


def test_no_decision_module_names_a_podgroup_kind():
    root = Path(pyroclast_scheduler.__file__).parent
    sources = [path for part in _BEHIND for path in ([root / part] if part.endswith(".py") else (root / part).rglob("*.py"))]
    named = {str(path.relative_to(root)): found for path in sources if (found := _named(path))}
    assert named == {}


def test_a_volcano_podgroup_converted_to_a_group_and_back_is_unchanged():
    record = objects.pod_group(["j", "q", 2, {"annotations": {"a": "b"}}])
    group = volcano_group(record)
    assert (group.key, group.spec.min_member, group.spec.queue) == ("t/j", 2, "q")
    assert volcano_record(group) == record

"""Why a Job waits: the condition of its PodGroup, `status.waiting`, an absent scheduler, and stuck containers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase, PodGroupPhase, PodPhase
from pyroclast.api.records import Condition, Job, JobWaiting, Pod, PodGroup
from pyroclast.api.schedulers import Schedulers, SilentLeader
from pyroclast.api.waiting import Waiting, written_waiting
from pyroclast.lifecycle.job import waits
from pyroclast.lifecycle.job.decide import decide
from pyroclast.lifecycle.job.status import written
from pyroclast.lifecycle.job.waits import (
    absence_recheck_at,
    absent_scheduler,
    examination_recheck_at,
    newest_condition,
    stuck,
    unexamined,
)
from pyroclast.lifecycle.times import format_time, parse_time
from tests.unit.lifecycle.builders import CREATED, NOW, decode, facts, group, job, pod, task, template


def stuck_pod(name: str, reason: str = "", message: str = "", *, init: str = "") -> Pod:
    def status(container: str, why: str) -> dict[str, object]:
        return {"name": container, "state": {"waiting": {"reason": why, "message": message}} if why else {}}

    statuses = {"containerStatuses": [status("main", reason)], "initContainerStatuses": [status("setup", init)]}
    spec = {"containers": [{"name": "main", "image": "hub/x:1"}], "initContainers": [{"name": "setup", "image": "prep"}]}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec, "status": statuses}, Pod)


REFUSED = "ImageRefused: an image cannot be pulled on 1 pod; a, container main, image hub/x:1"
PULLED = 'failed to pull and unpack image "hub/x:1": failed to resolve reference "hub/x:1": '


STUCK = {
    "all is well": ([stuck_pod("a", "ContainerCreating"), stuck_pod("b")], ""),
    "an image": (
        [
            stuck_pod("b", "ImagePullBackOff", 'Back-off pulling image "hub/x:1"'),
            stuck_pod("a", "ErrImagePull", "not found"),
            stuck_pod("c"),
        ],
        "ImageRefused: an image cannot be pulled on 2 pods; a, container main, image hub/x:1: not found",
    ),
    "the image of an init container": (
        [stuck_pod("a", "PodInitializing", init="InvalidImageName")],
        "ImageRefused: an image cannot be pulled on 1 pod; a, container setup, image prep",
    ),
    "the answer of the registry, while kubelet tries": (
        [stuck_pod("a", "ErrImagePull", f"rpc error: code = NotFound desc = {PULLED}hub/x:1: not found")],
        f"{REFUSED}: hub/x:1: not found",
    ),
    "the same answer while kubelet waits": (
        [stuck_pod("a", "ImagePullBackOff", f'Back-off pulling image "hub/x:1": ErrImagePull: {PULLED}hub/x:1: not found')],
        f"{REFUSED}: hub/x:1: not found",
    ),
    "no registry was asked": (
        [stuck_pod("a", "ErrImageNeverPull", 'Container image "hub/x:1" is not present with pull policy of Never')],
        f'{REFUSED}: Container image "hub/x:1" is not present with pull policy of Never',
    ),
    "the end of a long answer": (
        [stuck_pod("a", "ErrImagePull", PULLED + "proxy: " * 50 + "no such host")],
        f"{REFUSED}: …{('proxy: ' * 50 + 'no such host')[-200:]}",
    ),
    "a secret": (
        [stuck_pod("a", "CreateContainerConfigError", 'secret "s" not found')],
        'VolumeNotMounted: a ConfigMap, Secret or volume cannot be used on 1 pod; a, container main: secret "s" not found',
    ),
    "an image goes first": (
        [stuck_pod("a", "CrashLoopBackOff", "back-off 40s"), stuck_pod("b", "ErrImagePull")],
        "ImageRefused: an image cannot be pulled on 1 pod; b, container main, image hub/x:1",
    ),
    "it crashes": (
        [stuck_pod("a", "CrashLoopBackOff", "back-off 40s")],
        "Crashing: containers end and are started again on 1 pod; a, container main",
    ),
}


@pytest.mark.parametrize(("pods", "want"), STUCK.values(), ids=STUCK)
def test_report_of_stuck_containers_names_cause_pod_count_pod_and_container(pods: list[Pod], want: str) -> None:
    assert stuck(pods) == want


def test_job_keeps_the_answer_of_the_registry_while_an_older_kubelet_only_waits() -> None:
    tried, waited = (
        stuck_pod("j-main-0", *said)
        for said in (("ErrImagePull", "not found"), ("ImagePullBackOff", 'Back-off pulling image "hub/x:1"'))
    )
    first = facts(job(), tried)
    said = waits.explained(first, first.job.status)
    assert said.state.message.endswith("image hub/x:1: not found")
    later = facts(msgspec.structs.replace(job(), status=said), waited)
    assert waits.explained(later, said) == said


VOLCANO = frozenset({"volcano"})
LIVE = Schedulers(VOLCANO, {}, VOLCANO)
SILENT = Schedulers(frozenset(), {"volcano": SilentLeader("system/volcano", "t")}, VOLCANO)
NOBODY = Schedulers()
TYPO = 'no scheduler named "volcan" is at work; schedulers at work: volcano'


@dataclass(frozen=True, slots=True)
class AbsentCase:
    """The Job, the schedulers that are known, and what is said of it."""

    job: Job
    schedulers: Schedulers | None
    want: str = ""
    phase: PodGroupPhase = PodGroupPhase.PENDING
    pods: tuple[Pod, ...] = ()
    now: float = NOW


def seen(owner: Job, **spec: Any) -> Pod:
    """A pod that a scheduler has looked at, or has bound."""
    made = pod(owner, "a-0")
    status = msgspec.structs.replace(made.status, conditions=(Condition(type="PodScheduled", status="False"),))
    made = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, **spec))
    return made if spec else msgspec.structs.replace(made, status=status)


UNPLACED = job(schedulerName="volcan")
ABSENT = {
    "somebody serves it": AbsentCase(job(), LIVE),
    "nobody knows": AbsentCase(UNPLACED, None),
    "nobody does": AbsentCase(UNPLACED, LIVE, f"NoScheduler: {TYPO}"),
    "the leader is silent": AbsentCase(
        job(),
        SILENT,
        'NoScheduler: scheduler "volcano" is silent: its Lease system/volcano was last renewed at t; schedulers at work: none',
    ),
    "its pods ask for another": AbsentCase(job(task(template=template(schedulerName="volcan"))), LIVE, f"NoScheduler: {TYPO}"),
    "all its pods ask for another, which is there": AbsentCase(
        job(task(template=template(schedulerName="volcano")), schedulerName="volcan"), LIVE
    ),
    "it has a scheduler without a Lease, which looked at its pod": AbsentCase(UNPLACED, NOBODY, pods=(seen(UNPLACED),)),
    "which bound its pod": AbsentCase(UNPLACED, NOBODY, pods=(seen(UNPLACED, node_name="n"),)),
    "another scheduler let the gang in": AbsentCase(UNPLACED, LIVE, f"NoScheduler: {TYPO}", phase=PodGroupPhase.INQUEUE),
    "ours works without a Lease": AbsentCase(job(), NOBODY, phase=PodGroupPhase.INQUEUE),
    "ours is not there": AbsentCase(
        job(),
        NOBODY,
        'NoScheduler: no scheduler named "volcano" is at work; schedulers at work: none',
        phase=PodGroupPhase.PENDING,
    ),
    "its pods have places": AbsentCase(job(), SILENT, phase=PodGroupPhase.RUNNING),
    "it runs": AbsentCase(job(phase=JobPhase.RUNNING), SILENT),
    "it came just now": AbsentCase(UNPLACED, NOBODY, now=parse_time(CREATED) + 29),
}


@pytest.mark.parametrize("case", ABSENT.values(), ids=ABSENT)
def test_waiting_job_reports_no_scheduler_only_when_no_running_scheduler_serves_its_pods(case: AbsentCase) -> None:
    ours = frozenset({"volcano"})
    more = {"schedulers": case.schedulers, "own_schedulers": ours, "group_phase": case.phase}
    known = facts(case.job, *case.pods, now=case.now, **more)
    assert absent_scheduler(known) == case.want
    assert {notice.reason for notice in waits.waiting_notices(known)} >= ({"NoScheduler"} if case.want else set())
    if case.want:
        assert waits.explained(known, known.job.status).state.message == f"waits: {case.want}"


def test_new_job_without_a_scheduler_is_rechecked_30_seconds_after_its_creation() -> None:
    created = parse_time(CREATED)
    waits_for_room = PodGroupPhase.PENDING
    early = facts(UNPLACED, schedulers=NOBODY, now=created + 1, group_phase=waits_for_room)
    late = facts(UNPLACED, schedulers=NOBODY, now=created + 31, group_phase=waits_for_room)
    served = facts(job(), schedulers=LIVE, now=created + 1, group_phase=waits_for_room)
    assert [absence_recheck_at(each) for each in (early, late, served)] == [created + 30, None, None]


FULL = "QueueFull: not now: it asks for 1 cpu"
TOLD = Waiting(
    code="QueueFull", since="s", seen="t", resource="cpu", asks="1", has="2", may="2", ahead=3, start=("a", "b", "c"), queue="q"
)


def waiting_group(
    message: str = "", annotation: str = "", phase: PodGroupPhase = PodGroupPhase.PENDING, **metadata: Any
) -> PodGroup:
    found = group(job(), phase)
    told = {keys.WAITING: annotation} if annotation else {}
    condition = Condition(type="Unschedulable", status="True", reason=message.partition(":")[0], message=message)
    status = msgspec.structs.replace(found.status, conditions=(condition,) if message else ())
    meta = msgspec.structs.replace(found.metadata, annotations=told, creation_timestamp=CREATED, **metadata)
    return msgspec.structs.replace(found, metadata=meta, status=status)


def crashing() -> Pod:
    made = pod(job(), "a-0", PodPhase.RUNNING)
    status = msgspec.to_builtins(made.status) | {
        "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
    }
    return msgspec.structs.replace(made, status=decode(status, type(made.status)))


@dataclass(frozen=True, slots=True)
class Case:
    """What is there, and what `status.waiting` says in the next write."""

    want: JobWaiting | None
    job: Job = field(default_factory=job)
    pods: tuple[Pod, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)


CASES = {
    "it runs": Case(None, pods=(pod(job(), "a-0"),)),
    "the scheduler says why": Case(
        JobWaiting(
            code="QueueFull", since="s", seen="t", resource="cpu", asks="1", has="2", may="2", ahead=3, start=("a", "b", "c")
        ),
        more={"group": waiting_group(FULL, written_waiting(TOLD))},
    ),
    "the annotation is of another code": Case(
        JobWaiting(code="QueueFull", since=format_time(NOW)),
        more={"group": waiting_group(FULL, written_waiting(Waiting(code="NodesFull")))},
    ),
    "the annotation makes no sense": Case(
        JobWaiting(code="QueueFull", since=format_time(NOW)), more={"group": waiting_group(FULL, "{")}
    ),
    "waiting alone does not help": Case(
        JobWaiting(code="AboveCluster", never=True, since=format_time(NOW)),
        more={"group": waiting_group("AboveCluster: never: it asks for 9 cpu")},
    ),
    "the code is that of before": Case(
        JobWaiting(code="QueueFull", since="before"),
        job(status={"waiting": {"code": "QueueFull", "since": "before"}}),
        more={"group": waiting_group(FULL)},
    ),
    "nobody has looked for half a minute": Case(
        JobWaiting(code="NotExamined", since=format_time(NOW)), more={"group": waiting_group()}
    ),
    "its pods have places": Case(
        JobWaiting(code="Starting", since=format_time(NOW)),
        pods=(pod(job(), "a-0", PodPhase.PENDING),),
    ),
    "its containers crash while it runs": Case(
        JobWaiting(code="Crashing", since=format_time(NOW)), job(phase=JobPhase.RUNNING), (crashing(),)
    ),
    "it is suspended": Case(
        JobWaiting(code="Suspended", since=format_time(NOW)), job(phase=JobPhase.ABORTING), more={"group": None}
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_status_waiting_contains_the_code_and_details_of_the_current_waiting_reason(case: Case) -> None:
    status = decide(facts(case.job, *case.pods, **case.more)).status
    assert status is not None
    assert status.waiting == case.want
    assert decode(written(status), type(status)).waiting == case.want


def test_changed_numbers_in_status_waiting_cause_no_status_write() -> None:
    owner = job()
    first = decide(facts(owner, group=waiting_group(FULL, written_waiting(TOLD)))).status
    assert first is not None
    later = written_waiting(msgspec.structs.replace(TOLD, ahead=1, seen="u"))
    told = msgspec.structs.replace(owner, status=first)
    assert decide(facts(told, group=waiting_group(FULL, later))).status is None
    pruned = msgspec.structs.replace(told, status=msgspec.structs.replace(first, waiting=None))
    assert decide(facts(pruned, group=waiting_group(FULL, later))).status is None


def test_pending_podgroup_without_a_condition_counts_as_not_examined_after_30_seconds() -> None:
    early = facts(job(), group=waiting_group(), now=NOW - 31)
    assert (unexamined(early), examination_recheck_at(early)) == ("", NOW - 30)
    late = facts(job(), group=waiting_group())
    assert unexamined(late).startswith("NotExamined: ")
    assert examination_recheck_at(late) is None
    bound = msgspec.structs.replace(pod(job(), "a-0"), spec=msgspec.structs.replace(pod(job(), "a-0").spec, node_name="n"))
    others = [
        facts(job(), group=waiting_group(FULL)),
        facts(job(), group=waiting_group(phase=PodGroupPhase.RUNNING)),
        facts(job(), group=waiting_group(deletion_timestamp=CREATED)),
        facts(job(), bound, group=waiting_group()),
        facts(job(phase=JobPhase.RUNNING), group=waiting_group()),
        facts(job(), group=None),
    ]
    assert [(unexamined(each), examination_recheck_at(each)) for each in others] == [("", None)] * len(others)


UNSCHEDULABLE = ("Unschedulable", "NotEnoughResources", "1/1 tasks in gang unschedulable")
SCHEDULED = ("Scheduled", "tasks in gang are ready to be scheduled", "")
CURRENT = ("Unschedulable", "NoNodeAllowed", "NoNodeAllowed: never: no node takes j-0")

NEWEST = {
    "nothing is said": ((), None),
    "what was said last": ([(UNSCHEDULABLE, 1)], UNSCHEDULABLE),
    "it is placed since": ([(UNSCHEDULABLE, 1), (SCHEDULED, 2)], None),
    "its pods ask for nothing, so it counts as scheduled": ([(SCHEDULED, 2), (CURRENT, 2)], CURRENT),
    "and it did before": ([(CURRENT, 1), (SCHEDULED, 2)], CURRENT),
}


@pytest.mark.parametrize("case", NEWEST.values(), ids=NEWEST)
def test_newest_condition_prefers_a_pending_reason_and_is_none_after_scheduling(
    case: tuple[list[tuple[tuple[str, str, str], int]], tuple[str, str, str] | None],
) -> None:
    said, want = case
    conditions = [
        {"type": kind, "status": "True", "reason": reason, "message": text, "lastTransitionTime": f"2026-01-01T00:00:0{at}Z"}
        for (kind, reason, text), at in said
    ]
    group = msgspec.convert({"metadata": {"name": "g"}, "status": {"conditions": conditions}}, PodGroup)
    assert newest_condition(group) == (None if want is None else (want[0], want[2]))


SILENT = {"n1": "2026-01-01T00:00:00Z"}


def on_node(owner, name, node="n1", phase=PodPhase.RUNNING, **more):
    found = pod(owner, name, phase, **more)
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, node_name=node))


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        (
            {"a-0": {}, "a-1": {"node": "n2"}},
            "NodeSilent: pod j-a-0 is on node n1; the node does not answer since 2026-01-01T00:00:00Z",
        ),
        ({"a-0": {"going": True}, "a-1": {}}, "NodeSilent: pod j-a-0, which is being deleted, is on node n1 and 1 more pods"),
        ({"a-0": {"phase": PodPhase.SUCCEEDED}, "a-1": {"node": "n2"}}, ""),
    ],
)
@pytest.mark.parametrize("phase", [JobPhase.RUNNING, JobPhase.RESTARTING, JobPhase.TERMINATING])
def test_job_says_which_pod_hangs_on_a_silent_node_and_forgets_it_when_the_node_answers(phase, pods, want):
    owner = job(task("a", 2), phase=phase, status={"version": 0})
    members = [on_node(owner, name, **more) for name, more in pods.items()]
    if phase is not JobPhase.RUNNING:
        members = [
            msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, deletion_timestamp=CREATED))
            for each in members
        ]
    decision = decide(
        facts(owner, *members, silent_nodes=SILENT, group_phase=None if phase is JobPhase.TERMINATING else PodGroupPhase.RUNNING)
    )
    message = decision.status.state.message if decision.status is not None else ""
    if phase is JobPhase.RUNNING:
        assert want in message
    else:
        assert ("NodeSilent: pod j-a-0, which is being deleted, is on node n1" in message) == bool(want)
    if want and phase is JobPhase.RUNNING:
        assert (decision.status.waiting.code, decision.status.waiting.never) == ("NodeSilent", False)
    if decision.status is not None and want:
        told = msgspec.structs.replace(owner, status=decision.status)
        after = decide(facts(told, *members, group_phase=None if phase is JobPhase.TERMINATING else PodGroupPhase.RUNNING))
        assert after.status is not None
        assert "NodeSilent" not in after.status.state.message

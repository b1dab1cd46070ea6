"""A Job whose scheduler nobody is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from pyroclast.api.enums import JobPhase, PodGroupPhase
from pyroclast.api.records import Condition, Job, Pod
from pyroclast.api.schedulers import Schedulers, SilentLeader
from pyroclast.lifecycle.job import waits
from pyroclast.lifecycle.job.waits import absence_recheck_at, absent_scheduler
from pyroclast.lifecycle.times import parse_time
from tests.unit.lifecycle.builders import CREATED, NOW, facts, job, pod, task, template

VOLCANO = frozenset({"volcano"})
LIVE = Schedulers(VOLCANO, {}, VOLCANO)
SILENT = Schedulers(frozenset(), {"volcano": SilentLeader("system/volcano", "t")}, VOLCANO)
NOBODY = Schedulers()
TYPO = 'no scheduler named "volcan" is at work; schedulers at work: volcano'


@dataclass(frozen=True, slots=True)
class Case:
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
CASES = {
    "somebody serves it": Case(job(), LIVE),
    "nobody knows": Case(UNPLACED, None),
    "nobody does": Case(UNPLACED, LIVE, f"NoScheduler: {TYPO}"),
    "the leader is silent": Case(
        job(),
        SILENT,
        'NoScheduler: scheduler "volcano" is silent: its Lease system/volcano was last renewed at t; schedulers at work: none',
    ),
    "its pods ask for another": Case(job(task(template=template(schedulerName="volcan"))), LIVE, f"NoScheduler: {TYPO}"),
    "all its pods ask for another, which is there": Case(
        job(task(template=template(schedulerName="volcano")), schedulerName="volcan"), LIVE
    ),
    "it has a scheduler without a Lease, which looked at its pod": Case(UNPLACED, NOBODY, pods=(seen(UNPLACED),)),
    "which bound its pod": Case(UNPLACED, NOBODY, pods=(seen(UNPLACED, node_name="n"),)),
    "another scheduler let the gang in": Case(UNPLACED, LIVE, f"NoScheduler: {TYPO}", phase=PodGroupPhase.INQUEUE),
    "ours works without a Lease": Case(job(), NOBODY, phase=PodGroupPhase.INQUEUE),
    "ours is not there": Case(
        job(),
        NOBODY,
        'NoScheduler: no scheduler named "volcano" is at work; schedulers at work: none',
        phase=PodGroupPhase.PENDING,
    ),
    "its pods have places": Case(job(), SILENT, phase=PodGroupPhase.RUNNING),
    "it runs": Case(job(phase=JobPhase.RUNNING), SILENT),
    "it came just now": Case(UNPLACED, NOBODY, now=parse_time(CREATED) + 29),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_waiting_job_reports_no_scheduler_only_when_no_running_scheduler_serves_its_pods(case: Case) -> None:
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

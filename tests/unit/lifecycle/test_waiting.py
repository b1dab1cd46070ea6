"""`status.waiting` of a Job: which code it has, where its numbers are from, and that it costs no write of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase, PodGroupPhase, PodPhase
from pyroclast.api.records import Condition, Job, JobWaiting, Pod, PodGroup
from pyroclast.api.waiting import Waiting, written_waiting
from pyroclast.lifecycle.job.decide import decide
from pyroclast.lifecycle.job.status import written
from pyroclast.lifecycle.job.waits import examination_recheck_at, unexamined
from pyroclast.lifecycle.times import format_time
from tests.unit.lifecycle.builders import CREATED, NOW, decode, facts, group, job, pod

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

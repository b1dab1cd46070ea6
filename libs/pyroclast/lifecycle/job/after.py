"""Jobs that run after other Jobs: what each entry of `spec.after` waits for, and whether it can still be met.

The status of the waiting Job keeps the last known phase of each earlier Job. So an earlier Job may be deleted, and the controller
may restart, without the loss of an outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import zip_longest
from typing import Final

import msgspec

from pyroclast.api.enums import AfterCondition, AfterKind, JobPhase
from pyroclast.api.records import After, AfterJob, AfterStatus, BatchJob, Job
from pyroclast.api.types import Key
from pyroclast.lifecycle.gang import arrays
from pyroclast.lifecycle.gang.members import is_managed_elsewhere
from pyroclast.resources import selectors

MOST_NOTED: Final = 100
"""The most earlier Jobs of one selector in a status: 100 bytes each."""

_MOST_FOLLOWED: Final = 1000
"""The most Jobs that a search for a cycle visits."""

WAITING: Final = (JobPhase.NEW, JobPhase.PENDING, JobPhase.RUNNING)
"""The phases in which a Job may wait for earlier Jobs; a running one with some indexes of its arrays."""

_MOST_NAMED: Final = 3
_STARTED: Final = JobPhase.RUNNING.value


class _Outcome(Enum):
    """What an earlier Job means for a condition, in the order in which a status lists the Jobs."""

    NEVER = 0
    OPEN = 1
    MET = 2


def is_waiting(job: Job) -> bool:
    """Whether `job` still waits for earlier Jobs."""
    noted = job.status.after
    return bool(job.spec.after) and not (len(noted) == len(job.spec.after) and all(each.met for each in noted))


def is_held(job: Job, after: Sequence[AfterStatus]) -> bool:
    """Whether no pod of `job` may exist yet. `after`: the present or the next `status.after`."""
    return any(
        state is None or not (state.met or (entry.index is not None and state.jobs and state.jobs[0].indexes))
        for entry, state in zip_longest(job.spec.after, after[: len(job.spec.after)])
    )


def awaited(job: Job) -> Iterator[str]:
    """Yield the keys under which an index finds the Jobs that wait: of a Job by its name, or of all Jobs of a namespace."""
    if job.status.state.phase in WAITING and is_waiting(job) and not is_managed_elsewhere(job):
        for entry in job.spec.after:
            yield key_of(entry.kind, job.metadata.namespace, "" if entry.selector is not None else entry.job)


def key_of(kind: AfterKind, namespace: str, name: str) -> str:
    """Return the key of an earlier Job for `awaited`; an empty name stands for selectors."""
    return f"{kind}:{namespace}/{name}"


def notes(job: Job, earlier: Job | BatchJob) -> bool:
    """Whether the status of `job` has the end of `earlier`, or does not need it."""
    meta, kind = earlier.metadata, AfterKind.BATCH_JOB if isinstance(earlier, BatchJob) else AfterKind.JOB
    for entry, state in zip_longest(job.spec.after, job.status.after[: len(job.spec.after)]):
        means = entry.kind is kind and (
            entry.job == meta.name if entry.selector is None else selectors.matches(entry.selector, meta.labels)
        )
        if means and (state is None or not (state.met or len(state.jobs) == MOST_NOTED or _has_end(state, meta.uid))):
            return False
    return True


def _has_end(state: AfterStatus, uid: str) -> bool:
    return any(each.uid == uid and each.phase not in ("", _STARTED) for each in state.jobs)


def selects(job: Job, kind: AfterKind, labels: Mapping[str, str]) -> bool:
    """Whether a selector of `job` matches Jobs of `kind` with these labels."""
    return any(
        each.kind is kind and each.selector is not None and selectors.matches(each.selector, labels) for each in job.spec.after
    )


def state_of(earlier: Job | BatchJob, entry: After) -> AfterJob:
    """Return the present state of an earlier Job for `entry`."""
    indexes = ""
    if entry.index is not None and isinstance(earlier, Job):
        indexes = arrays.reached(earlier.status.arrays.values(), entry.condition)
    return AfterJob(name=earlier.metadata.name, uid=earlier.metadata.uid, phase=phase_of(earlier), indexes=indexes)


def phase_of(earlier: Job | BatchJob) -> str:
    """Return the phase of an earlier Job as `status.after` has it: empty, Running, or the phase of its end."""
    if isinstance(earlier, BatchJob):
        return earlier.phase
    state = earlier.status.state.phase
    if state.is_finished:
        return state.value
    began = state is JobPhase.RUNNING or any(each.status == JobPhase.RUNNING for each in earlier.status.conditions)
    return _STARTED if began else ""


def noted(job: Job, present: Sequence[Sequence[AfterJob] | None], departed: Mapping[str, str]) -> tuple[AfterStatus, ...]:
    """Return the new `status.after` of `job`.

    `present`: the existing earlier Jobs of each entry; None when they are unknown. `departed`: the last phase of deleted Jobs by
    their UID.
    """
    last = job.status.after if len(job.status.after) == len(job.spec.after) else ()
    before = last or tuple(AfterStatus() for _ in job.spec.after)
    return tuple(
        old if old.met or there is None else _entry(entry, old, there, departed)
        for entry, old, there in zip(job.spec.after, before, present, strict=True)
    )


def never(job: Job, after: Sequence[AfterStatus], cycle: Sequence[str] = ()) -> str:
    """Return why `job` can never start; empty while it can. `cycle`: the names of Jobs that wait for each other."""
    if cycle:
        return f"the jobs {' → '.join(cycle)} wait for each other"
    for entry, state in zip(job.spec.after, after, strict=False):
        lost = [each for each in state.jobs if not state.met and _outcome(entry.condition, each) is _Outcome.NEVER]
        if lost:
            return f"{_shown(entry, lost[0])}, and this Job runs only after it has {_done(entry.condition)}"
    return ""


def waits(job: Job, after: Sequence[AfterStatus]) -> str:
    """Return the sentence about what `job` waits for; empty when it waits for no Job."""
    open_ = [(entry, state) for entry, state in zip(job.spec.after, after, strict=False) if not state.met]
    parts = [_awaited(entry, state) for entry, state in open_[:_MOST_NAMED]]
    more = f", and {len(open_) - _MOST_NAMED} more entries" if len(open_) > _MOST_NAMED else ""
    return f"it starts after {' and after '.join(parts)}{more}" if parts else ""


def cycle_of(job: Job, earlier_of: Callable[[Job], Iterable[Job]]) -> list[str]:
    """Return the names of Jobs that wait for each other, from `job` to `job`; empty when there is no such cycle.

    `earlier_of`: returns the existing Jobs after which a Job runs.
    """
    seen: set[Key] = set()
    path: list[tuple[Job, Iterator[Job]]] = [(job, iter(earlier_of(job)))]
    while path and len(seen) < _MOST_FOLLOWED:
        following = next(path[-1][1], None)
        if following is None:
            path.pop()
        elif following.metadata.uid == job.metadata.uid:
            return [*(each.metadata.name for each, _ in path), job.metadata.name]
        elif following.key not in seen and is_waiting(following) and not following.status.state.phase.is_finished:
            seen.add(following.key)
            path.append((following, iter(earlier_of(following))))
    return []


def _entry(entry: After, old: AfterStatus, present: Sequence[AfterJob], departed: Mapping[str, str]) -> AfterStatus:
    there = {each.uid for each in present}
    gone = [
        msgspec.structs.replace(each, phase=departed.get(each.uid, each.phase), gone=True)
        for each in old.jobs
        if each.uid not in there
    ]
    jobs = [*present, *gone] if entry.selector is not None else list(present or gone)
    outcomes = [_outcome(entry.condition, each) for each in jobs]
    if jobs and all(each is _Outcome.MET for each in outcomes):
        return AfterStatus(met=True, jobs=tuple(jobs[:MOST_NOTED]))
    order = sorted(range(len(jobs)), key=lambda at: (outcomes[at].value, jobs[at].name))
    return AfterStatus(jobs=tuple(jobs[at] for at in order[:MOST_NOTED]))


def _outcome(condition: AfterCondition, job: AfterJob) -> _Outcome:
    has_ended = job.phase not in ("", _STARTED)
    if condition is AfterCondition.STARTED:
        is_met = bool(job.phase)
    elif condition is AfterCondition.ENDED:
        is_met = has_ended or job.gone
    else:
        is_met = has_ended and (job.phase == JobPhase.COMPLETED) is (condition is AfterCondition.SUCCEEDED)
    if is_met:
        return _Outcome.MET
    return _Outcome.NEVER if has_ended or job.gone else _Outcome.OPEN


def _shown(entry: After, job: AfterJob) -> str:
    kind = "native job" if entry.kind is AfterKind.BATCH_JOB else "job"
    if not job.gone:
        return f"{kind} {job.name} is {job.phase or JobPhase.PENDING.value}"
    last = f" when it was {job.phase or JobPhase.PENDING.value}"
    return f"{kind} {job.name} was deleted{last}"


def _done(condition: AfterCondition) -> str:
    return condition.value.lower()


def _awaited(entry: After, state: AfterStatus) -> str:
    """Return what an entry waits for, such as `job build, which is Running, has succeeded`."""
    done = f"has {_done(entry.condition)}"
    unmet = [each for each in state.jobs if _outcome(entry.condition, each) is not _Outcome.MET]
    if not unmet:
        if entry.selector is not None:
            return f"jobs that match its selector have {_done(entry.condition)}; there is none yet"
        kind = "native job" if entry.kind is AfterKind.BATCH_JOB else "job"
        return f"{kind} {entry.job}, which does not exist yet, {done}"
    what, _, phase = _shown(entry, unmet[0]).partition(" is ")
    more = f" and {len(unmet) - 1} more {'has' if len(unmet) == 2 else 'have'} {_done(entry.condition)}"
    return f"{what}, which is {phase}, {done}" if len(unmet) == 1 else f"{what}, which is {phase},{more}"

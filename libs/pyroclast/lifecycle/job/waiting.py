"""`status.waiting` of a Job: the code and the numbers of its waiting, so that programs need not parse a message."""

from __future__ import annotations

from typing import Final

import msgspec

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase, JobReason, PodGroupPhase
from pyroclast.api.records import JobStatus, JobWaiting, PodGroup
from pyroclast.api.waiting import read_waiting
from pyroclast.api.waiting_codes import says_never
from pyroclast.api.waiting_reasons import PendingReason, reason_of
from pyroclast.lifecycle.job.facts import JobFacts
from pyroclast.lifecycle.times import format_time

_SUSPENDED: Final = frozenset({JobPhase.ABORTING, JobPhase.ABORTED})


def with_waiting(facts: JobFacts, following: JobStatus) -> JobStatus:
    """Return `following` with an updated `waiting`; None in this field when the Job does not wait.

    A change of this field alone causes no status write. A new code always comes with a write, because the message of the state
    contains the code.
    """
    return msgspec.structs.replace(following, waiting=_waiting(facts, following))


def _waiting(facts: JobFacts, following: JobStatus) -> JobWaiting | None:
    code, is_never = _code(facts, following)
    if not code:
        return None
    told = _told(facts.group)
    if told is not None and (told.code, told.never) == (code, is_never):
        return told
    last = facts.job.status.waiting
    is_same = last is not None and (last.code, last.never) == (code, is_never)
    since = last.since if last is not None and is_same and last.since else format_time(facts.now)
    return JobWaiting(code=code, never=is_never, since=since)


def _code(facts: JobFacts, following: JobStatus) -> tuple[str, bool]:
    """Return the code, empty when the Job does not wait, and whether the Job can never start by waiting alone."""
    state = following.state
    if state.phase in _SUSPENDED:
        return PendingReason.SUSPENDED, False
    if state.phase not in {JobPhase.PENDING, JobPhase.RUNNING}:
        return "", False
    if state.reason == JobReason.VOLUME_CLAIM_NOT_FOUND:
        return PendingReason.CLAIM_MISSING, False
    if code := reason_of(state.message):
        return code, says_never(state.message.partition(f"{code}: ")[2])
    is_placed = facts.group is not None and facts.group.status.phase is PodGroupPhase.RUNNING
    return (PendingReason.STARTING, False) if is_placed and state.phase is JobPhase.PENDING else ("", False)


def _told(group: PodGroup | None) -> JobWaiting | None:
    """Return the waiting that the annotation of `group` reports; None without a usable annotation."""
    told = None if group is None else read_waiting(group.metadata.annotations.get(keys.WAITING, ""))
    if told is None or told.ahead < 0:
        return None
    fields = {name: getattr(told, name) for name in JobWaiting.__struct_fields__}
    return JobWaiting(**{**fields, "start": tuple(told.start or ())})

"""Limits the size of a flow's status, so that it can be stored: with many Jobs, the status has less detail of each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

import msgspec

from pyroclast.api.enums import EntryPhase, JobPhase
from pyroclast.api.records import FlowJobStatus, FlowStatus

MOST_BYTES: Final = 900_000
"""The largest status, in bytes of JSON. An object may have 1.5 MB, including its spec and `managedFields`."""

LISTS: Final = ("pending_jobs", "running_jobs", "failed_jobs", "completed_jobs", "terminated_jobs", "unknown_jobs")
"""The lists of Jobs by their phase."""

_Step: TypeAlias = Callable[[FlowStatus], FlowStatus]


def fitted(status: FlowStatus) -> FlowStatus:
    """Return `status`, with the least important details left out if it is too large. Everything that decisions need stays.

    Shortening a shortened status changes nothing. After the last step, a flow that admission accepts can be stored with its spec,
    even if its status is larger than `MOST_BYTES`.
    """
    for shorter in _STEPS:
        if len(msgspec.json.encode(status)) <= MOST_BYTES:
            break
        status = shorter(status)
    return status


def shortened(text: str, most: int) -> str:
    """Return `text`, cut to `most` characters if it is longer."""
    return text if len(text) <= most else f"{text[: most - 1]}…" if most else ""


def _with_last_phases(status: FlowStatus, most: int) -> FlowStatus:
    jobs = tuple(
        msgspec.structs.replace(job, running_histories=job.running_histories[-most:])
        if len(job.running_histories) > most
        else job
        for job in status.job_status_list
    )
    return msgspec.structs.replace(status, job_status_list=jobs)


def _with_short_messages(status: FlowStatus, most: int) -> FlowStatus:
    conditions = status.conditions.items()
    short = {name: msgspec.structs.replace(each, message=shortened(each.message, most)) for name, each in conditions}
    return msgspec.structs.replace(status, conditions=short)


def _without_counts(status: FlowStatus) -> FlowStatus:
    conditions = status.conditions.items()
    short = {name: msgspec.structs.replace(each, task_status_count={}, running_duration=None) for name, each in conditions}
    return msgspec.structs.replace(status, conditions=short)


def _without_repetitions(status: FlowStatus) -> FlowStatus:
    """Remove the conditions that only repeat the row of their Job."""
    rows = {job.name for job in status.job_status_list}
    return msgspec.structs.replace(
        status, conditions={name: each for name, each in status.conditions.items() if each.reason or name not in rows}
    )


def _without_waiting(status: FlowStatus) -> FlowStatus:
    """Remove the conditions of waiting entries: the spec has these entries, and each is judged anew."""
    conditions = {name: each for name, each in status.conditions.items() if each.phase != EntryPhase.WAITING}
    return msgspec.structs.replace(status, conditions=conditions, next_jobs=())


def _with_bare_rows(status: FlowStatus) -> FlowStatus:
    """Remove the histories, and the start of a row that has an end. A retry is timed from the end."""

    def bare(job: FlowJobStatus) -> FlowJobStatus:
        if job.end_timestamp:
            return msgspec.structs.replace(job, running_histories=(), start_timestamp=None)
        return job if job.state in _ENDS else msgspec.structs.replace(job, running_histories=())

    return msgspec.structs.replace(status, job_status_list=tuple(map(bare, status.job_status_list)))


_ENDS: Final = frozenset(phase.value for phase in JobPhase if phase.is_finished)
_STEPS: Final[tuple[_Step, ...]] = (
    partial(_with_last_phases, most=4),
    partial(_with_short_messages, most=300),
    partial(_with_last_phases, most=1),
    _without_counts,
    partial(_with_short_messages, most=50),
    _without_repetitions,
    _without_waiting,
    partial(msgspec.structs.replace, **dict.fromkeys(LISTS, ())),
    _with_bare_rows,
    partial(_with_short_messages, most=0),
)

"""Answers whose time runs: kept in the status of their Job, so that no restart forgets or repeats one.

All times are by the clock of the API server. What a node says of the time is not believed, as its clock may differ by minutes:
an answer to what a pod shows waits from when that was seen first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from typing import Final, TypeAlias

from pyroclast.api.enums import Action, BusEvent, PodGroupPhase
from pyroclast.api.records import DelayedAction, Job, PodGroup
from pyroclast.lifecycle.job.facts import JobFacts
from pyroclast.lifecycle.job.job_events import Occurrence, fell_apart, named_by
from pyroclast.lifecycle.job.policies import Response
from pyroclast.lifecycle.times import format_time, parse_time

__all__ = ["kept", "noted", "overlooked", "remembered", "since", "timed"]

Identity: TypeAlias = tuple[BusEvent, int, str, str, str]

_EVENTS: Final = {event.value: event for event in BusEvent}
_SHOWN_NOWHERE: Final = (BusEvent.POD_EVICTED, BusEvent.UNKNOWN)
"""What no object shows afterwards."""

_SHOWN_BY_PODS: Final = (BusEvent.POD_FAILED, BusEvent.TASK_FAILED)
"""What a pod shows as long as it is there: its time goes on when somebody deletes the pod."""

_MOST_KEPT: Final = 1000
"""Answers that a status keeps: 170 bytes each, and an object of more than 1.5 MB cannot be stored."""


def remembered(facts: JobFacts) -> tuple[Occurrence, ...]:
    """What happened and shows in no object any more: what the shell remembers, and what the status kept for it."""
    known = {_identity(each): each for each in _of_status(facts.job) if each.event in _SHOWN_NOWHERE or _has_gone(facts, each)}
    known |= {_identity(each.occurrence): each.occurrence for each in facts.memory.armed if _has_gone(facts, each.occurrence)}
    known |= {_identity(occurrence): occurrence for occurrence in facts.memory.occurrences}
    return tuple(known.values())


def _has_gone(facts: JobFacts, occurrence: Occurrence) -> bool:
    """Whether the pod that showed `occurrence` was deleted."""
    pod = facts.pods.by_name.get(occurrence.pod)
    return occurrence.event in _SHOWN_BY_PODS and (pod is None or pod.metadata.uid != occurrence.uid)


def overlooked(facts: JobFacts) -> Occurrence | None:
    """That the PodGroup fell apart while nobody watched, if no answer to that has been given or waits for its time."""
    group = _unknown(facts)
    is_known = group is not None and (
        facts.job.status.unknown_pod_group == group.metadata.uid
        or any(occurrence.event is BusEvent.UNKNOWN for occurrence in remembered(facts))
    )
    return None if group is None or is_known else fell_apart(facts.job, group, facts.now)


def noted(facts: JobFacts, settled: Iterable[Occurrence]) -> str:
    """What `status.unknownPodGroup` has to say once nobody need ask after `settled` any more: answered, or with its time running.

    It goes out with the write that answers, so that a restart in between finds either both or none.
    """
    group = _unknown(facts)
    if group is None:
        return ""
    uid, last = group.metadata.uid, facts.job.status.unknown_pod_group
    is_settled = any(each.event is BusEvent.UNKNOWN and each.uid == uid for each in settled)
    return uid if uid == last or (is_settled and BusEvent.UNKNOWN in named_by(facts.job.spec.policies)) else ""


def _unknown(facts: JobFacts) -> PodGroup | None:
    group = facts.group
    return group if group is not None and group.status.phase is PodGroupPhase.UNKNOWN else None


def since(facts: JobFacts) -> Mapping[Identity, float]:
    """When the time of each answer began to run, in seconds since the epoch."""
    times = {_identity(occurrence): occurrence.at for occurrence in _of_status(facts.job)}
    return times | {_identity(response.occurrence): response.occurrence.at for response in facts.memory.armed}


def timed(response: Response, known: Mapping[Identity, float], now: float) -> Response:
    """`response` with its time counted from when what it answers was seen first; the age of a pod is the server's own word."""
    occurrence = response.occurrence
    if response.delay == 0 or occurrence.event is BusEvent.POD_PENDING:
        return response
    at = known.get(_identity(occurrence), occurrence.at if occurrence.event in _SHOWN_NOWHERE else now)
    return dataclasses.replace(response, occurrence=dataclasses.replace(occurrence, at=at))


def kept(responses: Iterable[Response]) -> tuple[DelayedAction, ...]:
    """What the status keeps of `responses`: not those whose time can be read off the age of their pods.

    Of several failures that are answered alike, by one action on the task or the Job, the first is kept; of all, the first 1,000.
    """
    earliest: dict[tuple[str, ...], Response] = {}
    for response in responses:
        if response.occurrence.event is not BusEvent.POD_PENDING:
            alike = _alike(response)
            if alike not in earliest or response.due < earliest[alike].due:
                earliest[alike] = response
    lasting = earliest.values() if len(earliest) <= _MOST_KEPT else nsmallest(_MOST_KEPT, earliest.values(), key=_due)
    return tuple(
        DelayedAction(
            action=response.action,
            event=response.occurrence.event,
            at=format_time(response.occurrence.at),
            task=response.occurrence.task,
            pod=response.occurrence.pod,
            uid=response.occurrence.uid,
            partition=response.occurrence.partition,
            version=response.occurrence.version,
            exit_code=response.occurrence.exit_code,
        )
        for response in lasting
    )


def _alike(response: Response) -> tuple[str, ...]:
    """What makes answers alike: the same is done about the same part of the Job when their time is over."""
    occurrence = response.occurrence
    about = (response.action, occurrence.event, str(occurrence.version), str(response.delay), occurrence.task)
    if occurrence.event not in _SHOWN_BY_PODS or response.action == Action.RESTART_POD:
        return (*about, occurrence.pod, occurrence.uid)
    return (*about, occurrence.partition)


def _due(response: Response) -> float:
    return response.due


def _of_status(job: Job) -> Iterator[Occurrence]:
    """What the status tells, but for what only another version of ours knows."""
    for action in job.status.delayed_actions:
        event = _EVENTS.get(action.event)
        if event is not None and action.at:
            yield Occurrence(
                event,
                parse_time(action.at),
                action.version,
                action.task,
                action.pod,
                action.uid,
                action.partition,
                action.exit_code,
            )


def _identity(occurrence: Occurrence) -> Identity:
    return occurrence.event, occurrence.version, occurrence.task, occurrence.pod, occurrence.uid

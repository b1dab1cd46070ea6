"""Delayed responses to occurrences. The status of the Job stores them, so no restart forgets or repeats a response.

All times use the clock of the API server. The times that a node reports are not used, because the clock of a node may differ by
minutes. So the delay of a response to a state of a pod begins when the controller first sees this state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from typing import Final, TypeAlias

from pyroclast.api.enums import Action, BusEvent, PodGroupPhase
from pyroclast.api.records import DelayedAction, Job, PodGroup
from pyroclast.lifecycle.job.facts import JobFacts
from pyroclast.lifecycle.job.job_events import Occurrence, Response, fell_apart, named_by
from pyroclast.lifecycle.times import format_time, parse_time

Identity: TypeAlias = tuple[BusEvent, int, str, str, str]

_EVENTS: Final = {event.value: event for event in BusEvent}
_SHOWN_NOWHERE: Final = (BusEvent.POD_EVICTED, BusEvent.UNKNOWN)
"""Occurrences that no object shows afterwards."""

_SHOWN_BY_PODS: Final = (BusEvent.POD_FAILED, BusEvent.TASK_FAILED, BusEvent.TASK_COMPLETED)
"""Occurrences that a pod shows while the pod exists. The delay of a response continues when the pod is deleted."""

_STORED: Final = ("version", "task", "pod", "uid", "partition", "exit_code")
"""Fields of an occurrence that a status stores as they are."""

_MOST_KEPT: Final = 1000
"""The most delayed responses in a status. Each takes 170 bytes, and the API server rejects objects of more than 1.5 MB."""


def remembered(facts: JobFacts) -> tuple[Occurrence, ...]:
    """Return the occurrences that no object shows any more, from the memory of the controller and from the status."""
    known = {_identity(each): each for each in _of_status(facts.job) if each.event in _SHOWN_NOWHERE or _has_gone(facts, each)}
    known |= {_identity(each.occurrence): each.occurrence for each in facts.memory.armed if _has_gone(facts, each.occurrence)}
    known |= {_identity(occurrence): occurrence for occurrence in facts.memory.occurrences}
    return tuple(known.values())


def _has_gone(facts: JobFacts, occurrence: Occurrence) -> bool:
    pod = facts.pods.by_name.get(occurrence.pod)
    return occurrence.event in _SHOWN_BY_PODS and (pod is None or pod.metadata.uid != occurrence.uid)


def overlooked(facts: JobFacts) -> Occurrence | None:
    """Return the occurrence of a PodGroup that became Unknown while no controller watched it.

    None when the PodGroup is not Unknown, or when this occurrence has a response already, done or delayed.
    """
    group = _unknown(facts)
    is_known = group is not None and (
        facts.job.status.unknown_pod_group == group.metadata.uid
        or any(occurrence.event is BusEvent.UNKNOWN for occurrence in remembered(facts))
    )
    return None if group is None or is_known else fell_apart(facts.job, group, facts.now)


def noted(facts: JobFacts, settled: Iterable[Occurrence]) -> str:
    """Return the new value of `status.unknownPodGroup`: the uid of an Unknown PodGroup that has its response; else empty.

    `settled`: the occurrences whose response is done or delayed. One status write contains this value and the result of the
    response, so a restart cannot separate them.
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
    """Return the time at which the delay of each response began, by occurrence, in seconds since the epoch."""
    times = {_identity(occurrence): occurrence.at for occurrence in _of_status(facts.job)}
    return times | {_identity(response.occurrence): response.occurrence.at for response in facts.memory.armed}


def timed(response: Response, known: Mapping[Identity, float], now: float) -> Response:
    """Return `response` with a delay that begins when its occurrence was first seen.

    `known`: the times from `since`. A response to PodPending is returned as it is, because the API server sets the creation time
    of a pod.
    """
    occurrence = response.occurrence
    if response.delay == 0 or occurrence.event is BusEvent.POD_PENDING:
        return response
    at = known.get(_identity(occurrence), occurrence.at if occurrence.event in _SHOWN_NOWHERE else now)
    return dataclasses.replace(response, occurrence=dataclasses.replace(occurrence, at=at))


def kept(responses: Iterable[Response]) -> tuple[DelayedAction, ...]:
    """Return the entries of `status.delayedActions` for `responses`.

    Responses to PodPending are left out, because the age of the pod gives their time. Of several failures with the same action on
    the same task or Job, only the response that is due first is stored, and of all, the 1,000 that are due first.
    """
    earliest: dict[tuple[str, ...], Response] = {}
    for response in responses:
        if response.occurrence.event is not BusEvent.POD_PENDING:
            alike = _alike(response)
            if alike not in earliest or response.due < earliest[alike].due:
                earliest[alike] = response
    is_few = len(earliest) <= _MOST_KEPT
    lasting = earliest.values() if is_few else nsmallest(_MOST_KEPT, earliest.values(), key=lambda each: each.due)
    return tuple(
        DelayedAction(
            action=response.action,
            event=response.occurrence.event,
            at=format_time(response.occurrence.at),
            **{name: getattr(response.occurrence, name) for name in _STORED},
        )
        for response in lasting
    )


def _alike(response: Response) -> tuple[str, ...]:
    """Return the key of equivalent responses: responses with one key carry out the same action on the same part of the Job."""
    occurrence = response.occurrence
    about = (response.action, occurrence.event, str(occurrence.version), str(response.delay), occurrence.task)
    if occurrence.event not in _SHOWN_BY_PODS or response.action == Action.RESTART_POD:
        return (*about, occurrence.pod, occurrence.uid)
    return (*about, occurrence.partition)


def _of_status(job: Job) -> Iterator[Occurrence]:
    """Yield the occurrences in `status.delayedActions`, except events that only another release of Pyroclast knows."""
    for action in job.status.delayed_actions:
        event = _EVENTS.get(action.event)
        if event is not None and action.at:
            yield Occurrence(event, parse_time(action.at), **{name: getattr(action, name) for name in _STORED})


def _identity(occurrence: Occurrence) -> Identity:
    return occurrence.event, occurrence.version, occurrence.task, occurrence.pod, occurrence.uid

"""Pods of a Job on seats: where a pod may be created on its node at once, and when seats are given up."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase, PodGroupPhase
from pyroclast.api.records import Job, Pod, PodGroup
from pyroclast.lifecycle.effects import DeletePods, Effect, PatchGroup, Slot
from pyroclast.lifecycle.gang import members, plan
from pyroclast.lifecycle.gang.size import min_available
from pyroclast.lifecycle.seats.contract import Placement, Seat, Seats, SeatsError, encode, nodes_of, parse_placement, parse_seats
from pyroclast.lifecycle.seats.eligibility import Way

__all__ = ["closing", "nodes", "placement_of", "seats_of"]

_STARTED: Final = frozenset({JobPhase.RUNNING, JobPhase.RESTARTING})


def seats_of(group: PodGroup | None) -> Seats | None:
    """The seats that `group` publishes; None where it has none, also where what it says makes no sense."""
    text = group.metadata.annotations.get(keys.SEATS) if group is not None else None
    if not text:
        return None
    try:
        seats = parse_seats(text)
    except SeatsError:
        return None  # the scheduler tells of it, and places nothing
    return seats if seats.tasks else None


def placement_of(group: PodGroup, seats: Seats) -> Placement | None:
    """The placement of `seats`; None where there is none, also where what it says makes no sense."""
    text = group.metadata.annotations.get(keys.PLACEMENT)
    if not text:
        return None
    try:
        placement = parse_placement(text)
        return placement if nodes_of(seats, placement) else None
    except SeatsError:
        return None


def nodes(group: PodGroup | None, used: Collection[Slot], refused: str) -> Mapping[Seat, str]:
    """The node of each seat on which a pod may be created; `used`: a pod was, so that the next one is placed anew.

    `refused`: why none may be, in one word; empty when they may.
    """
    seats = seats_of(group)
    placement = placement_of(group, seats) if group is not None and seats is not None else None
    if placement is None or placement.withdrawn or refused:
        return {}
    taken = {Seat(slot.task, slot.index) for slot in used}
    return {seat: node for seat, node in placement.seats().items() if seat not in taken}


def closing(job: Job, group: PodGroup | None, pods: Mapping[str, Pod], refused: str) -> Iterator[Effect]:
    """Give the seats up, if that is due: then no pod is created on them any more, which frees those that were not taken.

    A gang that never ran and is not whole by then starts over: its pods would hold places for nothing, or run without the others.
    """
    seats = seats_of(group)
    if group is None or seats is None or group.metadata.is_terminating:
        return
    placement = placement_of(group, seats)
    why = refused or (placement.withdrawn if placement is not None else "")
    why = why or _outgrown(job, group, seats, pods) or ""
    if not why:
        return
    living = [pod for pod in pods.values() if not pod.metadata.is_terminating]
    whole = len(living) >= min_available(job.spec)
    half = [pod for pod in living if pod.spec.node_name and not members.is_finished(pod)]
    if placement is not None and half and not whole and job.status.state.phase is JobPhase.PENDING:
        yield DeletePods(plan.victims_of(half))
    yield PatchGroup(group.metadata.name, _closed(group, seats, why))


def _outgrown(job: Job, group: PodGroup, seats: Seats, pods: Mapping[str, Pod]) -> Way | None:
    """Why `seats` are not those of the pods that are to come; None if they are.

    Pods that are made after the gang has started are bound as ever: to publish and place seats again costs as much as it saves.
    """
    is_scaled = _counts(job) != {task.role: task.count for task in seats.tasks}
    if placement_of(group, seats) is not None or group.status.phase is PodGroupPhase.PENDING:
        return Way.SCALED if is_scaled else None
    if job.status.state.phase not in _STARTED or not any(plan.plan(job, pods).missing):
        return None
    return Way.SCALED if is_scaled else Way.STARTED


def _counts(job: Job) -> dict[str, int]:
    return {task.name: task.replicas for task in job.spec.tasks if task.replicas}


def _closed(group: PodGroup, seats: Seats, why: str) -> dict[str, Any]:
    text = encode(Seats(generation=seats.generation + 1, way=why))
    return {"metadata": {"uid": group.metadata.uid, "annotations": {keys.SEATS: text, keys.PLACEMENT: None}}}

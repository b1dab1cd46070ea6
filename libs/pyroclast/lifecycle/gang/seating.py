"""Pods of a Job on seats: where a pod may be created on its node at once, when seats are asked for anew, and when given up."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase, PodGroupPhase
from pyroclast.api.records import Job, PodGroup
from pyroclast.lifecycle.effects import AskSeats, DeletePods, Effect, PatchGroup, Slot
from pyroclast.lifecycle.gang import plan
from pyroclast.lifecycle.gang.observed_pods import ObservedPods
from pyroclast.lifecycle.gang.size import min_available
from pyroclast.lifecycle.seats.contract import Placement, Seat, Seats, SeatsError, encode, nodes_of, parse_placement, parse_seats
from pyroclast.lifecycle.seats.eligibility import SeatRefusal

__all__ = ["ANSWER_SECONDS", "Seated", "awaits_placement", "closing", "placement_of", "seated", "seats_of", "standing"]

ANSWER_SECONDS: Final = 10.0
"""How long pods that are made again or anew wait until the scheduler has said where they go: then they are bound as ever."""
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
    """What the scheduler says of `seats`; None where it says nothing, also where that makes no sense."""
    text = group.metadata.annotations.get(keys.PLACEMENT)
    if not text:
        return None
    try:
        placement = parse_placement(text)
        nodes_of(seats, placement)
    except SeatsError:
        return None
    return placement if placement.generation == seats.generation else None


def standing(group: PodGroup | None) -> str:
    """What seats of `group` stand for: what is remembered of others says nothing of these. A later placement is another."""
    seats = seats_of(group)
    if group is None or seats is None:
        return group.metadata.uid if group is not None else ""
    placement = placement_of(group, seats)
    return f"{group.metadata.uid}:{seats.generation}:{'placed' if placement is not None and placement.seats() else ''}"


def awaits_placement(group: PodGroup | None) -> bool:
    """Whether `group` asks for seats, and the scheduler has not said where they are: no pod is created meanwhile."""
    seats = seats_of(group)
    return group is not None and seats is not None and bool(seats.asked) and placement_of(group, seats) is None


@dataclass(frozen=True, slots=True)
class Seated:
    """Pods that are missing, divided: `slots` are created now, those that have a node on it; `ask`: for the others first."""

    slots: tuple[Slot, ...] = ()
    ask: AskSeats | None = None


def seated(job: Job, group: PodGroup | None, pods: ObservedPods, missing: Iterable[Slot], used: Iterable[Slot]) -> Seated:
    """How the `missing` pods of `job` are made; `used`: for which a pod was made, as the scheduler has said of them.

    Pods of a gang that has started get seats of their own: those on which pods of before were are no more.
    """
    seats = seats_of(group)
    if group is None or seats is None:
        return Seated(tuple(missing))
    placement = placement_of(group, seats) or Placement(generation=seats.generation)
    nodes = {} if placement.withdrawn else placement.seats()
    taken = {Seat(slot.task, slot.index) for slot in used}
    asked, answers = seats.wanted(), placement.answers()
    now, later = [], []
    for slot in missing:
        seat = Seat(slot.task, slot.index)
        is_bound = job.status.state.phase not in _STARTED or (seat in asked and seat in answers)
        if seat not in taken and nodes.get(seat):
            now.append(dataclasses.replace(slot, node=nodes[seat]))
        elif is_bound and (seat not in taken or job.status.state.phase not in _STARTED):
            now.append(slot)
        else:
            later.append(slot)
    if now:
        return Seated(tuple(now))
    expected = {Seat(slot.task, slot.index) for slot in later}
    left = [name for name, seat in seats.names() if nodes.get(seat) and name not in pods.states and seat not in expected]
    if later or (left and job.status.state.phase in _STARTED):  # a seat that no pod is to take any more holds a place
        return Seated(ask=AskSeats(group.metadata.name, seats.generation + 1, tuple(later)))
    return Seated()


def closing(job: Job, group: PodGroup | None, pods: ObservedPods, refused: str, *, is_late: bool) -> Iterator[Effect]:
    """Give the seats up, if that is due: then no pod is created on them any more, which frees those that were not taken.

    A gang that never ran and is not whole by then starts over: its pods would hold places for nothing, or run without the others.
    `refused`: why no pod may be made on them, in one word; `is_late`: nobody has said where those are that were asked for.
    """
    seats = seats_of(group)
    if group is None or seats is None or group.metadata.is_terminating:
        return
    placement = placement_of(group, seats)
    is_placed = placement is not None and bool(placement.seats())
    is_scaled = _counts(job) != {task.role: task.count for task in seats.tasks}
    why = refused or (placement.withdrawn if placement is not None else "") or (SeatRefusal.UNANSWERED if is_late else "")
    if not why and is_scaled and job.status.state.phase not in _STARTED:
        if group.status.phase is PodGroupPhase.PENDING and not is_placed:
            yield AskSeats(group.metadata.name, seats.generation + 1)
        elif is_placed:
            why = SeatRefusal.SCALED
    if not why:
        return
    whole = len(pods.where(lambda state: not state.is_terminating)) >= min_available(job.spec)
    half = [pod for pod in pods.where(lambda state: not (state.is_terminating or state.is_finished)) if pod.spec.node_name]
    never_ran = seats.asked is None and job.status.state.phase is JobPhase.PENDING
    if is_placed and half and not whole and never_ran:
        yield DeletePods(plan.victims_of(half))
    yield PatchGroup(group.metadata.name, _closed(group, seats, why))


def _counts(job: Job) -> dict[str, int]:
    return {task.name: task.replicas for task in job.spec.tasks if task.replicas}


def _closed(group: PodGroup, seats: Seats, why: str) -> dict[str, Any]:
    text = encode(Seats(generation=seats.generation + 1, way=why))
    return {"metadata": {"uid": group.metadata.uid, "annotations": {keys.SEATS: text, keys.PLACEMENT: None}}}

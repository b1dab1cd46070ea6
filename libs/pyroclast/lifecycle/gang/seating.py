"""Pods on seats: which pods are created on their node, when the controller requests seats anew, and when it closes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase, PodGroupPhase
from pyroclast.api.records import Job, PodGroup
from pyroclast.lifecycle.effects import AskSeats, DeletePods, Effect, PatchGroup, Slot
from pyroclast.lifecycle.gang import plan
from pyroclast.lifecycle.gang.members import ObservedPods, min_available
from pyroclast.lifecycle.seats.contract import Placement, Seat, Seats, SeatsError, encode, nodes_of, parse_placement, parse_seats
from pyroclast.lifecycle.seats.eligibility import SeatRefusal

ANSWER_SECONDS: Final = 10.0
"""Seconds for which pods that are created after the start of the gang wait for a placement.

After that, the pods are created without a node, and the scheduler binds them.
"""
_STARTED: Final = frozenset({JobPhase.RUNNING, JobPhase.RESTARTING})


def seats_of(group: PodGroup | None) -> Seats | None:
    """Return the seats that `group` publishes; None when it publishes none or the annotation is invalid."""
    text = group.metadata.annotations.get(keys.SEATS) if group is not None else None
    if not text:
        return None
    try:
        seats = parse_seats(text)
    except SeatsError:
        return None  # the scheduler reports the invalid annotation and places nothing
    return seats if seats.tasks else None


def placement_of(group: PodGroup, seats: Seats) -> Placement | None:
    """Return the placement of `seats`; None when there is none for this generation or the annotation is invalid."""
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
    """Return an identity of the present seats of `group`. Memory about seats of another identity does not apply.

    The identity changes with each generation of the seats, and when the scheduler places them.
    """
    seats = seats_of(group)
    if group is None or seats is None:
        return group.metadata.uid if group is not None else ""
    placement = placement_of(group, seats)
    return f"{group.metadata.uid}:{seats.generation}:{'placed' if placement is not None and placement.seats() else ''}"


def awaits_placement(group: PodGroup | None) -> bool:
    """Whether `group` requests seats, and the scheduler has not written their placement. No pod is created meanwhile."""
    seats = seats_of(group)
    return group is not None and seats is not None and bool(seats.asked) and placement_of(group, seats) is None


@dataclass(frozen=True, slots=True)
class Seated:
    """The missing pods: `slots` are created now, on their node where one is known; `ask` requests seats for the others."""

    slots: tuple[Slot, ...] = ()
    ask: AskSeats | None = None


def seated(job: Job, group: PodGroup | None, pods: ObservedPods, missing: Iterable[Slot], used: Iterable[Slot]) -> Seated:
    """Decide how the `missing` pods of `job` are created. `used`: seats on which a pod was already created.

    In a gang that has started, a missing pod needs a new seat, because its old seat is used up.
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
    if later or (left and job.status.state.phase in _STARTED):  # an obsolete seat still occupies a node
        return Seated(ask=AskSeats(group.metadata.name, seats.generation + 1, tuple(later)))
    return Seated()


def closing(job: Job, group: PodGroup | None, pods: ObservedPods, refused: str, *, is_late: bool) -> Iterator[Effect]:
    """Yield the effects that close the seats of `group`, if that is due. No pod is created on a closed seat, which frees unused
    seats.

    A gang that never ran and is still incomplete starts over, because its pods would occupy nodes without the other pods.
    `refused`: why no pod may be created on the seats, in one word. `is_late`: the scheduler has not answered a request for seats
    in time.
    """
    seats = seats_of(group)
    if group is None or seats is None or group.metadata.is_terminating:
        return
    placement = placement_of(group, seats)
    is_placed = placement is not None and bool(placement.seats())
    wanted = {task.name: task.replicas for task in job.spec.tasks if task.replicas}
    is_scaled = wanted != {task.role: task.count for task in seats.tasks}
    if job.status.state.phase in _STARTED and pods.turned_away():
        refused = refused or SeatRefusal.REJECTED  # the next place comes from a binding, so no pod is rejected without end
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
    closed = {keys.SEATS: encode(Seats(generation=seats.generation + 1, way=why)), keys.PLACEMENT: None}
    yield PatchGroup(group.metadata.name, {"metadata": {"uid": group.metadata.uid, "annotations": closed}})

"""What the controller remembers of each Job beside what the cluster shows. All of it may be lost."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

from pyroclast.api.records import Job, PodGroup
from pyroclast.api.types import Key
from pyroclast.lifecycle.effects import Slot
from pyroclast.lifecycle.gang import seating
from pyroclast.lifecycle.gang.podgroups import Inherited
from pyroclast.lifecycle.job.facts import JobDecision, Remembered, RequestedAction
from pyroclast.lifecycle.job.job_events import Occurrence
from pyroclast.lifecycle.job.policies import Response
from pyroclast.runtime.reconciler import Memories, Memory
from pyroclast_job_controller.blocked import Blocked, Cause, pause_after

__all__ = ["HALF_GANG", "JobMemories", "JobMemory"]

_MOST_OCCURRENCES: Final = 10_000
"""Of one Job: as many as it has pods, in the worst case; beyond that the oldest are dropped."""


HALF_GANG: Final = 30.0
"""Seconds for which a gang that a quota cut in two keeps the places that it has, and then leaves them to others. Of two such
gangs one comes back before the other, and finds room.
"""

_QUIET: Final = 1.5
"""Seconds: most pods run by then, if there is room for them."""

_SHORTEST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0
_LOOKS_APART: Final = 4.0
"""So that looking at a large Job that changes all the time takes a fifth of the time at most."""

_HELD: Final = (Cause.QUOTA, Cause.LEFTOVER)
"""After these nothing is tried before its time, whatever else happens to the Job."""


@dataclass(slots=True)
class JobMemory(Memory):
    """Of one Job."""

    given_up: RequestedAction | None = None
    """That the Job is to end, because it was refused something too often."""
    occurrences: list[Occurrence] = field(default_factory=list)
    prepared: int = 0
    removed: bool = False
    carried: Inherited | None = None
    """What was written of the Job into its PodGroup last."""
    objects: dict[str, str] = field(default_factory=dict)
    """Plugin objects that we made, with their uids."""
    recorded: dict[str, str] = field(default_factory=dict)
    """The last Event of each reason, which is not recorded again as long as it stays the same."""
    quiet_since: float | None = None
    """Since when the status differs in nothing but the pods that were made, by the clock of the shell."""
    armed: tuple[Response, ...] = ()
    """The answers whose time runs."""
    deleted: set[str] = field(default_factory=set)
    """Uids of pods whose deletion we asked for, until they have gone: nobody evicted them."""
    vanished: list[Occurrence] = field(default_factory=list)
    """Pods that are no longer seen, though nobody was seen to delete them: perhaps they only lost their labels."""
    refused: str = ""
    """What the Job was refused when it tried to get on last."""
    was_refused: bool = False
    """Whether the last try to get on failed, whatever the cause."""
    cause: Cause | None = None
    """What kind of refusal that was."""
    is_new: bool = True
    """The Job has not been looked at yet since we are responsible for it."""
    refusals: int = 0
    """How often in a row the Job was refused something for that cause."""
    faults: int = 0
    """How often in a row it was refused something for a fault; what passes by itself does not count."""
    short_since: float | None = None
    """Since when a quota has kept the gang from being complete, in seconds since the epoch."""
    next_try: float = 0.0
    """When it may try again, in seconds since the epoch."""
    nodes_asked: float = -math.inf
    """When it was asked last whether the nodes of pods that do not go are there, in seconds since the epoch."""
    seats_of: str = ""
    """Which seats of which PodGroup the next three are about."""
    seated: set[Slot] = field(default_factory=set)
    """The seats for which a pod was made as the scheduler has said of them."""
    asked_since: float | None = None
    """Since when seats are asked for and the scheduler has not answered, in seconds since the epoch."""
    seats_refused: str = ""
    """Why no further pod is to be created on a seat, in one word."""
    closed: int = 0
    """How often in a row its namespace was found to be going."""
    closed_until: float = 0.0
    """Until when nothing is tried because of that, in seconds since the epoch."""

    def seats(self, group: PodGroup | None) -> JobMemory:
        """This memory, with what it has of the present seats of `group` and of no others."""
        if self.seats_of != (now := seating.standing(group)):
            self.seats_of, self.seated, self.seats_refused, self.asked_since = now, set(), "", None
        return self

    def snapshot(self, now: float, group: PodGroup | None = None) -> Remembered:
        """For a decision at `now`, in seconds since the epoch. `group`: the PodGroup, if there is one."""
        self.seats(group)
        if not seating.awaits_placement(group):
            self.asked_since = None
        elif self.asked_since is None:
            self.asked_since = now
        return Remembered(
            tuple(self.occurrences),
            self.prepared,
            self.removed,
            self.armed,
            self.refused,
            carried=self.carried,
            held=self.cause in _HELD and now < self.next_try,
            gives_back=self.short_since is not None and now >= self.short_since + HALF_GANG,
            seated=frozenset(self.seated),
            seats_refused=self.seats_refused,
            asked_since=self.asked_since,
        )

    def got_on(self) -> None:
        """Nothing was refused this time."""
        self.refusals = self.faults = self.closed = 0
        self.next_try, self.short_since, self.cause = 0.0, None, None
        self.refused, self.was_refused = "", False

    def quiet_left(self) -> float:
        """Seconds for which a status that only counts new pods need not be written yet."""
        now = self.pace.clock()
        self.quiet_since = now if self.quiet_since is None else self.quiet_since
        return max(0.0, self.quiet_since + _QUIET - now)

    def was_stopped(self, refusal: Blocked, now: float) -> bool:
        """Count a refusal and set the time of the next try; False when it came before its time, and so does not count."""
        self.refused, self.was_refused = str(refusal), True
        if refusal.cause is not self.cause:
            self.refusals, self.next_try, self.cause = 0, 0.0, refusal.cause
        if refusal.cause is Cause.QUOTA and self.short_since is None:
            self.short_since = now
        if now < self.next_try:
            return False
        self.next_try = now + pause_after(refusal.cause, self.refusals)
        self.refusals += 1
        self.faults += refusal.cause is Cause.FAULT
        return True

    def gave_back(self, now: float) -> None:
        """The places of the half gang are free: let others have them for a while."""
        self.short_since, self.next_try = None, now + HALF_GANG * (1 + crc32(self.uid.encode()) % 8 / 8)

    def done_with(self, decision: JobDecision) -> None:
        """Forget what `decision`, which has been carried out, was about."""
        if decision.order is not None and decision.order == self.given_up:
            self.given_up = None
        self.forget(decision.forget)

    def forget(self, occurrences: frozenset[Occurrence]) -> None:
        """Nobody waits for `occurrences` any more."""
        if occurrences:
            self.occurrences = [occurrence for occurrence in self.occurrences if occurrence not in occurrences]

    def arm(self, responses: tuple[Response, ...]) -> list[Response]:
        """Let the delays of `responses` run, and of no others; return those that did not run before."""
        known = {(response.occurrence, response.action) for response in self.armed}
        self.armed = responses
        return [response for response in responses if (response.occurrence, response.action) not in known]

    def notice(self, occurrence: Occurrence) -> None:
        """Remember what happened until it is answered."""
        self.occurrences.append(occurrence)
        del self.occurrences[:-_MOST_OCCURRENCES]


class JobMemories(Memories[Job, JobMemory]):
    """The memories of all Jobs."""

    def pause(self, key: Key) -> float:
        """Seconds in which changes of the pods of that Job are gathered: a few times as long as the last look at them took."""
        memory = self.known(key)
        return max(_SHORTEST_PAUSE, min(_LOOKS_APART * memory.look_seconds, _LONGEST_PAUSE)) if memory else _SHORTEST_PAUSE

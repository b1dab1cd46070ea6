"""Finds the resting (unschedulable) jobs that the next session tries again.

Events record changes, and small steps before a snapshot evaluate them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from pyroclast_scheduler.cache.changed_rooms import Rooms, Victims
from pyroclast_scheduler.cache.jobs import JobTable
from pyroclast_scheduler.cache.nodes import NodeTable
from pyroclast_scheduler.cache.noted_changes import Changes
from pyroclast_scheduler.cache.objects import ObjectTable
from pyroclast_scheduler.cache.unschedulable_jobs import JobOrClass, UnschedulableJobs
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.queues import QueueFacts, above, branches
from pyroclast_scheduler.model.triggers import (
    AnyChange,
    AnyRoom,
    ClaimRelease,
    DeviceRelease,
    Eviction,
    Labelled,
    Neighbours,
    ObjectChange,
    QueueChange,
    QueueUse,
    Room,
    UnschedulableJob,
)

_ROUND: Final = 300  # schedule periods after which every waiting job was tried again without any change
_STEPS: Final = 50  # steps of the search in one call of 3 ms; a step may examine all nodes for a shape
_PIECE: Final = 250  # jobs that one step wakes


class RetryTriggers:
    """The unschedulable jobs. A change during a session also affects the jobs that this session leaves unschedulable.

    If a kind has several jobs, sessions try the oldest one, and the next one only after the oldest was placed. When one job of
    the kind rests again, the result applies to all of them.
    """

    def __init__(self, jobs: JobTable, nodes: NodeTable, changes: Changes, objects: ObjectTable) -> None:
        self._jobs = jobs
        self._nodes = nodes
        self._changes = changes
        self._objects = objects
        self._waiting = UnschedulableJobs()
        self._search: Iterator[list[JobOrClass]] | None = None
        self._to_ask: dict[bytes, None] = {}
        self._asked: dict[bytes, None] = {}
        self._touched: set[int] | None = None
        self._rechecks = 0

    def regroup(self) -> None:
        """Make the next session examine all jobs, since jobs of one kind may differ now."""
        self._jobs.wake(self._waiting.jobs)

    def add(self, job: UnschedulableJob) -> None:
        """Let a job rest that the last session could not place, until the job changes or one of its triggers fires."""
        if job.kind is not None:
            self._asked.pop(job.kind, None)
        if job.kind is not None and not job.facts.is_of(job.kind):
            self._jobs.wake([job.facts.key])  # labels became relevant after the session examined the job
            return
        if self._jobs.rest(job.facts) and job.facts.is_waiting:
            self._jobs.wake(self._waiting.add(job))

    def draw(self, job: str) -> None:
        """Record that the last session examined a resting job, so that the next session examines the job again."""
        self._waiting.discard(job)
        self._jobs.draw(job)

    def recheck(self) -> None:
        """Handle that a schedule period began: retry the jobs that time may help, and some other jobs, oldest first.

        The other jobs are retried in case a trigger is missing. Such a job then waits for minutes and not for ever.
        """
        self._wake([*self._waiting.due(), *self._waiting.oldest(_ROUND)])
        self._rechecks += 1
        if self._rechecks % (2 * _ROUND) == 0:  # every waiting job was tried by now, and read its objects again
            self._objects.forget_old_reads()

    def lines(self) -> list[Sequence[JobFacts]]:
        """Return the resting jobs of each kind that the next session must try, oldest first.

        Some of them may not rest any more.
        """
        kinds = {**self._asked, **self._to_ask}  # also kinds without a result in the last session
        found = {kind: line for kind in kinds if (line := self._waiting.line(kind))}
        self._asked, self._to_ask = dict.fromkeys(found), {}
        return list(found.values())

    def touched(self) -> frozenset[int] | None:
        """Return the rows whose possible victims changed since the last call; None if these may be all rows."""
        found = None if self._touched is None else frozenset(self._touched)
        self._touched = set()
        return found

    def discard(self, jobs: Iterable[str]) -> None:
        """Remove jobs that no longer rest, because they are not unschedulable any more."""
        for job in jobs:
            self._waiting.discard(job)

    @property
    def left(self) -> int:
        """The number of jobs to be retried that `rouse` has not handled, plus one while the search is not finished."""
        return self._jobs.woken + (self._changes.is_any or self._search is not None)

    def rouse(self, queues: Mapping[str, QueueFacts], *, at_most: int | None = None) -> None:
        """Search for the jobs that the changes concern, and make the next session examine them.

        The facts of all jobs must be up to date. `queues`: the existing queues. `at_most`: the number of jobs after which the
        search is interrupted; None to finish the search.
        """
        steps = None if at_most is None else _STEPS
        if self._objects.is_read_late():
            self._changes.everything()
        while self._search is not None or self._changes.is_any:
            self._search = self._search or _pieces(self._concerned(queues))
            found = list(islice(self._search, steps))
            for each in found:
                self._wake(each)
            if len(found) == steps:
                break
            self._search = None
        self.discard(self._jobs.rouse(at_most=at_most))

    def _wake(self, whose: Iterable[JobOrClass]) -> None:
        for who in whose:
            if isinstance(who, bytes):
                self._to_ask[who] = None
            else:
                self._jobs.wake([who])

    def _concerned(self, queues: Mapping[str, QueueFacts]) -> Iterator[Iterable[JobOrClass]]:
        """Yield the resting jobs that the changes so far concern, in steps between which further changes may be recorded."""
        waiting, nodes, changes = self._waiting, self._nodes, self._changes.taken()
        nodes.fit()
        victims = self._victims(changes) if waiting.by(Eviction) and not changes.is_all else None
        rows = None if victims is None else victims.rows
        self._touched = None if rows is None or self._touched is None else self._touched | rows
        if changes.is_all:
            yield waiting.all
            return
        yield [who for name in branches(changes.queues, queues) for who in waiting.of(QueueChange(name))]
        yield waiting.of(AnyChange())
        yield self._of_quotas(changes, queues)
        yield waiting.of(ClaimRelease()) if changes.are_claims_released else ()
        yield waiting.of(DeviceRelease()) if changes.are_devices_released else ()
        for record, key in {*changes.objects, *((record, "") for record, _ in changes.objects)}:
            yield waiting.of(ObjectChange(record, key))
        yield waiting.of(AnyRoom()) if changes.rows or changes.are_victims else ()
        rooms = Rooms(changes, nodes)
        for room, whose in list(waiting.by(Room)) if changes.rows else ():
            yield whose if rooms.may_hold(room) else ()
        if changes.are_neighbours:
            yield waiting.of(Neighbours())
        else:
            labelled = [whose for each, whose in waiting.by(Labelled) if (each.key, each.value) in changes.labels]
            yield [who for whose in labelled for who in whose]
        if victims is not None:
            for wish, whose in list(waiting.by(Eviction)):
                yield whose if victims.may_help(wish) else ()

    def _of_quotas(self, changes: Changes, queues: Mapping[str, QueueFacts]) -> list[JobOrClass]:
        """Return the jobs whose triggers are the amounts of a queue's jobs or the limits of a queue."""
        if changes.are_victims:
            return [who for _, whose in self._waiting.by(QueueUse) for who in whose]
        known = (self._jobs.facts(key) for key in changes.holders)
        used = changes.used | {facts.queue for facts in known if facts is not None}
        names = {*above(used, queues), ""} if used else set[str]()
        return [who for name in names for who in self._waiting.of(QueueUse(name))]

    def _victims(self, changes: Changes) -> Victims:
        placed = {queue for queue, amounts in self._jobs.placed().items() if amounts}
        return Victims(changes, jobs=self._jobs.all_facts(), placed=placed, nodes=self._nodes)


def _pieces(groups: Iterable[Iterable[JobOrClass]]) -> Iterator[list[JobOrClass]]:
    """Yield each group in pieces of limited length, at least one piece per group."""
    for group in groups:
        whose = list(group)
        for at in range(0, max(1, len(whose)), _PIECE):
            yield whose[at : at + _PIECE]

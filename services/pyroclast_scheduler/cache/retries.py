"""Which unschedulable jobs the next session tries again, and when.

Problem: 20,000 jobs may wait, and each second thousands of events change the cluster. To try every job after every event would
cost minutes of CPU per second; to wait for a timer would leave free nodes idle. So each refusal names its triggers, which are the
queueing hints of kube-scheduler for gangs. An index leads from a trigger to its jobs, and an event that no job waits for costs
nothing. Jobs that no reader can tell apart are one equivalence class: the oldest one is tried for all of them, and the next one
only after the oldest was placed.

Invariant: if a session could place a job, one of its triggers has fired, or the job is retried by age. Changes are recorded while
a session decides, and count for the jobs that this session refuses. The search runs in steps of about 3 ms between other work.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, Final, TypeAlias, TypeVar

from pyroclast_scheduler.cache.changes import Changes, Rooms, Victims
from pyroclast_scheduler.cache.jobs import JobTable
from pyroclast_scheduler.cache.nodes import NodeTable
from pyroclast_scheduler.cache.objects import ObjectTable
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
    Pause,
    QueueChange,
    QueueUse,
    Room,
    Trigger,
    UnschedulableJob,
)

JobOrClass: TypeAlias = "str | bytes"
"""A job by its key, or all unschedulable jobs of one equivalence class by its digest."""

T = TypeVar("T")

_AGE: Final = attrgetter("created", "uid")
_MOST_GONE: Final = 50  # outdated entries beyond one per job, each with all pods of a job, before the order is rewritten
_ROUND: Final = 300  # schedule periods after which every waiting job was tried again without any change
_STEPS: Final = 50  # steps of the search in one call of 3 ms; a step may examine all nodes for a shape
_PIECE: Final = 250  # jobs that one step retries


class WaitQueue:
    """The unschedulable jobs of one equivalence class in order. Outdated entries stay in `order`, and sessions skip them."""

    def __init__(self) -> None:
        self._members: dict[str, JobFacts] = {}
        self._written: dict[str, JobFacts] = {}
        self.order: list[JobFacts] = []
        """The waiting jobs, oldest first, with outdated entries. Jobs may be inserted while a session reads the list."""

    def __len__(self) -> int:
        return len(self._members)

    @property
    def members(self) -> Sequence[str]:
        """The keys of the waiting jobs."""
        return list(self._members)

    def add(self, facts: JobFacts) -> None:
        """Add a job, or replace its facts."""
        self._members[facts.key] = facts
        if self._written.get(facts.key) is facts:
            return
        if len(self.order) > 2 * len(self._members) + _MOST_GONE:
            self.order = [each for each in self.order if self._members.get(each.key) is each]
            self._written = {each.key: each for each in self.order}
        insort(self.order, facts, key=_AGE)
        self._written[facts.key] = facts

    def discard(self, key: str) -> None:
        """Remove a job from the queue."""
        self._members.pop(key, None)


class UnschedulableJobs:
    """The unschedulable jobs by key. The last result for one job applies to all jobs of its equivalence class.

    Jobs that a trigger finds stay in the index until they are discarded.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, UnschedulableJob] = {}
        self._queues: dict[bytes, WaitQueue] = {}
        self._latest: dict[JobOrClass, UnschedulableJob] = {}
        self._index: dict[type[Any], dict[Any, dict[JobOrClass, None]]] = {}
        self._period = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: UnschedulableJob) -> Collection[str]:
        """Add a job. Return the other jobs of its equivalence class if these have another reason."""
        key, class_ = job.facts.key, job.equivalence_class
        self.discard(key)
        self._jobs[key] = job
        if class_ is None:
            self._keep(key, job)
            return ()
        before = self._latest.get(class_)
        if before is not None:
            self._forget(class_, before)
        self._keep(class_, job)
        queue = self._queues.setdefault(class_, WaitQueue())
        others = () if before is None or before.reason == job.reason else queue.members
        queue.add(job.facts)
        return others

    def discard(self, key: str) -> None:
        """Remove a job that is no longer unschedulable."""
        job = self._jobs.pop(key, None)
        if job is None:
            return
        class_ = job.equivalence_class
        if class_ is None:
            self._forget(key, job)
            return
        queue = self._queues[class_]
        queue.discard(key)
        if not len(queue):
            del self._queues[class_]
            self._forget(class_, self._latest[class_])

    @property
    def jobs(self) -> Sequence[str]:
        """The keys of all unschedulable jobs."""
        return list(self._jobs)

    @property
    def all(self) -> KeysView[JobOrClass]:
        """All equivalence classes of unschedulable jobs, and the keys of the jobs without a class."""
        return self._latest.keys()

    def of(self, trigger: Trigger) -> Collection[JobOrClass]:
        """Return the jobs and classes that are tried again when `trigger` fires."""
        return self._index.get(type(trigger), {}).get(trigger, ())

    def by(self, type_: type[T]) -> ItemsView[T, Collection[JobOrClass]]:
        """Return the triggers of a type, each with the jobs and classes that are tried again when the trigger fires."""
        return self._index.get(type_, {}).items()

    def due(self) -> Sequence[JobOrClass]:
        """Handle that a schedule period began. Return the jobs and classes whose results time alone may have changed."""
        self._period += 1
        return [each for pause, jobs in self.by(Pause) if self._period % pause.periods == 0 for each in jobs]

    def order(self, class_: bytes) -> Sequence[JobFacts]:
        """Return the jobs of one class, oldest first. Some of them may not be unschedulable any more."""
        queue = self._queues.get(class_)
        return () if queue is None else queue.order

    def oldest(self, parts: int) -> list[str]:
        """Return the keys of the jobs that have waited longest: the fraction 1/`parts` of all unschedulable jobs, rounded up."""
        return list(islice(self._jobs, -(-len(self._jobs) // parts)))

    def _keep(self, key: JobOrClass, job: UnschedulableJob) -> None:
        self._latest[key] = job
        for trigger in job.triggers:
            self._index.setdefault(type(trigger), {}).setdefault(trigger, {})[key] = None

    def _forget(self, key: JobOrClass, job: UnschedulableJob) -> None:
        del self._latest[key]
        for trigger in job.triggers:
            triggers = self._index[type(trigger)]
            del triggers[trigger][key]
            if not triggers[trigger]:
                del triggers[trigger]


class Retries:
    """Retries unschedulable jobs after changes. A change during a session also affects the jobs that this session refuses."""

    def __init__(self, jobs: JobTable, nodes: NodeTable, changes: Changes, objects: ObjectTable) -> None:
        self._jobs = jobs
        self._nodes = nodes
        self._changes = changes
        self._objects = objects
        self._unschedulable = UnschedulableJobs()
        self._pieces: Iterator[list[JobOrClass]] | None = None  # the rest of a search that was interrupted
        self._triggered: dict[bytes, None] = {}  # classes of which a trigger fired
        self._unanswered: dict[bytes, None] = {}  # classes that the last session was given, without a result so far
        self._touched: set[int] | None = None
        self._rechecks = 0

    def retry_all(self) -> None:
        """Retry all jobs one by one, since jobs of one equivalence class may differ now."""
        self._jobs.retry(self._unschedulable.jobs)

    def add(self, job: UnschedulableJob) -> None:
        """Add a job that the last session could not place; it waits until it changes or one of its triggers fires."""
        class_ = job.equivalence_class
        if class_ is not None:
            self._unanswered.pop(class_, None)
        if class_ is not None and not job.facts.is_of(class_):
            self._jobs.retry([job.facts.key])  # labels became relevant after the session examined the job
        elif self._jobs.deactivate(job.facts) and job.facts.is_waiting:
            self._jobs.retry(self._unschedulable.add(job))

    def examine_again(self, job: str) -> None:
        """Handle that the last session examined an unschedulable job: the next session examines it again."""
        self._unschedulable.discard(job)
        self._jobs.activate(job)

    def recheck(self) -> None:
        """Handle that a schedule period began: retry the jobs that time may help, and some other jobs, oldest first.

        The other jobs are retried in case a trigger is missing. Such a job then waits for minutes and not for ever.
        """
        self._retry([*self._unschedulable.due(), *self._unschedulable.oldest(_ROUND)])
        self._rechecks += 1
        if self._rechecks % (2 * _ROUND) == 0:  # every waiting job was tried by now, and read its objects again
            self._objects.forget_old_reads()

    def candidates(self) -> list[Sequence[JobFacts]]:
        """Return the jobs of each equivalence class that the next session must try, oldest first.

        Some of them may not be unschedulable any more.
        """
        classes = {**self._unanswered, **self._triggered}
        orders = {class_: order for class_ in classes if (order := self._unschedulable.order(class_))}
        self._unanswered, self._triggered = dict.fromkeys(orders), {}
        return list(orders.values())

    def touched(self) -> frozenset[int] | None:
        """Return the rows whose possible victims changed since the last call; None if these may be all rows."""
        rows = None if self._touched is None else frozenset(self._touched)
        self._touched = set()
        return rows

    def discard(self, jobs: Iterable[str]) -> None:
        """Remove jobs that are not unschedulable any more."""
        for job in jobs:
            self._unschedulable.discard(job)

    @property
    def left(self) -> int:
        """The number of jobs to be retried that `search` has not handled, plus one while the search is not finished."""
        return self._jobs.retries_left + (self._changes.is_any or self._pieces is not None)

    def search(self, queues: Mapping[str, QueueFacts], *, at_most: int | None = None) -> None:
        """Find the jobs of which the changes fire a trigger, and make the next session examine them.

        The facts of all jobs must be up to date. `at_most`: the number of jobs after which the search is interrupted.
        """
        steps = None if at_most is None else _STEPS
        if self._objects.is_read_late():
            self._changes.everything()
        while self._pieces is not None or self._changes.is_any:
            self._pieces = self._pieces or _pieces(self._fired(queues))
            pieces = list(islice(self._pieces, steps))
            for piece in pieces:
                self._retry(piece)
            if len(pieces) == steps:
                break
            self._pieces = None
        self.discard(self._jobs.activate_retried(at_most=at_most))

    def _retry(self, jobs: Iterable[JobOrClass]) -> None:
        for each in jobs:
            if isinstance(each, bytes):
                self._triggered[each] = None
            else:
                self._jobs.retry([each])

    def _fired(self, queues: Mapping[str, QueueFacts]) -> Iterator[Iterable[JobOrClass]]:
        """Yield the jobs of which the changes so far fire a trigger, in steps between which further changes may be recorded."""
        waiting, nodes, changes = self._unschedulable, self._nodes, self._changes.taken()
        nodes.fit()
        victims = None
        if waiting.by(Eviction) and not changes.is_all:
            placed = {queue for queue, amounts in self._jobs.placed().items() if amounts}
            victims = Victims(changes, jobs=self._jobs.all_facts(), placed=placed, nodes=nodes)
        rows = None if victims is None else victims.rows
        self._touched = None if rows is None or self._touched is None else self._touched | rows
        # 1. a change that may affect any job
        if changes.is_all:
            yield waiting.all
            return
        # 2. queues and their use
        yield [job for name in branches(changes.queues, queues) for job in waiting.of(QueueChange(name))]
        yield waiting.of(AnyChange())
        yield self._of_quotas(changes, queues)
        # 3. objects
        yield waiting.of(ClaimRelease()) if changes.are_claims_released else ()
        yield waiting.of(DeviceRelease()) if changes.are_devices_released else ()
        for record, key in {*changes.objects, *((record, "") for record, _ in changes.objects)}:
            yield waiting.of(ObjectChange(record, key))
        # 4. room on nodes
        yield waiting.of(AnyRoom()) if changes.rows or changes.are_victims else ()
        rooms = Rooms(changes, nodes)
        for room, jobs in list(waiting.by(Room)) if changes.rows else ():
            yield jobs if rooms.may_hold(room) else ()
        # 5. other pods on nodes
        if changes.are_neighbours:
            yield waiting.of(Neighbours())
        else:
            yield [job for each, jobs in waiting.by(Labelled) if (each.key, each.value) in changes.labels for job in jobs]
        # 6. evictions
        if victims is not None:
            for eviction, jobs in list(waiting.by(Eviction)):
                yield jobs if victims.may_help(eviction) else ()

    def _of_quotas(self, changes: Changes, queues: Mapping[str, QueueFacts]) -> list[JobOrClass]:
        """Return the jobs whose triggers are the amounts of a queue's jobs or the limits of a queue."""
        if changes.are_victims:
            return [job for _, jobs in self._unschedulable.by(QueueUse) for job in jobs]
        holders = (self._jobs.facts(key) for key in changes.holders)
        used = changes.used | {facts.queue for facts in holders if facts is not None}
        names = {*above(used, queues), ""} if used else set[str]()
        return [job for name in names for job in self._unschedulable.of(QueueUse(name))]


def _pieces(groups: Iterable[Iterable[JobOrClass]]) -> Iterator[list[JobOrClass]]:
    """Yield each group in pieces of limited length, at least one piece per group."""
    for group in groups:
        jobs = list(group)
        for at in range(0, max(1, len(jobs)), _PIECE):
            yield jobs[at : at + _PIECE]

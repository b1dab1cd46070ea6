"""The promises of one session: taken back, and kept from pods beyond the minimum of their gangs.

`model.promises` says what each gang was owed when the session began. A session changes that:

- The action enqueue lets gangs in. From then on their minimum is kept for them.
- A promise is taken back if no further pod of the gang came within `patience` schedule periods. The gang is let in again after
  the same time, then twice that, up to 32 times, since its pods may be created only then. The memory of this may be lost.
- A promise ends if the pods of the gang are all there and found no nodes for `patience` periods: the gang waits for certain
  nodes, perhaps for days. It competes for nodes as before, and further gangs are let in beside it only into room that is really
  free, so that their number stays bounded where more than the cluster has may be promised.
- Promises are taken back from gangs without allocated pods if a gang with a strictly higher priority needs the room: the least
  important first, and no more than needed.

`kept_from` is what a job must leave free if it has its minimum already: the promises to gangs with at least its priority. The
amounts are sums over the cluster, as it is only known when pods are placed which nodes a gang will use.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from pyroclast.api.enums import PodGroupPhase
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.promises import Promise, Why, promise_on_entry
from pyroclast_scheduler.model.tasks import READY, TaskStatus
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.arguments import Arguments

if TYPE_CHECKING:
    from pyroclast_scheduler.session.session import Session
    from pyroclast_scheduler.session.statement import Move

_PATIENCE: Final = 10  # schedule periods; the job controller creates the pods of a gang within a few seconds
_LONGEST: Final = 5  # doublings
_MOST: Final = 2**60  # a larger amount has no further effect and could overflow
_WITH_PODS: Final = frozenset({Why.WAITS_FOR_NODES, Why.HELD_UP})
_ARRIVALS: Final = "promises.arrivals"
_WAITS: Final = "promises.waits"
_OVER: Final = "promises.over"


class _Arrival(NamedTuple):
    """What is remembered of a gang whose pods have not all come.

    `period`: in which the last pod came, or in which the gang is let in again if it `is_waiting` for that. `pods`: their number.
    `times`: how often its promise was taken back for this reason.
    """

    period: int
    pods: int
    times: int
    is_waiting: bool


class Promises:
    """The room that is kept for gangs in this session.

    Attributes:
        by_queue: what is kept for the gangs of each queue.
        whole: what is kept for all gangs, as the plugin overcommit counts it.
        patience: the number of schedule periods within which a further pod of a gang must come, or nodes for all its pods.
        withheld: the amounts of the promises for which free room was withheld, by key of the job that could have used the room.
    """

    def __init__(self, session: Session) -> None:
        self.by_queue: dict[str, Floats] = {name: sums.inqueue.copy() for name, sums in session.queue_sums.items()}
        nothing = np.zeros(len(session.dimensions))
        self.whole: Floats = sum((sums.inqueue_whole for sums in session.queue_sums.values()), nothing)
        self.patience = patience_of(session.arguments_of("enqueue"))
        self.withheld: dict[str, Floats] = {}
        self._session = session
        self._listeners: list[Callable[[str, Floats], None]] = []
        self._given: dict[str, tuple[Job, Promise]] = {}
        self._taken: set[str] = set()
        self._live: _Live | None = None
        self._lower: list[JobFacts] | None = None
        self._late: dict[str, JobFacts] = {}
        self._late_sums: dict[int, Floats] = {}
        self._lapsed: set[str] = set()
        self._is_settled = False
        self._find_long_waits()

    def _find_long_waits(self) -> None:
        """Find the promises that end now, to gangs whose pods found no nodes for `patience` periods. Ended ones cost nothing."""
        memory, jobs, now = self._session.ports.memory, self._session.snapshot.all_jobs, self._session.ports.period
        waits: dict[str, int] = memory.get(_WAITS, {})
        late = list(takewhile(lambda key: now - waits[key] >= self.patience, waits))  # the oldest waits come first
        for key in late:
            period, facts = waits.pop(key), jobs.get(key)
            if facts is not None and _has_waiting_pods(facts):
                memory.setdefault(_OVER, {})[key] = period
                self._lapsed.add(facts.queue)

    def settle(self) -> None:
        """Keep nothing for the gangs that waited too long: once, before anything asks what is kept."""
        if self._is_settled:
            return
        self._is_settled = True
        over, jobs = self._session.ports.memory.get(_OVER, {}), self._session.snapshot.all_jobs
        for key in [key for key in over if not _has_waiting_pods(jobs.get(key))]:
            del over[key]
        self._late = {key: jobs[key] for key in over}
        sums: dict[int, dict[str, int]] = {}
        for facts in self._late.values():
            _add(sums.setdefault(facts.priority, {}), facts.promise.whole)
        self._late_sums = {priority: self._session.dimensions.sums(total) for priority, total in sums.items()}
        self._lift(list(self._late.values()))

    def observe(self) -> frozenset[str]:
        """Remember which gangs wait for nodes. Return the queues in which a promise ended since the last session."""
        memory, jobs = self._session.ports.memory, self._session.snapshot.all_jobs
        waits, over = memory.get(_WAITS, {}), memory.get(_OVER, {})
        for key, job in self._session.jobs.items():  # a gang whose last pod came or whose cause changed is examined
            facts = job.facts
            if key in waits and not _has_waiting_pods(facts):
                del waits[key]
            elif facts.promise.why in _WITH_PODS and key not in waits and key not in over and _has_waiting_pods(facts):
                waits = memory.setdefault(_WAITS, {})
                waits[key] = self._session.ports.period
        for key in [key for key in self._arrivals if key not in jobs]:
            del self._arrivals[key]
        return frozenset(self._lapsed)

    @property
    def ended(self) -> frozenset[str]:
        """The jobs to which nothing is owed any more, since their pods found no nodes for too long."""
        return frozenset(self._session.ports.memory.get(_OVER, ()))

    def late(self, job: Job) -> Floats | None:
        """Return what gangs with at least the priority of `job` were promised until they waited too long; None for nothing."""
        sums = [amounts for priority, amounts in self._late_sums.items() if priority >= job.facts.priority]
        return sum(sums, np.zeros(len(self._session.dimensions))) if sums else None

    def listen(self, listener: Callable[[str, Floats], None]) -> None:
        """Call `listener` with the queue and the change, whenever what is kept for the gangs of a queue changes."""
        self._listeners.append(listener)

    def give(self, job: Job) -> None:
        """Keep the minimum of `job`, which was just let in."""
        facts, least = job.facts, job.facts.min_resources
        if least is None:
            return
        promise = promise_on_entry(facts.group, least, facts.sums)
        whole = self._session.dimensions.sums(promise.whole)
        self._given[facts.key] = job, promise
        self._change(facts.queue, whole, whole)

    def _change(self, queue: str, amounts: Floats, whole: Floats) -> None:
        self.by_queue[queue] = self.by_queue.get(queue, 0.0) + amounts
        self.whole = self.whole + whole
        self._live = None
        for listener in self._listeners:
            listener(queue, amounts)

    # -- taking back ---------------------------------------------------------------------------------------------------

    def take_back(self, facts: JobFacts) -> None:
        """Keep nothing more for a gang that was let in before this session."""
        self._taken.add(facts.key)
        self._lower = None
        self._lift([facts])

    def make_room(self, job: Job, is_enough: Callable[[], bool]) -> list[JobFacts]:
        """Take promises back from less important gangs, no more than `is_enough` needs. Return them; none if in vain."""
        lower = self._outranked_by(job)
        if not lower:
            return []
        # 1. The usual case: even all of them are too few
        self._lift(lower)
        is_possible = is_enough()
        self._lift(lower, 1)
        if not is_possible:
            return []
        # 2. The least important gangs that are enough: more promises taken back never make less room
        few, many = 0, len(lower)
        while many - few > 1:
            middle = (few + many) // 2
            self._lift(lower[:middle])
            few, many = (few, middle) if is_enough() else (middle, many)
            self._lift(lower[:middle], 1)
        chosen = lower[:many]
        self._lift(chosen)
        # 3. Promises in other queues, which may not help, are given back, the most important one first
        for facts in reversed(chosen[:-1]):
            self._lift([facts], 1)
            if is_enough():
                chosen.remove(facts)
            else:
                self._lift([facts])
        self._taken.update(facts.key for facts in chosen)
        self._lower = None
        return chosen

    def _outranked_by(self, job: Job) -> list[JobFacts]:
        """Return the gangs that were let in before, have a lower priority and no allocated pods: the least important first."""
        if self._lower is None:
            let_in = (facts for facts in self.listed() if facts.phase is PodGroupPhase.INQUEUE and not self._is_placed(facts))
            self._lower = sorted(let_in, key=lambda facts: (facts.priority, *(-each for each in facts.arrived), facts.uid))
        return self._lower[: bisect_left(self._lower, job.facts.priority, key=attrgetter("priority"))]

    def _lift(self, gangs: Sequence[JobFacts], sign: int = -1) -> None:
        """Keep nothing for `gangs` (`sign` −1), or keep again what they were promised (1)."""
        sums: dict[str, tuple[dict[str, int], dict[str, int]]] = {}
        for facts in gangs:
            for total, amounts in zip(sums.setdefault(facts.queue, ({}, {})), facts.promise[1:], strict=True):
                _add(total, amounts)
        dimensions = self._session.dimensions
        for queue, (amounts, whole) in sums.items():
            self._change(queue, sign * dimensions.sums(amounts), sign * dimensions.sums(whole))

    def is_overdue(self, job: Job) -> bool:
        """Whether no pod of `job`, which was let in before, came within `patience` periods although it lacks some."""
        memory, now, key = self._arrivals, self._session.ports.period, job.facts.key
        if job.facts.tally.valid >= job.facts.min_available or not job.facts.promise.whole:
            memory.pop(key, None)
            return False
        memory = self._session.ports.memory.setdefault(_ARRIVALS, {})
        last = memory.get(key)
        if last is None or last.is_waiting or last.pods != job.facts.tally.valid:
            memory[key] = _Arrival(now, job.facts.tally.valid, 0 if last is None else last.times, is_waiting=False)
            return False
        if now - last.period < self.patience:
            return False
        pause = self.patience << min(last.times, _LONGEST)
        memory[key] = _Arrival(now + pause, last.pods, last.times + 1, is_waiting=True)
        return True

    def must_wait(self, job: Job) -> int:
        """Return after how many periods a gang whose pods did not come is let in again; 0: now."""
        last = self._arrivals.get(job.facts.key)
        is_waiting = last is not None and last.is_waiting and self.lacks_pods(job)
        return max(0, last.period - self._session.ports.period) if last is not None and is_waiting else 0

    def lacks_pods(self, job: Job) -> bool:
        """Whether a promise to `job` was taken back since its pods did not come, and none has come after that."""
        last, pods = self._arrivals.get(job.facts.key), job.facts.tally.valid
        return last is not None and last.times > 0 and pods <= last.pods and pods < job.facts.min_available

    @property
    def _arrivals(self) -> dict[str, _Arrival]:
        arrivals: dict[str, _Arrival] = self._session.ports.memory.get(_ARRIVALS, {})
        return arrivals

    # -- keeping -------------------------------------------------------------------------------------------------------

    def leaves(self, job: Job, plan: PlacementPlan, count: int) -> int:
        """Return how many of `count` pods of `job`, all beyond its minimum, leave the promised room of cluster and queue free."""
        if not self._given and not self._session.snapshot.promised:
            return count
        self.settle()
        live = self._live = self._live or _Live(self._session, self._owed())
        kept = live.kept_from(job)
        rows = np.flatnonzero((kept > 0) & (plan.request > 0))
        if len(rows):
            spare = (live.idle - kept)[rows] // plan.request[rows]
            count = min(count, max(0, int(spare.min())))
        own = live.kept_from(job, in_queue=True)
        rows = np.flatnonzero((own > 0) & (plan.request > 0))
        if count and len(rows):
            count = self._in_queue(job, plan, count, own)
        if not count:
            self.withheld[job.facts.key] = kept
        return count

    def _in_queue(self, job: Job, plan: PlacementPlan, count: int, owed: Floats) -> int:
        """Return how many of `count` pods the queue of `job` may use beside what is `owed` in it."""
        queue, together = self._session.queues[job.facts.queue], copy(plan)

        def is_too_many(pods: int) -> bool:
            together.request = plan.request * pods + np.where(plan.request > 0, np.minimum(owed, _MOST), 0).astype(np.int64)
            return not self._session.allocatable(queue, together, 1)

        return bisect_left(range(1, count + 1), True, key=is_too_many)

    def moved(self, move: Move, sign: int) -> None:
        """Handle that `move` was made (1) or undone (−1)."""
        if self._live is not None:
            self._live.moved(move, sign)

    def end(self) -> None:
        """Drop all references at the end of the session."""
        self._listeners.clear()
        self._given.clear()
        self._live = None
        del self._session

    def listed(self) -> Sequence[JobFacts]:
        """Return the gangs for which room is kept when the session ends; `promise` of each says how much and why."""
        gone = self._taken | self._late.keys()
        return [facts for facts in self._session.snapshot.promised if facts.promise.whole and facts.key not in gone]

    def _owed(self) -> dict[str, tuple[Job, Floats]]:
        """Return for each job with a promise what it was owed before the moves of this session."""
        session = self._session
        earlier = ((session.job(facts.key), facts.promise) for facts in self.listed())
        promises = (*earlier, *self._given.values())
        return {job.facts.key: (job, session.dimensions.sums(each.amounts)) for job, each in promises if job is not None}

    def _is_placed(self, facts: JobFacts) -> bool:
        """Whether a pod of the gang is allocated or pipelined."""
        job = self._session.jobs.get(facts.key)
        tally = facts.tally if job is None else job.tally
        return any(tally[status] for status in (*READY, TaskStatus.PIPELINED, TaskStatus.RELEASING))


def _add(total: dict[str, int], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _has_waiting_pods(facts: JobFacts | None) -> bool:
    """Whether a gang is let in and all its pods are there."""
    return facts is not None and facts.phase is PodGroupPhase.INQUEUE and facts.tally.valid >= facts.min_available


def patience_of(arguments: Arguments) -> int:
    """Return for how many schedule periods room is kept while no pod comes, or no node is found: `promisePeriods` (10)."""
    return arguments.integer("promisePeriods", _PATIENCE, least=1, most=1_000_000)


class _Live:
    """What is owed to each gang after the moves so far, and the free room of the usable nodes."""

    def __init__(self, session: Session, owed: Mapping[str, tuple[Job, Floats]]) -> None:
        self._dimensions = session.dimensions
        rows = np.flatnonzero(session.nodes.usable & ~session.features.unready() & ~session.features.closed())
        self.idle: Floats = np.maximum(session.columns.idle(rows), 0).sum(axis=1, dtype=np.float64)
        self._promised = owed
        self._owed: dict[str, Floats] = {}
        self._sums: dict[tuple[str, int], Floats] = {}
        for job, _ in owed.values():
            self._update(job)

    def kept_from(self, job: Job, *, in_queue: bool = False) -> Floats:
        """Return what is owed to other gangs with at least the priority of `job`. `in_queue`: to those of its queue only."""
        total: Floats = np.zeros(len(self._dimensions))
        for (queue, priority), amount in self._sums.items():
            if priority >= job.facts.priority and (not in_queue or queue == job.facts.queue):
                total = total + amount
        return total - self._owed.get(job.facts.key, 0.0)

    def moved(self, move: Move, sign: int) -> None:
        if move.status is TaskStatus.ALLOCATED:
            self.idle = self.idle - sign * move.amount
        if move.job.facts.key in self._promised:
            self._update(move.job)

    def _update(self, job: Job) -> None:
        """Calculate anew what is owed to `job`: less than at first by what it was allocated since."""
        key, slot = job.facts.key, (job.facts.queue, job.facts.priority)
        since = np.maximum(job.allocated - job.facts.allocated(self._dimensions), 0)
        now = np.maximum(self._promised[key][1] - since, 0)
        self._sums[slot] = self._sums.get(slot, 0.0) + now - self._owed.get(key, 0.0)
        self._owed[key] = now

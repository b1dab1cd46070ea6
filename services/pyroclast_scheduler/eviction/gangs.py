"""Room for a whole gang: in one hypernode, pods of other gangs are evicted, either spare pods or whole gangs.

The problem: a gang needs room for all its members at once, and an eviction is only worth its price if the rest follows. The
obvious way evicts pod by pod for one member after another, as preempt does; it may kill pods and then find no room for the
last member. Therefore:

1. Victims are bundles: the pods that a job can spare, or all its other pods, so that no gang is left below its minimum unless
   it goes.
2. Hypernodes are filtered by `domain_room`: where not even all bundles would be enough, nothing is tried.
3. In a domain, all bundles are evicted in a trial. If the gang fits, a binary search finds the fewest bundles, in their order.

Invariant: nothing is committed unless the gang fits as a whole. The cost is at most `maxDomains` domains, each with a
logarithmic number of trials. The actions gangpreempt and gangreclaim differ in the possible victims.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import groupby
from typing import Final, Protocol, TypeVar

import numpy as np

from pyroclast_scheduler.eviction.domain_room import Demand, DomainRoom
from pyroclast_scheduler.eviction.freeable import Freeable
from pyroclast_scheduler.eviction.part_room import request_of, room_for_part
from pyroclast_scheduler.eviction.preemptor_order import starving, take_turns
from pyroclast_scheduler.eviction.progress import is_step_forward
from pyroclast_scheduler.eviction.victims import Bundle, Residents, allowed, ordered, split
from pyroclast_scheduler.model.dimensions import PODS, Ints
from pyroclast_scheduler.model.hypernodes import HyperNode, job_limit, sub_job_limit
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.subjobs import SubJob
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.domains import PendingTasks, pending_by_sub_job, required_parts
from pyroclast_scheduler.session.extension_points import Candidate, GangEviction, Preemptor, Purpose
from pyroclast_scheduler.session.minimum_run_time import MinimumRunTime
from pyroclast_scheduler.session.part_placement import missing
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Move, Statement
from pyroclast_scheduler.session.task_placement import alike, find

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Room(Protocol[T_contra]):
    """What is free without a trial; `is_enough` is True whenever a trial is enough."""

    def leave(self, each: T_contra) -> None:
        """Free what `each` uses."""

    def come_back(self, each: T_contra) -> None:
        """Undo `leave`."""

    def is_enough(self) -> bool:
        """Whether a trial could be enough now."""


def shortest(least: int, most: int, is_enough: Callable[[int], bool]) -> int | None:
    """Return the smallest number for which the trial `is_enough`, tried in growing steps 1, 2, 4, …; None if there is none."""
    too_few, number, step = least - 1, least, 1
    while not is_enough(number):
        if number == most:
            return None
        too_few, number, step = number, min(number + step, most), 2 * step
    while number - too_few > 1:
        middle = (too_few + number) // 2
        too_few, number = (too_few, middle) if is_enough(middle) else (middle, number)
    return number


def fewest(items: Sequence[T], room: Room[T], is_enough: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Return those of `items` that are needed: the first ones that are not needed are left out. The last item is needed.

    All items have left `room`, and are enough together. Those that `room` does not need are left out in one trial. If that is
    not enough, half of them are tried.
    """
    kept = list(items)
    open_ranges = [items[:-1]]
    while open_ranges:
        some = open_ranges.pop()
        spare = []
        for i, each in enumerate(some):
            room.come_back(each)
            if room.is_enough():
                spare.append(i)
            else:
                room.leave(each)
        if not spare:
            continue
        without = {id(some[i]) for i in spare}
        rest = [each for each in kept if id(each) not in without]
        if is_enough(rest):
            kept = rest
            continue
        for i in spare:
            room.leave(some[i])
        middle = spare[len(spare) // 2]
        open_ranges += [some[middle + 1 :]] if len(spare) == 1 else [some[middle:], some[:middle]]
    return kept


_MOST_DOMAINS: Final = 8


@dataclass(frozen=True, slots=True)
class GangKind:
    """The rules of one action: its name, whether victims are in other queues, the jobs that may lose pods, and these pods."""

    name: str
    is_reclaim: bool
    may_lose: Callable[[Job, Preemptor], bool]
    may_go: Callable[[Job, Task], bool]


@dataclass(slots=True)
class _Plan:
    """Evictions and pipelined placements that are applied already. `places`: the hypernode of each sub-job, by UID."""

    job: Job
    statement: Statement
    places: dict[str, str] = field(default_factory=dict)

    @property
    def moves(self) -> Sequence[Move]:
        """The evictions and placements in order."""
        return self.statement.moves

    def commit(self) -> None:
        """Send the evictions to the cluster, and nominate the hypernodes."""
        self.statement.commit()
        for uid, place in self.places.items():
            self.job.sub_jobs[uid].nominated_hyper_node = place

    def discard(self) -> None:
        """Undo all."""
        self.statement.discard()


@dataclass(slots=True)
class _Trial:
    """Evictions and placements that are tried, at most one plan at a time. `simulate`: applies a plan for bundles of victims."""

    simulate: Callable[[Sequence[Bundle]], _Plan | None]
    _bundles: Sequence[Bundle] = ()
    _applied: _Plan | None = None

    def plan(self, bundles: Sequence[Bundle]) -> _Plan | None:
        """Return the plan for `bundles`, applied; None, with everything undone, if they do not make room for the job."""
        if self._applied is not None and [*map(id, self._bundles)] == [*map(id, bundles)]:
            return self._applied
        if self._applied is not None:
            self._applied.statement.discard()
        self._bundles, self._applied = bundles, self.simulate(bundles)
        return self._applied


def make_room(session: Session, arguments: Arguments, kind: GangKind) -> None:
    """Evict pods for each starving job, in the order of queues and jobs, in the first hypernode in which this is possible.

    Arguments: `minimumRunTime` (0s); `maxDomains` (8): how many hypernodes are examined per job; `allowWholeBundle` (true):
    whether whole gangs may be evicted.
    """
    most = arguments.integer("maxDomains", _MOST_DOMAINS, least=1)
    is_whole_allowed = arguments.boolean("allowWholeBundle", default=True)
    residents = Residents(session, MinimumRunTime(session, arguments))
    freeable = Freeable(session, kind.may_lose, is_reclaim=kind.is_reclaim)
    waiting = starving(session)
    if not waiting:
        return

    def find(job: Job) -> _Plan | None:
        return _Search(session, kind, residents, freeable, job, is_whole_allowed=is_whole_allowed).plan(most)

    for queue, jobs in waiting:
        if not (kind.is_reclaim and session.overused(queue)):
            take_turns(session, jobs, find)


class _Search:
    """The search for room for one job."""

    def __init__(
        self, session: Session, kind: GangKind, residents: Residents, freeable: Freeable, job: Job, *, is_whole_allowed: bool
    ) -> None:
        self.session, self.kind, self.residents, self.job, self._amounts = session, kind, residents, job, freeable
        self.preemptor = Preemptor(job.facts.queue, job.facts.preemptor_priority)
        self.is_whole_allowed = is_whole_allowed
        pending = pending_by_sub_job(session, job)
        required = required_parts(session, job)
        order = sorted(pending, key=lambda uid: (uid not in required, session.sub_job_key(job, job.sub_jobs[uid])))
        self.pending: PendingTasks = {uid: pending[uid] for uid in order[: 1 if session.job_ready(job) else None]}
        self.demand = Demand.of(session, job, self.pending)
        closed = session.closed_to(job)
        self.open = session.nodes.usable if closed is None else session.nodes.usable & ~closed

    @cached_property
    def freeable(self) -> Ints:
        """What evictions for the job could free on each node."""
        return self._amounts.of_losing(self.preemptor)

    def plan(self, most: int) -> _Plan | None:
        """Return evictions and pipelined placements in one of the first `most` hypernodes; None if there are none."""
        session = self.session
        if not self.pending:
            return None
        if self.kind.is_reclaim and not session.preemptive(session.queues[self.job.facts.queue], self.demand.total):
            return None
        return next((found for each in self._domains(most) if (found := self._in(each)) is not None), None)

    def _domains(self, most: int) -> list[HyperNode]:
        session = self.session
        top = session.hyper_nodes.top
        found = {each.name: each for tier in session.hyper_node_gradient(self.job, None, top, Purpose.EVICT) for each in tier}
        if not found and job_limit(self.job, session.hyper_nodes) is None:
            return [top]
        return list(found.values())[:most]

    def _in(self, domain: HyperNode) -> _Plan | None:
        """Return the eviction of the first bundles of `domain` that are enough, without those of them that are not needed."""
        room = DomainRoom(self.session, domain.nodes & self.open, self.demand)
        if not room.could_suffice(self.freeable):
            return None
        bundles, least = self._bundles(domain), 0
        while not (least and room.covers_request() and room.is_enough()):
            if least == len(bundles):
                return None
            room.leave(bundles[least])
            least += 1
        trial = _Trial(partial(self._simulate, domain))
        number = shortest(least, len(bundles), lambda number: trial.plan(bundles[:number]) is not None)
        if number is None:
            return None
        for bundle in bundles[least:number]:
            room.leave(bundle)
        plan = trial.plan(fewest(bundles[:number], room, lambda some: trial.plan(some) is not None))
        if plan is None or is_step_forward(self.session, plan.statement.moves, is_reclaim=self.kind.is_reclaim):
            return plan
        plan.statement.discard()
        return None

    def _bundles(self, domain: HyperNode) -> list[Bundle]:
        """Return the possible bundles of victims in `domain`, in the order of eviction."""
        session, kind, job = self.session, self.kind, self.job
        by_job: dict[str, tuple[Job, list[Task]]] = {}
        for row in np.flatnonzero(domain.nodes & self.open & (self.freeable[PODS] > 0)).tolist():
            for owner, task in self.residents.on(row, self._may_go):
                by_job.setdefault(owner.facts.key, (owner, []))[1].append(task)
        found = [bundle for owner, tasks in by_job.values() for bundle in split(owner, tasks)]
        found = allowed(found, [each for each in _candidates(found) if not self.residents.is_withheld(each, job)])
        found = ordered(session, job, found, self.demand.total, is_reclaim=kind.is_reclaim)
        if found:
            found = allowed(found, session.unified_evictable(GangEviction(job, domain, kind.is_reclaim), _candidates(found)))
        return [each for each in found if self.is_whole_allowed or not each.is_whole]

    def _may_go(self, owner: Job, task: Task) -> bool:
        """Whether a task may be evicted for the job; its own pods, of which some have a lower priority, may not."""
        is_other = owner is not self.job and self.kind.may_lose(owner, self.preemptor)
        return is_other and self.kind.may_go(owner, task)

    def _simulate(self, domain: HyperNode, bundles: Sequence[Bundle]) -> _Plan | None:
        """Evict `bundles` and pipeline the pods of the job; None, with everything undone, if it is not pipelined afterwards."""
        session, job = self.session, self.job
        plan = _Plan(job, session.statement())
        for owner, task in _candidates(bundles):
            plan.statement.evict(owner, session.plan(task.facts.shape), task, self.kind.name)
        tree = job.facts.group.spec.tree
        if tree is not None:
            made = room_for_part(session, job, tree, partial(self._promise_part, domain))
            if made is not None:
                plan.statement.merge(made)
                if session.job_pipelined(job):
                    return plan
            plan.statement.discard()
            return None
        for uid, tasks in self.pending.items():
            place = self._promise(plan.statement, domain, job.sub_jobs[uid], tasks)
            if place is None:
                break
            plan.places[uid] = place
            if session.job_pipelined(job):
                return plan
        plan.statement.discard()
        return None

    def _promise(self, statement: Statement, domain: HyperNode, sub_job: SubJob, tasks: deque[Task]) -> str | None:
        """Pipeline all of `tasks` in one hypernode of `domain`. Return the name of the hypernode, None if there is none."""
        session, job = self.session, self.job
        candidates = [domain]
        if sub_job_limit(job, sub_job, session.hyper_nodes) is not None:
            gradient = session.hyper_node_gradient(job, sub_job, domain, Purpose.EVICT)
            candidates = [each for tier in gradient for each in tier]
        for hyper_node in candidates:
            trial = session.statement()
            if self._promise_all(trial, hyper_node, list(tasks)) and (
                session.sub_job_ready(job, sub_job) or session.sub_job_pipelined(job, sub_job)
            ):
                statement.merge(trial)
                return hyper_node.name
            trial.discard()
        return None

    def _promise_part(self, domain: HyperNode, sub_job: SubJob) -> Statement | None:
        """Pipeline as many pods of a part as its minimum needs; None if they do not fit or the queue may not reclaim for them."""
        session, tasks = self.session, list(self.pending.get(sub_job.uid, ()))[: missing(sub_job)]
        queue = session.queues[self.job.facts.queue]
        if self.kind.is_reclaim and not session.preemptive(queue, request_of(session, tasks)):
            return None
        trial = session.statement()
        if self._promise_all(trial, domain, tasks) and sub_job.is_pipelined:
            return trial
        trial.discard()
        return None

    def _promise_all(self, trial: Statement, hyper_node: HyperNode, tasks: list[Task]) -> bool:
        session, job = self.session, self.job
        queue = session.queues[job.facts.queue]
        while tasks:
            run = list(next(groupby(tasks, key=lambda task: id(task.facts.shape)))[1])
            plan = session.plan(run[0].facts.shape)
            count = session.allocatable(queue, plan, alike(session, run), run[0])
            if not count or session.pre_predicate(run[0], plan) is not None:
                return False
            batch = find(session, job, run[0], plan, count, within=hyper_node.nodes, only_pipelined=True)
            if batch is None or not trial.pipeline(job, plan, run[: len(batch.rows)], batch.rows, evicted_others=True):
                return False
            tasks = tasks[len(batch.rows) :]
        return True


def _candidates(bundles: Sequence[Bundle]) -> list[Candidate]:
    return [(each.job, task) for each in bundles for task in each.tasks]

"""A session: one pass of decisions over a snapshot, with the plugins of one configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from pyroclast.api import records
from pyroclast_scheduler.cache.snapshot import Snapshot
from pyroclast_scheduler.framework.arguments import Arguments
from pyroclast_scheduler.framework.configuration import Configuration
from pyroclast_scheduler.framework.jobs import Job, Task
from pyroclast_scheduler.framework.outcome import Binds, Commit, Eviction, Note
from pyroclast_scheduler.framework.plans import Plan
from pyroclast_scheduler.framework.plugin import PluginFactory, Vote
from pyroclast_scheduler.framework.points import Point
from pyroclast_scheduler.framework.statement import Move, Statement, undo
from pyroclast_scheduler.model.columns import Bools, Columns
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.jobs import QueueFacts
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.placement.company import Company
from pyroclast_scheduler.placement.greedy import Rows

__all__ = ["Ports", "Session", "Shard"]


@dataclass(frozen=True, slots=True)
class Shard:
    """The nodes that are this scheduler's own: `hard` never uses others, `soft` only where its own have no room."""

    nodes: frozenset[str]
    is_hard: bool


@dataclass(frozen=True, slots=True)
class Ports:
    """What a session is given from outside. `now`: seconds since the epoch; `commit` takes decisions as soon as they are final.

    `timed(plugin, point)` is a context that measures the opening and closing of a plugin.
    """

    now: float = 0.0
    commit: Callable[[Commit], None] = lambda _: None
    observe: Callable[[str, str, Callable[[], Any]], Any] = lambda _plugin, _point, run: run()
    shard: Shard | None = None


@dataclass(slots=True, eq=False)
class Queue:
    """A queue in a session."""

    facts: QueueFacts

    @property
    def name(self) -> str:
        """Its name."""
        return self.facts.name


class Session:
    """The working copy of a cluster. Everything an action does is applied here at once; `commit` alone lets it out."""

    def __init__(
        self,
        snapshot: Snapshot,
        configuration: Configuration,
        plugins: Mapping[str, PluginFactory],
        ports: Ports,
        *,
        uid: str = "",
    ) -> None:
        self.uid = uid
        self.ports = ports
        self.configuration = configuration
        self.snapshot = snapshot
        self.dimensions = snapshot.dimensions
        self.names = snapshot.names
        self.columns: Columns = snapshot.columns
        self.columns.has_shifts = bool(self.columns.releasing.any() or self.columns.pipelined.any())
        self.total: Ints = snapshot.total
        self.notes: list[Note] = []
        self.warnings: list[str] = []
        self.log: list[Rows] = []
        self.usable: Bools = snapshot.is_ready.copy()
        self.preferred: Bools | None = None
        if ports.shard is not None:
            own = np.fromiter((name in ports.shard.nodes for name in snapshot.names), dtype=np.bool_, count=len(snapshot.names))
            self.preferred = None if ports.shard.is_hard else own
            if ports.shard.is_hard:
                self.usable &= own
        self.features = snapshot.features
        self.features.update(snapshot.nodes, snapshot.stamps)
        rows = dict(snapshot.rows)
        self.queues = {name: Queue(facts) for name, facts in snapshot.queues.items()}
        self.jobs = {facts.key: Job(facts, self.dimensions, rows) for facts in sorted(snapshot.jobs, key=lambda facts: facts.key)}
        self._plans: dict[int, Plan] = {}
        self._company: Company | None = None
        self._hooks: dict[Point, list[list[Any]]] = {}
        self._all_hooks: dict[Point, tuple[Any, ...]] = {}
        self._closers: list[tuple[str, Callable[[], None]]] = []
        self._open(plugins)

    def _open(self, plugins: Mapping[str, PluginFactory]) -> None:
        offered: dict[str, Mapping[Point, Any]] = {}
        for tier in self.configuration.tiers:
            for entry in tier:
                factory = plugins.get(entry.name)
                if factory is None:
                    continue
                arguments = Arguments(entry.arguments)
                plugin = factory(arguments)
                offered[entry.name] = self.ports.observe(entry.name, "OnSessionOpen", partial(plugin.open, self))
                unknown = [f"argument {key} is unknown" for key in arguments.unknown()]
                self.warnings += [f"plugin {entry.name}: {text}" for text in (*arguments.warnings, *unknown)]
        for point in Point:
            tiers = [
                [offered[entry.name][point] for entry in tier if entry.has(point.flag) and point in offered.get(entry.name, {})]
                for tier in self.configuration.tiers
            ]
            self._hooks[point] = [tier for tier in tiers if tier]
        self._all_hooks = {point: tuple(chain.from_iterable(tiers)) for point, tiers in self._hooks.items()}
        self._closers = [(name, hooks[Point.CLOSE]) for name, hooks in offered.items() if Point.CLOSE in hooks]

    # -- looking -----------------------------------------------------------------------------------------------------

    def hooks(self, point: Point) -> Sequence[Any]:
        """What is registered at `point`, in order of the configuration."""
        return self._all_hooks[point]

    def has(self, point: Point) -> bool:
        """Whether anything is registered at `point`."""
        return bool(self._all_hooks[point])

    def plan(self, shape: Shape) -> Plan:
        """What the session has worked out about `shape`."""
        plan = self._plans.get(id(shape))
        if plan is None:
            plan = self._plans[id(shape)] = Plan(shape, self.dimensions, self.columns, self.usable)
            plan.use(list(self.hooks(Point.FILTER)), list(self.hooks(Point.NODE_ORDER)))
        return plan

    def arguments_of(self, action: str) -> Arguments:
        """The arguments that the configuration gives to `action`."""
        return Arguments(self.configuration.action_arguments.get(action, {}))

    @property
    def company(self) -> Company:
        """Who is where; for pods that care about each other."""
        if self._company is None:
            rows = self.snapshot.rows
            self._company = Company(((task, rows[task.node]) for task in self.snapshot.placed.values()), len(self.names))
        return self._company

    # -- order: smaller keys go first; the first plugin whose keys differ decides ---------------------------------------

    def job_key(self, job: Job) -> tuple[Any, ...]:
        """The place of `job` among the jobs of its queue."""
        return (*self.job_order(job), job.facts.created, job.facts.uid)

    def job_order(self, job: Job) -> tuple[Any, ...]:
        """What the plugins say of the place of `job`, without age and UID, which only break ties."""
        return tuple(key(job) for key in self.hooks(Point.JOB_ORDER))

    def queue_key(self, queue: Queue) -> tuple[Any, ...]:
        """The place of `queue` among the queues."""
        return (*(key(queue) for key in self.hooks(Point.QUEUE_ORDER)), queue.facts.created, queue.facts.uid)

    def task_key(self, task: Task) -> tuple[Any, ...]:
        """The place of `task` among the tasks of its job."""
        facts = task.facts
        return (*(key(task) for key in self.hooks(Point.TASK_ORDER)), facts.index, facts.created, facts.uid)

    # -- questions -----------------------------------------------------------------------------------------------------

    def job_ready(self, job: Job) -> bool:
        """Whether the placements of `job` may be kept."""
        return all(ask(job) for ask in self.hooks(Point.JOB_READY))

    def job_pipelined(self, job: Job) -> bool:
        """Whether `job` would be ready if what was promised to it were there."""
        return self._vote(Point.JOB_PIPELINED, job)

    def job_enqueueable(self, job: Job) -> bool:
        """Whether `job` may enter."""
        return self._vote(Point.JOB_ENQUEUEABLE, job)

    def job_enqueued(self, job: Job) -> None:
        """Tell the plugins that `job` entered."""
        for tell in self.hooks(Point.JOB_ENQUEUED):
            tell(job)

    def job_invalid(self, job: Job) -> tuple[str, str] | None:
        """Reason and message why `job` cannot be worked on, None if it can."""
        return next((found for ask in self.hooks(Point.JOB_VALID) if (found := ask(job)) is not None), None)

    def job_starving(self, job: Job) -> bool:
        """Whether `job` may take places from others; the first tier that has an opinion decides."""
        tiers = self._hooks[Point.JOB_STARVING]
        return bool(tiers) and all(ask(job) for ask in tiers[0])

    def overused(self, queue: Queue, extra: Ints | None = None) -> bool:
        """Whether `queue` has more than its share, if it took `extra` too."""
        added = np.zeros(len(self.dimensions), dtype=np.int64) if extra is None else extra
        return any(ask(queue, added) for ask in self.hooks(Point.OVERUSED))

    def allocatable(self, queue: Queue, plan: Plan, count: int) -> int:
        """How many of `count` pods like that `queue` may still take."""
        for ask in self.hooks(Point.ALLOCATABLE):
            count = min(count, ask(queue, plan, count))
        return max(count, 0)

    def preemptive(self, queue: Queue, amount: Ints) -> bool:
        """Whether `queue` may take places from others for `amount` more."""
        return all(ask(queue, amount) for ask in self.hooks(Point.PREEMPTIVE))

    def preemptable(self, preemptor: Task, job: Job, candidates: Sequence[tuple[Job, Task]]) -> list[tuple[Job, Task]]:
        """Those of `candidates` that may go for `preemptor`, a task of `job` in the same queue."""
        return self._victims(Point.PREEMPTABLE, preemptor, job, candidates)

    def reclaimable(self, preemptor: Task, job: Job, candidates: Sequence[tuple[Job, Task]]) -> list[tuple[Job, Task]]:
        """Those of `candidates` that may go for `preemptor`, a task of `job` in another queue."""
        return self._victims(Point.RECLAIMABLE, preemptor, job, candidates)

    def _victims(self, point: Point, preemptor: Task, job: Job, candidates: Sequence[tuple[Job, Task]]) -> list[tuple[Job, Task]]:
        """The candidates that all plugins of the first tier with an answer agree on."""
        for tier in self._hooks[point]:
            chosen: list[tuple[Job, Task]] | None = None
            for ask in tier:
                found = ask(preemptor, job, candidates)
                if found is None:
                    continue
                uids = {task.uid for _, task in found}
                chosen = [pair for pair in (candidates if chosen is None else chosen) if pair[1].uid in uids]
                if not chosen:
                    break
            if chosen:
                return chosen
        return []

    def pre_predicate(self, task: Task, plan: Plan) -> str | None:
        """Why `task` fits no node at all, None if nodes have to be looked at."""
        return next((why for ask in self.hooks(Point.PRE_PREDICATE) if (why := ask(task, plan)) is not None), None)

    def _vote(self, point: Point, job: Job) -> bool:
        for tier in self._hooks[point]:
            is_permitted = False
            for ask in tier:
                vote = ask(job)
                if vote < Vote.ABSTAIN:
                    return False
                is_permitted |= vote > Vote.ABSTAIN
            if is_permitted:
                return True
        return True

    # -- doing ---------------------------------------------------------------------------------------------------------

    def statement(self) -> Statement:
        """A new, empty statement."""
        return Statement(self)

    def moved(self, move: Move, sign: int) -> None:
        """Keep what depends on placements current: `move` was made (1) or undone (−1)."""
        self.log.append(move.nodes)
        if move.status is TaskStatus.ALLOCATED:
            move.job.allocated = move.job.allocated + sign * move.amount
        elif move.status is TaskStatus.RELEASING:
            move.job.allocated = move.job.allocated - sign * move.amount
        if self._company is not None:
            leaves = move.status is TaskStatus.RELEASING
            self._company.moved([task.facts for task in move.tasks], move.rows.tolist(), -sign if leaves else sign)
        for tell in self.hooks(Point.EVENTS):
            tell(move, sign)

    def commit(self, moves: Sequence[Move]) -> None:
        """Let placements and evictions out."""
        evictions: list[Eviction] = []
        binds: dict[str, list[tuple[str, str]]] = {}
        for move in moves:
            if move.status is TaskStatus.RELEASING:
                evictions += [Eviction(task.facts, move.job.facts.key, move.reason) for task in move.tasks]
            elif move.status is TaskStatus.ALLOCATED:
                rows = move.rows.tolist()
                placed = [(task.facts.uid, self.names[row]) for task, row in zip(move.tasks, rows, strict=True)]
                binds.setdefault(move.job.facts.key, []).extend(placed)
                move.job.move(move.tasks, TaskStatus.BINDING, rows)
        if evictions or binds:
            self.ports.commit(Commit(tuple(Binds(job, tuple(placed)) for job, placed in binds.items()), tuple(evictions)))

    def dispatch(self, job: Job) -> None:
        """Let out every placement of `job`, whichever statement made it."""
        tasks = [task for task in job.tasks if task.status is TaskStatus.ALLOCATED]
        placed = [(task.uid, self.names[task.row]) for task in tasks]
        job.move(tasks, TaskStatus.BINDING, [task.row for task in tasks])
        if placed:
            self.ports.commit(Commit((Binds(job.facts.key, tuple(placed)),)))

    def take_back(self, job: Job, task: Task) -> None:
        """Undo the promise made to one task, whichever statement made it."""
        rows = np.array([task.row], dtype=np.intp)
        move = Move(
            job, self.plan(task.facts.shape), [task], rows, task.status, [TaskStatus.PENDING], rows, np.ones(1, dtype=np.int64)
        )
        undo(self, move)

    def note(self, job: Job, kind: str, reason: str, message: str) -> None:
        """Tell the users of `job` something, as an event on its PodGroup."""
        self.notes.append(Note(job.facts.key, kind, reason, message))

    def close_plugins(self) -> None:
        """Let the plugins finish."""
        for name, close in self._closers:
            self.ports.observe(name, "OnSessionClose", close)

    def node_record(self, row: int) -> records.Node | None:
        """The node of `row`."""
        return self.snapshot.nodes[row]

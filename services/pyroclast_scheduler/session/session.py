"""A session: one pass of decisions over a snapshot, with the plugins of one configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Final, Protocol, TypeAlias, TypeVar

import numpy as np

from pyroclast.api import records
from pyroclast.api.records.meta import Record
from pyroclast.api.types import HYPER_NODES, ResourceType
from pyroclast_scheduler.model.causes import Cause, Withheld
from pyroclast_scheduler.model.faults import Fault
from pyroclast_scheduler.model.hypernodes import HyperNodes
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.kinds import NAMES
from pyroclast_scheduler.model.node_columns import Bools, Columns, Floats, Rows
from pyroclast_scheduler.model.queues import queues_of
from pyroclast_scheduler.model.reasons import Refusal
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.model.resource_sums import QueueSums
from pyroclast_scheduler.model.retry_conditions import Evicts
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import Task, TaskFacts
from pyroclast_scheduler.model.terms import Term, TermCounts
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session import label_refusals
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.budgets import Budgets
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.extension_points import Extensions
from pyroclast_scheduler.session.measures import Measures
from pyroclast_scheduler.session.outcome import Binds, Commit, Eviction, Note, Preparation
from pyroclast_scheduler.session.ports import Extender, NodeUsage, Ports
from pyroclast_scheduler.session.rules import Rules
from pyroclast_scheduler.session.statement import Move, Statement, undo

__all__ = ["Action", "Plugin", "PluginFactory", "Session"]

T = TypeVar("T", bound=Record)
_FILLING: Final = frozenset({"enqueue", "elect", "allocate", "backfill", "reserve"})  # reserve evicts for its target alone
_OWN: Final = frozenset({"preempt", "gangpreempt"})  # at the cost of the own queue
_OTHERS: Final = frozenset({"reclaim", "gangreclaim"})


class Plugin(Protocol):
    """One listing of a plugin in one session."""

    def open(self, session: Session) -> Extensions:
        """Look at the session and say what to register."""


PluginFactory: TypeAlias = Callable[[Arguments], Plugin]


class Action(Protocol):
    """One step of a session."""

    def __call__(self, session: Session, arguments: Arguments) -> None:
        """Decide, and apply to the session what was decided."""
        ...


class Session(Rules):
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
        self.uid, self.ports = uid, ports
        self.configuration = configuration
        self.snapshot = snapshot
        self.dimensions = snapshot.dimensions
        self.names = snapshot.names
        self.columns: Columns = snapshot.columns
        self.columns.has_shifts = bool(self.columns.releasing.any() or self.columns.pipelined.any())
        self.total: Floats = snapshot.total
        self.notes: list[Note] = []
        self.warnings: list[str] = []
        self.faults: set[Fault] = set()
        self.measures = Measures(snapshot.dimensions.names)
        self.log: list[Rows] = []
        self.reservations: Mapping[str, Reservation] | None = None
        self.reserved: frozenset[str] = frozenset()  # the jobs that nodes were kept for when the session began
        self.let_in: list[TaskFacts] = []
        self.usable: Bools = snapshot.is_ready.copy()
        self.preferred: Bools | None = None
        self.foreign: Bools | None = None
        if ports.shard is not None:
            own = np.fromiter((name in ports.shard.nodes for name in snapshot.names), dtype=np.bool_, count=len(snapshot.names))
            self.preferred = None if ports.shard.is_hard else own
            if ports.shard.is_hard:
                self.foreign = self.usable & ~own
                self.usable &= own
        self.features = snapshot.features
        self.features.update(snapshot.nodes, snapshot.stamps)
        self._rows = dict(snapshot.rows)
        self.queues = queues_of(snapshot.queues, ports.elsewhere)
        awake = sorted(snapshot.jobs, key=lambda facts: facts.key)
        self.jobs = {facts.key: Job(facts, self.dimensions, self._rows) for facts in awake}
        self.others: dict[str, Job] = {}
        self.waiting_orders: dict[str, object] = {}  # see there; worked out when it is asked for
        self.domain_of: dict[str, Mapping[str, int]] = {}  # by job and part, the code of the label's value where room is made
        self.queue_changes: dict[str, Floats] = {}
        hyper_nodes = snapshot.objects.of(records.HyperNode)
        book = snapshot.features.hyper_nodes
        self.hyper_nodes = book.of(hyper_nodes, snapshot.nodes, snapshot.stamps) if hyper_nodes else HyperNodes(len(self.names))
        for hyper_node, reason in book.faults if hyper_nodes else ():
            self.fault(HYPER_NODES, hyper_node, reason)
        self._plans: dict[int, PlacementPlan] = {}
        self._term_counts: TermCounts | None = None
        self._uncounted: list[tuple[Move, int]] = []  # what happened before anybody asked who is where
        self._draw_first()
        self.is_timed = self.is_restless = False  # whether anybody asked for the time; for what is outside
        self._closers: list[tuple[str, Callable[[], None]]] = []
        super().__init__(self._opened(plugins))
        self._moved = self.all_of(lambda each: each.moved)
        self._objections = self.all_of(lambda each: each.objection)
        self._pre_bind = self.all_of(lambda each: each.pre_bind)

    def _opened(self, plugins: Mapping[str, PluginFactory]) -> list[list[Extensions]]:
        """What each plugin registers, by tier. Of a plugin listed twice the last one takes part in both places."""
        offered: dict[str, Extensions] = {}
        for tier in self.configuration.tiers:
            for entry in tier:
                factory = plugins.get(entry.name)
                if factory is None:
                    continue
                arguments = Arguments(entry.arguments, entry.enabled)
                plugin = factory(arguments)
                offered[entry.name] = self.ports.observe(entry.name, "OnSessionOpen", partial(plugin.open, self))
                unknown = [f"argument {key} is unknown" for key in arguments.unknown()]
                self.warnings += [f"plugin {entry.name}: {text}" for text in (*arguments.warnings, *unknown)]
        self._closers = [(name, each.close) for name, each in offered.items() if each.close is not None]
        self._are_labels_read = any(_reads_labels(plugins[name]) for name in offered)
        named = [
            [(entry.name, offered[entry.name].only(entry.enabled)) for entry in tier if entry.name in offered]
            for tier in self.configuration.tiers
        ]
        self.ranked_by = tuple(name for tier in named for name, each in tier if each.job_order is not None)
        return [[each for _, each in tier] for tier in named]

    def _draw_first(self) -> None:
        """Take up the first of each line; all of it where their names decide who keeps away from them."""
        self.drawn: list[str] = []
        self.unexplained: set[str] = set()
        self._lines: dict[str, Iterator[JobFacts]] = {}
        known = self.snapshot.all_jobs
        for each in self.snapshot.lines:
            job = self._draw(facts for facts in each if known.get(facts.key) is facts and facts.key not in self.jobs)
            while job is not None and self._are_names_minded(job):
                job = self.follower(job)

    @cached_property
    def _terms_on_names(self) -> list[Term]:
        """By what pods on nodes keep away from others by the names of these."""
        return self.term_counts.selecting_by(NAMES) if self.snapshot.is_coupled else []

    def _are_names_minded(self, job: Job) -> bool:
        """Whether a pod may keep away from `job`, or from others of its kind, by their names: then not all get the same."""
        return any(term.may_take_in(task, but=NAMES) for term in self._terms_on_names for task in job.facts.tasks)

    def kind_at_rest(self, job: Job) -> bytes | None:
        """What `job` has in common with others that wait for the same; None if it is alone."""
        if self.is_restless:
            return None
        return job.facts.strict_kind if self._are_labels_read else job.facts.kind

    def _draw(self, line: Iterator[JobFacts]) -> Job | None:
        facts = next(line, None)
        if facts is None:
            return None
        job = self.others.pop(facts.key, None) or Job(facts, self.dimensions, self._rows)
        self.jobs[facts.key] = job
        self.drawn.append(facts.key)
        behind = next(line, None)
        if behind is not None:
            self._lines[facts.key] = chain([behind], line)
        return job

    @cached_property
    def budgets(self) -> Budgets | None:
        """The budgets of queues; None where no queue has one."""
        return Budgets(self) if any(queue.facts.budget is not None for queue in self.queues.values()) else None

    @cached_property
    def withheld(self) -> dict[str, Withheld]:
        """By job, the pods that have not run for long enough to be evicted for it."""
        return {}

    # -- looking -----------------------------------------------------------------------------------------------------

    def plan(self, shape: Shape) -> PlacementPlan:
        """What the session has worked out about `shape`."""
        plan = self._plans.get(id(shape))
        if plan is None:
            plan = self._plans[id(shape)] = PlacementPlan(shape, self.dimensions, self.columns, self.usable)
            use = partial(plan.use, self.all_of(lambda each: each.predicate), self.all_of(lambda each: each.node_order))
            self.ports.observe("Predicate", "stage", use)
        return plan

    def arguments_of(self, action: str) -> Arguments:
        """The arguments that the configuration gives to `action`."""
        return Arguments(self.configuration.action_arguments.get(action, {}))

    def all_jobs(self) -> Mapping[str, Job]:
        """Every job by key, those included of which nothing waits and nothing changed: `jobs` may leave these out."""
        for key in self.snapshot.all_jobs:
            self.job(key)
        return self.jobs | self.others

    def now(self) -> float:
        """Seconds since the epoch. As answers may change with it, jobs that wait are looked at again in each schedule period."""
        self.is_timed = True
        return self.ports.now

    def usage(self) -> Mapping[str, NodeUsage]:
        """The last measurements by node. They change with time."""
        self.is_timed = True
        return self.ports.usage.usage()

    def extender(self) -> Extender:
        """Services outside, which may say otherwise at any time, and of each job: each that waits is asked at any change."""
        self.is_restless = True
        return self.ports.extender

    @property
    def evicts(self) -> Evicts | None:
        """Whose pods the actions may make go for a job that waits; None where an action looks at anything else too."""
        actions = set(self.configuration.actions) - _FILLING
        if not actions <= _OWN | _OTHERS:
            return None
        return Evicts.ANYBODY if actions & _OTHERS else Evicts.OWN_QUEUE if actions else Evicts.NOBODY

    def is_waiting(self, task: Task) -> bool:
        """Whether `task` may be placed: it waits, behind no gate, and its last bind was not refused a moment ago."""
        return task.status is TaskStatus.PENDING and not task.facts.gates and task.uid not in self.snapshot.held

    def job(self, key: str) -> Job | None:
        """The job of that key, also if it is none of `jobs`; None if there is none."""
        job = self.jobs.get(key) or self.others.get(key)
        if job is None and (facts := self.snapshot.all_jobs.get(key)) is not None:
            job = self.others[key] = Job(facts, self.dimensions, self._rows)
        return job

    def kind(self, job: Job) -> bytes | None:
        """The kind of `job` while it has what it began with: what it cannot get now, no other one can. None if it is alone.

        It is while a pod of it is held: that says nothing of others.
        """
        held = self.snapshot.held
        if job.is_changed or self.has_reservation(job) or self._are_names_minded(job):
            return None
        return None if held and any(task.uid in held for task in job.facts.tasks) else self.kind_at_rest(job)

    def has_reservation(self, job: Job) -> bool:
        """Whether nodes are kept for `job`, or were when the session began."""
        return job.facts.key in self.reserved or job.facts.key in (self.reservations or ())

    def may_enter(self, job: Job) -> bool:
        """Whether `job` may enter: plugins are asked about what says what it needs, budgets about all."""
        is_let_in = job.facts.min_resources is None or self.job_enqueueable(job)
        return is_let_in if self.budgets is None else self.budgets.may_enter(job, is_let_in=is_let_in)

    def is_low(self, job: Job) -> bool:
        """Whether `job` gives way to others whatever it says itself, since a budget of its queue is used up."""
        return self.budgets is not None and self.budgets.is_low(job.facts.queue)

    def is_preemptable(self, owner: Job, task: Task) -> bool:
        """Whether `task` of `owner` may be evicted for others."""
        return task.facts.is_preemptable or self.is_low(owner)

    def job_refusals(self, job: Job) -> list[Refusal]:
        """As the plugins say, and by the label that all of its nodes must share."""
        return [*super().job_refusals(job), *label_refusals.refusals_of(self, job)]

    def coupled_refusals(self, task: Task, plan: PlacementPlan) -> list[Refusal] | None:
        """As the plugins say, and by the labels that all nodes of a part of a gang must share."""
        found = super().coupled_refusals(task, plan)
        job = self.job(task.facts.job) if task.facts.part else None
        own = [] if job is None else label_refusals.part_refusals_of(self, job, task)
        return [*(found or ()), *own] if own else found

    def follower(self, job: Job) -> Job | None:
        """The next one at rest of the kind of `job`, which got something just now: it may too. None if there is none.

        It is told once.
        """
        line = self._lines.pop(job.facts.key, None)
        return None if line is None else self._draw(line)

    def has_follower(self, job: Job) -> bool:
        """Whether one at rest of the kind of `job` waits for what this one leaves."""
        return job.facts.key in self._lines

    def objects(self, record: type[T]) -> Mapping[str, T]:
        """All objects of a kind that a plugin watches, by namespace/name. Not to be changed."""
        return self.snapshot.objects.of(record)

    def objects_in(self, record: type[T], namespace: str) -> list[T]:
        """The objects of a kind that a plugin watches in a namespace. Not to be changed."""
        return self.snapshot.objects.in_namespace(record, namespace)

    @property
    def queue_sums(self) -> Mapping[str, QueueSums]:
        """What the jobs of each queue had and wanted when the session began; queues without jobs are missing."""
        return self.snapshot.queue_sums

    @property
    def term_counts(self) -> TermCounts:
        """Who is where; for pods that care about each other."""
        if self._term_counts is None:
            spaces = self.objects(records.Namespace).values()
            self.features.terms.use({space.metadata.name: space.metadata.labels for space in spaces})
            self._term_counts = TermCounts(self.features.terms, self.snapshot.residents)
            for move, sign in self._uncounted:
                _count_terms(self._term_counts, move, sign)
            self._uncounted.clear()
        return self._term_counts

    # -- doing ---------------------------------------------------------------------------------------------------------

    def statement(self) -> Statement:
        """A new, empty statement."""
        return Statement(self)

    def moved(self, move: Move, sign: int) -> None:
        """Keep what depends on placements current: `move` was made (1) or undone (−1)."""
        self.log.append(move.nodes)
        if move.status is TaskStatus.ALLOCATED and sign > 0:
            move.plan.ahead.placed(move.rows, len(self.log))
        if move.status is not TaskStatus.PIPELINED:
            change, queue = sign * move.change, move.job.facts.queue
            move.job.allocated = move.job.allocated + change
            self.queue_changes[queue] = self.queue_changes.get(queue, 0.0) + change
        if self._term_counts is None:
            self._uncounted.append((move, sign))
        else:
            _count_terms(self._term_counts, move, sign)
        for notify in self._moved:
            notify(move, sign)

    @property
    def has_objections(self) -> bool:
        """Whether any plugin may have a place taken back that was given."""
        return bool(self._objections)

    def objection(self, move: Move) -> str | None:
        """Why the places that `move` gave are to be taken back, None if they are not."""
        return next((why for ask in self._objections if (why := ask(move)) is not None), None)

    def commit(self, moves: Sequence[Move]) -> None:
        """Let placements and evictions out."""
        evictions: list[Eviction] = []
        binds: dict[str, list[tuple[Task, int]]] = {}
        for move in moves:
            if move.status is TaskStatus.RELEASING:
                evictions += [Eviction(task.facts, move.job.facts.key, move.reason) for task in move.tasks]
            elif move.status is TaskStatus.ALLOCATED:
                rows = move.rows.tolist()
                binds.setdefault(move.job.facts.key, []).extend(zip(move.tasks, rows, strict=True))
                move.job.move(move.tasks, TaskStatus.BINDING, rows)
        if evictions or binds:
            self.ports.commit(Commit(tuple(self._binds(job, placed) for job, placed in binds.items()), tuple(evictions)))

    def dispatch(self, job: Job) -> None:
        """Let out every placement of `job`, whichever statement made it."""
        tasks = [task for task in job.tasks if task.status is TaskStatus.ALLOCATED]
        job.move(tasks, TaskStatus.BINDING, [task.row for task in tasks])
        if tasks:
            self.ports.commit(Commit((self._binds(job.facts.key, [(task, task.row) for task in tasks]),)))

    def _binds(self, job: str, placed: Sequence[tuple[Task, int]]) -> Binds:
        preparations: dict[str, tuple[Preparation, ...]] = {}
        for prepare in self._pre_bind:
            for task, row in placed:
                found = prepare(task, row)
                if found is not None:
                    preparations[task.uid] = (*preparations.get(task.uid, ()), found)
        return Binds(job, tuple((task.uid, self.names[row]) for task, row in placed), preparations)

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

    def fault(self, kind: ResourceType, record: Record, reason: str) -> None:
        """Say what of an object makes no sense and is passed over: once as an event on it, and as a number by kind.

        It stands as long as every session says so.
        """
        self.faults.add(Fault.of(kind, record, reason))

    def refuse(self, job: Job, cause: Cause) -> None:
        """Say why `job` is not let in; what is said first stands."""
        if job.cause is None:
            job.cause = cause

    def close_plugins(self) -> None:
        """Let the plugins finish."""
        for name, close in self._closers:
            self.ports.observe(name, "OnSessionClose", close)
        if self.budgets is not None:
            self.measures.budgets = self.budgets.standings

    def end(self) -> None:
        """Let go of everything: as plugins and session refer to each other, it would stay until the garbage collector looks.

        Job by job, so that other threads run meanwhile.
        """
        for jobs in (self.jobs, self.others):
            while jobs:
                jobs.popitem()
        self.__dict__.clear()


def _reads_labels(plugin: PluginFactory) -> bool:
    """Whether a plugin may tell pods apart by their labels: those of others do unless they say that they do not."""
    is_ours = getattr(plugin, "__module__", "").startswith(f"{__name__.partition('.')[0]}.")
    return bool(getattr(plugin, "reads_labels", not is_ours))


def _count_terms(counts: TermCounts, move: Move, sign: int) -> None:
    leaves = move.status is TaskStatus.RELEASING
    counts.moved([task.facts for task in move.tasks], move.rows.tolist(), -sign if leaves else sign)

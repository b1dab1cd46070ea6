"""A session: one pass of decisions over a snapshot, with the plugins of one configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import numpy as np

from pyroclast.api import records
from pyroclast.api.records.meta import Record
from pyroclast.api.types import HYPER_NODES, ResourceType
from pyroclast_scheduler.model.causes import Cause
from pyroclast_scheduler.model.equivalence_classes import IDENTITY_LABELS
from pyroclast_scheduler.model.faults import Fault
from pyroclast_scheduler.model.fit_errors import Refusal
from pyroclast_scheduler.model.hypernodes import HyperNodes
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Columns, Floats
from pyroclast_scheduler.model.queues import Queue, queues_of
from pyroclast_scheduler.model.resource_sums import QueueSums
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.model.tasks import Task, TaskFacts, TaskStatus
from pyroclast_scheduler.model.term_counts import Term, TermCounts
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.budgets import EARLIER, Budgets
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.extension_points import Extensions
from pyroclast_scheduler.session.node_limits import LabelRefusals, OpenNodes, Reserved
from pyroclast_scheduler.session.outcome import Binds, Commit, Eviction, Measures, Note, Report
from pyroclast_scheduler.session.person_limits import PersonBook
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.ports import AskedFor, Extender, NodeUsage, Ports
from pyroclast_scheduler.session.promises import Promises
from pyroclast_scheduler.session.rules import OpenedPlugins, Rules, open_plugins
from pyroclast_scheduler.session.selection import EquivalentJobs
from pyroclast_scheduler.session.statement import Move, Moves, Statement, undo

R = TypeVar("R", bound=Record)
T = TypeVar("T")
FILLING: Final = frozenset({"enqueue", "elect", "allocate", "backfill", "reserve"})
"""The actions that evict nothing for a waiting job; `reserve` only evicts for its target."""

_NO_PLUGINS: Final = OpenedPlugins([], [], (), are_labels_read=False)


class Plugin(Protocol):
    """One instance of a plugin in one session."""

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of the plugin for `session`, computed from the data of the session."""


PluginFactory: TypeAlias = Callable[[Arguments], Plugin]


class Action(Protocol):
    """One step of a session, such as allocate or preempt."""

    def __call__(self, session: Session, arguments: Arguments) -> None:
        """Make decisions and apply them to the session."""
        ...


class Session(Rules):
    """A working copy of the cluster. Actions change only this copy, and `commit` sends decisions to the cluster."""

    def __init__(
        self,
        snapshot: Snapshot,
        configuration: Configuration,
        plugins: Mapping[str, PluginFactory],
        ports: Ports,
        *,
        uid: str = "",
    ) -> None:
        self.uid, self.ports, self.configuration, self.snapshot = uid, ports, configuration, snapshot
        self.dimensions, self.names = snapshot.dimensions, snapshot.names
        self.columns: Columns = snapshot.columns
        self.columns.has_shifts = bool(self.columns.releasing.any() or self.columns.pipelined.any())
        self.total: Floats = snapshot.total
        self.features = snapshot.features
        self.features.update(snapshot.nodes, snapshot.stamps)
        self.nodes = OpenNodes(snapshot.is_ready, snapshot.names, ports.shard)
        self.report = Report(Measures(snapshot.dimensions.names))
        self.moves = Moves(snapshot)
        self.reserved = Reserved()
        self.asked_for = AskedFor()
        self.queues = queues_of(snapshot.queues, ports.elsewhere)
        self.label_refusals = LabelRefusals(self.features)
        self._make_job: Callable[[JobFacts], Job] = partial(Job, dimensions=self.dimensions, rows=dict(snapshot.rows))
        awake = sorted(snapshot.jobs, key=lambda facts: facts.key)
        self.jobs = {facts.key: self._make_job(facts) for facts in awake}
        self.others: dict[str, Job] = {}
        has_budgets = any(queue.facts.budget is not None for queue in self.queues.values())
        self.budgets = Budgets(snapshot, self.queues, self.jobs, ports) if has_budgets else None
        has_limits = any(queue.facts.person_limits is not None for queue in self.queues.values())
        self.persons = PersonBook(snapshot, self.queues, self.jobs) if has_limits else None
        self.hyper_nodes = self._hyper_nodes()
        self.promises = Promises(self)
        self._plans: dict[int, PlacementPlan] = {}
        self._kept: dict[Callable[[Session], Any], Any] = {}
        self.equivalents = EquivalentJobs(
            snapshot, self.jobs, self.others, make=self._make_job, is_distinct=self._do_names_matter
        )
        self.plugins = open_plugins(configuration.tiers, plugins, self._open, self.report.warnings)
        super().__init__(self.plugins.tiers)

    def _open(self, name: str, plugin: Plugin) -> Extensions:
        opened: Extensions = self.ports.observe(name, "OnSessionOpen", partial(plugin.open, self))
        return opened

    def _hyper_nodes(self) -> HyperNodes:
        objects, book = self.snapshot.objects.of(records.HyperNode), self.features.hyper_nodes
        if not objects:
            return HyperNodes(len(self.names))
        hyper_nodes = book.of(objects, self.snapshot.nodes, self.snapshot.stamps)
        for hyper_node, reason in book.faults:
            self.fault(HYPER_NODES, hyper_node, reason)
        return hyper_nodes

    @cached_property
    def _terms_on_names(self) -> list[Term]:
        """The required anti-affinity terms of pods on nodes that select by identity labels, which contain names."""
        return self.term_counts.selecting_by(IDENTITY_LABELS) if self.snapshot.is_coupled else []

    def _do_names_matter(self, job: Job) -> bool:
        """Whether an anti-affinity term may select pods of `job` but not of an equivalent job, because the term uses names."""
        return any(term.may_take_in(task, but=IDENTITY_LABELS) for term in self._terms_on_names for task in job.facts.tasks)

    def class_of(self, job: Job) -> bytes | None:
        """Return the equivalence class in which `job` waits; None if the job is the only one of its class."""
        if self.asked_for.services:
            return None
        return job.facts.strict_class if self.plugins.are_labels_read else job.facts.equivalence_class

    # -- queries -----------------------------------------------------------------------------------------------------

    def plan(self, shape: Shape) -> PlacementPlan:
        """Return the placement plan of `shape`: the feasible nodes and scores that this session has calculated."""
        plan = self._plans.get(id(shape))
        if plan is None:
            plan = self._plans[id(shape)] = PlacementPlan(shape, self.dimensions, self.columns, self.nodes.usable)
            use = partial(plan.use, self.all_of("predicate"), self.all_of("node_order"))
            self.ports.observe("Predicate", "stage", use)
        return plan

    def once(self, make: Callable[[Session], T]) -> T:
        """Return the value that `make` creates, once per session."""
        if make not in self._kept:
            self._kept[make] = make(self)
        value: T = self._kept[make]
        return value

    @property
    def may_evict(self) -> bool:
        """Whether an action of the configuration may evict pods for a waiting job."""
        return not FILLING.issuperset(self.configuration.actions)

    def arguments_of(self, action: str) -> Arguments:
        """Return the arguments of `action` in the configuration."""
        return Arguments(self.configuration.action_arguments.get(action, {}))

    def all_jobs(self) -> Mapping[str, Job]:
        """Return every job by key, also jobs that `jobs` may lack, since nothing in them waits or changed."""
        for key in self.snapshot.all_jobs:
            self.job(key)
        return self.jobs | self.others

    def now(self) -> float:
        """Return the present time in seconds since the epoch."""
        self.asked_for.time = True
        return self.ports.now

    def usage(self) -> Mapping[str, NodeUsage]:
        """Return the last measurements by node."""
        self.asked_for.time = True
        return self.ports.usage.usage()

    def extender(self) -> Extender:
        """Return the port to HTTP extenders."""
        self.asked_for.services = True
        return self.ports.extender

    def is_waiting(self, task: Task) -> bool:
        """Whether `task` is pending without scheduling gates, and its last bind was not refused a moment ago."""
        return task.status is TaskStatus.PENDING and not task.facts.gates and task.uid not in self.snapshot.held

    def waiting_in_order(self, tasks: Iterable[Task]) -> list[Task]:
        """Return those of `tasks` that may be placed, in their order."""
        return sorted(filter(self.is_waiting, tasks), key=self.task_key)

    def job(self, key: str) -> Job | None:
        """Return the job of that key, even if it is not in `jobs`; None if it does not exist."""
        job = self.jobs.get(key) or self.others.get(key)
        if job is None and (facts := self.snapshot.all_jobs.get(key)) is not None:
            job = self.others[key] = self._make_job(facts)
        return job

    def twin_of(self, job: Job, further: Sequence[TaskFacts]) -> Job:
        """Return a copy of `job` with further pending tasks, for placements that are never committed."""
        facts = job.facts
        tasks = (*facts.tasks, *further)
        twin = self._make_job(JobFacts.of(facts.group, tasks, priority=facts.priority, queue=facts.queue))
        twin.allocated = job.allocated
        return twin

    def kind(self, job: Job) -> bytes | None:
        """Return the equivalence class of `job`; None if the job is the only one of its class.

        If the session cannot place a job of the class now, it can place no other one. A job whose tasks or reservation have
        changed is alone, and so is a job with a held pod, as its refusal says nothing about other jobs.
        """
        held = self.snapshot.held
        is_alone = job.is_changed or self.has_reservation(job) or self._do_names_matter(job)
        return None if is_alone or (held and any(task.uid in held for task in job.facts.tasks)) else self.class_of(job)

    def has_reservation(self, job: Job) -> bool:
        """Whether nodes are reserved for `job`, or were at the start of the session."""
        return self.reserved.concerns(job.facts.key)

    def may_enter(self, job: Job) -> bool:
        """Whether plugins, budgets and limits let `job` in. Plugins are not asked about a job without minimum resources."""
        return self.is_within_limits(job, is_let_in=job.facts.min_resources is None or self.job_enqueueable(job))

    def is_within_limits(self, job: Job, *, is_let_in: bool = True) -> bool:
        """Whether budgets and the limits of each person let `job` in too. `is_let_in`: whether the plugins do."""
        refused = None if self.persons is None else self.persons.refusal(job)
        if refused is not None and (is_let_in or job.cause is None or job.cause.reason not in EARLIER):
            job.cause, is_let_in = refused, False
        if self.budgets is not None:
            is_let_in = self.budgets.may_enter(job, is_let_in=is_let_in)
        if is_let_in and self.persons is not None:
            self.persons.enter(job)
        return is_let_in

    def allocatable(self, queue: Queue, plan: PlacementPlan, count: int, task: Task | None = None) -> int:
        """Return how many of `count` pods with `plan` the queue, budgets and limits allow. `task`: the first pod, if known."""
        count = super().allocatable(queue, plan, count, task)
        for book in (self.persons, self.budgets):
            job = self.job(task.facts.job) if count and task is not None and book is not None else None
            count = count if job is None or book is None else book.allows(job, plan.shape.request, count)
        return count

    def withheld(self, job: Job) -> Cause | None:
        """Return why a limit of each person or a budget allowed no further pod of `job`; None if none kept one back."""
        found = (book.withheld.get(job.facts.key) for book in (self.persons, self.budgets) if book is not None)
        return next((cause for cause in found if cause is not None), None)

    def is_low(self, job: Job) -> bool:
        """Whether a used-up budget of its queue makes the pods of `job` preemptable, whatever the job declares."""
        return self.budgets is not None and self.budgets.is_low(job.facts.queue)

    def is_preemptable(self, owner: Job, task: Task) -> bool:
        """Whether `task` of `owner` may be evicted for other jobs."""
        return task.facts.is_preemptable or self.is_low(owner)

    def job_refusals(self, job: Job) -> list[Refusal]:
        """Return the refusals of the plugins, and those by the label value that all nodes of the job must share."""
        return [*super().job_refusals(job), *self.label_refusals.of_job(job)]

    def coupled_refusals(self, task: Task, plan: PlacementPlan) -> list[Refusal] | None:
        """Return the refusals of the plugins, and those by the label values that all nodes of a part of a gang must share."""
        refusals, job = super().coupled_refusals(task, plan), self.job(task.facts.job) if task.facts.part else None
        own = [] if job is None else self.label_refusals.of_part(job, task)
        return [*(refusals or ()), *own] if own else refusals

    def objects(self, record: type[R]) -> Mapping[str, R]:
        """Return all objects of a kind that a plugin watches, by namespace/name. The caller must not change the mapping."""
        return self.snapshot.objects.of(record)

    def told_objects(self, record: type[R]) -> Mapping[str, R]:
        """Return the same for plugins that name the objects on which a job depends."""
        return self.snapshot.objects.hinted(record)

    def objects_in(self, record: type[R], namespace: str) -> list[R]:
        """Return the objects of a kind that a plugin watches in a namespace. The caller must not change the list."""
        return self.snapshot.objects.in_namespace(record, namespace)

    @property
    def queue_sums(self) -> Mapping[str, QueueSums]:
        """The sums over the jobs of each queue at the start of the session. Queues without jobs are missing."""
        return self.snapshot.queue_sums

    @property
    def term_counts(self) -> TermCounts:
        """For each affinity and anti-affinity term, the number of matching pods in each topology domain."""
        return self.moves.term_counts

    # -- changes -------------------------------------------------------------------------------------------------------

    def statement(self) -> Statement:
        """Return a new, empty statement."""
        return Statement(self)

    def moved(self, move: Move, sign: int) -> None:
        """Update counts and notify plugins: `move` was made (1) or undone (−1)."""
        self.moves.add(move, sign)
        self.promises.moved(move, sign)
        for book in (self.persons, self.budgets):
            if book is not None:
                book.moved(move, sign)
        self.notify_moved(move, sign)

    def commit(self, moves: Sequence[Move]) -> None:
        """Send placements and evictions to the cluster."""
        evictions: list[Eviction] = []
        binds: dict[str, list[tuple[Task, int]]] = {}
        preemptors = tuple(dict.fromkeys(move.job.facts.key for move in moves if move.status is TaskStatus.PIPELINED))
        for move in moves:
            if move.status is TaskStatus.RELEASING:
                evictions += [Eviction(task.facts, move.job.facts.key, move.reason, preemptors) for task in move.tasks]
            elif move.status is TaskStatus.ALLOCATED:
                rows = move.rows.tolist()
                binds.setdefault(move.job.facts.key, []).extend(zip(move.tasks, rows, strict=True))
                move.job.move(move.tasks, TaskStatus.BINDING, rows)
        if evictions or binds:
            self.ports.commit(Commit(tuple(self._binds(job, placed) for job, placed in binds.items()), tuple(evictions)))

    def dispatch(self, job: Job) -> None:
        """Send every placement of `job` to the cluster, whichever statement made it."""
        tasks = [task for task in job.tasks if task.status is TaskStatus.ALLOCATED]
        job.move(tasks, TaskStatus.BINDING, [task.row for task in tasks])
        if tasks:
            self.ports.commit(Commit((self._binds(job.facts.key, [(task, task.row) for task in tasks]),)))

    def _binds(self, job: str, placed: Sequence[tuple[Task, int]]) -> Binds:
        return Binds(job, tuple((task.uid, self.names[row]) for task, row in placed), self.preparations(placed))

    def take_back(self, job: Job, task: Task) -> None:
        """Undo the pipelined placement of one task, whichever statement made it."""
        rows = np.array([task.row], dtype=np.intp)
        move = Move(
            job, self.plan(task.facts.shape), [task], rows, task.status, [TaskStatus.PENDING], rows, np.ones(1, dtype=np.int64)
        )
        undo(self, move)

    def note(self, job: Job, kind: str, reason: str, message: str) -> None:
        """Record an Event on the PodGroup of `job`. `kind`: Normal or Warning."""
        self.report.notes.append(Note(job.facts.key, kind, reason, message))

    def fault(self, kind: ResourceType, record: Record, reason: str) -> None:
        """Report an invalid object: once by an Event on the object, and in a metric by kind."""
        self.report.faults.add(Fault.of(kind, record, reason))

    def refuse(self, job: Job, cause: Cause) -> None:
        """Set the cause for which `job` is not enqueued, unless it has a cause already."""
        if job.cause is None:
            job.cause = cause

    def close_plugins(self) -> None:
        """Call the function `close` of each plugin."""
        for name, close in self.plugins.closers:
            self.ports.observe(name, "OnSessionClose", close)
        if self.budgets is not None:
            self.report.measures.budgets = self.budgets.standings

    def end(self) -> None:
        """Drop the references to and from the session: the garbage collector would stop all threads to free cycles."""
        for jobs in (self.jobs, self.others):  # the largest part, freed one by one so that other threads can run
            while jobs:
                _, job = jobs.popitem()
                job.cause = None  # a cause refers to the job and the session
        super().__init__(())  # plugins refer to the session
        self.plugins = _NO_PLUGINS
        self._plans.clear()  # plans refer to plugins
        self.moves.forget()  # moves refer to plans
        self.budgets = self.persons = None
        self.promises.end()
        self._kept.clear()  # values of `once` may refer to the session

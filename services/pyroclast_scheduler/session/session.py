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
from pyroclast_scheduler.model.hypernodes import HyperNodes
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Columns, Floats
from pyroclast_scheduler.model.queues import queues_of
from pyroclast_scheduler.model.reasons import Refusal
from pyroclast_scheduler.model.resource_sums import QueueSums
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.model.term_counts import TermCounts
from pyroclast_scheduler.model.terms import Term
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.budgets import Budgets
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.equivalent_jobs import EquivalentJobs
from pyroclast_scheduler.session.extension_points import Extensions
from pyroclast_scheduler.session.label_refusals import LabelRefusals
from pyroclast_scheduler.session.measures import Measures
from pyroclast_scheduler.session.moves import Moves
from pyroclast_scheduler.session.open_nodes import OpenNodes
from pyroclast_scheduler.session.opened_plugins import OpenedPlugins, open_plugins
from pyroclast_scheduler.session.outcome import Binds, Commit, Eviction, Note
from pyroclast_scheduler.session.ports import AskedFor, Extender, NodeUsage, Ports
from pyroclast_scheduler.session.report import Report
from pyroclast_scheduler.session.reserved import Reserved
from pyroclast_scheduler.session.rules import Rules
from pyroclast_scheduler.session.statement import Move, Statement, undo

__all__ = ["Action", "Plugin", "PluginFactory", "Session"]

R = TypeVar("R", bound=Record)
T = TypeVar("T")
_NO_PLUGINS: Final = OpenedPlugins([], [], (), are_labels_read=False)


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
        self.hyper_nodes = self._hyper_nodes()
        self._plans: dict[int, PlacementPlan] = {}
        self._kept: dict[Callable[[Session], Any], Any] = {}
        self.equivalents = EquivalentJobs(
            snapshot, self.jobs, self.others, make=self._make_job, is_distinct=self._are_names_minded
        )
        self.plugins = open_plugins(configuration.tiers, plugins, self._open, self.report.warnings)
        super().__init__(self.plugins.tiers)

    def _open(self, name: str, plugin: Plugin) -> Extensions:
        opened: Extensions = self.ports.observe(name, "OnSessionOpen", partial(plugin.open, self))
        return opened

    def _hyper_nodes(self) -> HyperNodes:
        found = self.snapshot.objects.of(records.HyperNode)
        if not found:
            return HyperNodes(len(self.names))
        book = self.features.hyper_nodes
        made = book.of(found, self.snapshot.nodes, self.snapshot.stamps)
        for hyper_node, reason in book.faults:
            self.fault(HYPER_NODES, hyper_node, reason)
        return made

    @cached_property
    def _terms_on_names(self) -> list[Term]:
        """By what pods on nodes keep away from others by the names of these."""
        return self.term_counts.selecting_by(IDENTITY_LABELS) if self.snapshot.is_coupled else []

    def _are_names_minded(self, job: Job) -> bool:
        """Whether a pod may keep away from `job`, or from others of its kind, by their names: then not all get the same."""
        return any(term.may_take_in(task, but=IDENTITY_LABELS) for term in self._terms_on_names for task in job.facts.tasks)

    def kind_at_rest(self, job: Job) -> bytes | None:
        """What `job` has in common with others that wait for the same; None if it is alone."""
        if self.asked_for.services:
            return None
        return job.facts.strict_kind if self.plugins.are_labels_read else job.facts.kind

    # -- looking -----------------------------------------------------------------------------------------------------

    def plan(self, shape: Shape) -> PlacementPlan:
        """What the session has worked out about `shape`."""
        plan = self._plans.get(id(shape))
        if plan is None:
            plan = self._plans[id(shape)] = PlacementPlan(shape, self.dimensions, self.columns, self.nodes.usable)
            use = partial(plan.use, self.all_of(lambda each: each.predicate), self.all_of(lambda each: each.node_order))
            self.ports.observe("Predicate", "stage", use)
        return plan

    def once(self, make: Callable[[Session], T]) -> T:
        """What `make` makes of the session, made when it is first asked for: what a module keeps during one session."""
        found: T | None = self._kept.get(make)
        if found is None:
            found = self._kept[make] = make(self)
        return found

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
        self.asked_for.time = True
        return self.ports.now

    def usage(self) -> Mapping[str, NodeUsage]:
        """The last measurements by node. They change with time."""
        self.asked_for.time = True
        return self.ports.usage.usage()

    def extender(self) -> Extender:
        """Services outside, which may say otherwise at any time, and of each job: each that waits is asked at any change."""
        self.asked_for.services = True
        return self.ports.extender

    def is_waiting(self, task: Task) -> bool:
        """Whether `task` may be placed: it waits, behind no gate, and its last bind was not refused a moment ago."""
        return task.status is TaskStatus.PENDING and not task.facts.gates and task.uid not in self.snapshot.held

    def waiting_in_order(self, tasks: Iterable[Task]) -> list[Task]:
        """Those of `tasks` that may be placed, first one first."""
        return sorted(filter(self.is_waiting, tasks), key=self.task_key)

    def job(self, key: str) -> Job | None:
        """The job of that key, also if it is none of `jobs`; None if there is none."""
        job = self.jobs.get(key) or self.others.get(key)
        if job is None and (facts := self.snapshot.all_jobs.get(key)) is not None:
            job = self.others[key] = self._make_job(facts)
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
        return self.reserved.concerns(job.facts.key)

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
        return [*super().job_refusals(job), *self.label_refusals.of_job(job)]

    def coupled_refusals(self, task: Task, plan: PlacementPlan) -> list[Refusal] | None:
        """As the plugins say, and by the labels that all nodes of a part of a gang must share."""
        found = super().coupled_refusals(task, plan)
        job = self.job(task.facts.job) if task.facts.part else None
        own = [] if job is None else self.label_refusals.of_part(job, task)
        return [*(found or ()), *own] if own else found

    def objects(self, record: type[R]) -> Mapping[str, R]:
        """All objects of a kind that a plugin watches, by namespace/name. Not to be changed.

        A change of one that is read wakes every job that waits.
        """
        return self.snapshot.objects.of(record)

    def told_objects(self, record: type[R]) -> Mapping[str, R]:
        """The same, where a change of an object wakes only the jobs that wait for `ObjectChange` of it: the caller says which."""
        return self.snapshot.objects.told_of(record)

    def objects_in(self, record: type[R], namespace: str) -> list[R]:
        """The objects of a kind that a plugin watches in a namespace. Not to be changed."""
        return self.snapshot.objects.in_namespace(record, namespace)

    @property
    def queue_sums(self) -> Mapping[str, QueueSums]:
        """What the jobs of each queue had and wanted when the session began; queues without jobs are missing."""
        return self.snapshot.queue_sums

    @property
    def term_counts(self) -> TermCounts:
        """Who is where; for pods that care about each other."""
        return self.moves.term_counts

    # -- doing ---------------------------------------------------------------------------------------------------------

    def statement(self) -> Statement:
        """A new, empty statement."""
        return Statement(self)

    def moved(self, move: Move, sign: int) -> None:
        """Keep what depends on placements current: `move` was made (1) or undone (−1)."""
        self.moves.add(move, sign)
        self.notify_moved(move, sign)

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
        return Binds(job, tuple((task.uid, self.names[row]) for task, row in placed), self.preparations(placed))

    def take_back(self, job: Job, task: Task) -> None:
        """Undo the promise made to one task, whichever statement made it."""
        rows = np.array([task.row], dtype=np.intp)
        move = Move(
            job, self.plan(task.facts.shape), [task], rows, task.status, [TaskStatus.PENDING], rows, np.ones(1, dtype=np.int64)
        )
        undo(self, move)

    def note(self, job: Job, kind: str, reason: str, message: str) -> None:
        """Tell the users of `job` something, as an event on its PodGroup."""
        self.report.notes.append(Note(job.facts.key, kind, reason, message))

    def fault(self, kind: ResourceType, record: Record, reason: str) -> None:
        """Say what of an object makes no sense and is passed over: once as an event on it, and as a number by kind.

        It stands as long as every session says so.
        """
        self.report.faults.add(Fault.of(kind, record, reason))

    def refuse(self, job: Job, cause: Cause) -> None:
        """Say why `job` is not let in; the first reason stands."""
        if job.cause is None:
            job.cause = cause

    def close_plugins(self) -> None:
        """Let the plugins finish."""
        for name, close in self.plugins.closers:
            self.ports.observe(name, "OnSessionClose", close)
        if self.budgets is not None:
            self.report.measures.budgets = self.budgets.standings

    def end(self) -> None:
        """Let go of what refers back to the session: it and all that it holds are freed as soon as nobody uses them.

        While both refer to each other, they would stay until the garbage collector looks, which stops every thread meanwhile.
        """
        for jobs in (self.jobs, self.others):  # the most of it: one by one, so that other threads run meanwhile
            while jobs:
                _, job = jobs.popitem()
                job.cause = None  # a cause makes its text of the job and the session
        self.release()  # plugins hold the session
        self.plugins = _NO_PLUGINS
        self._plans.clear()  # plans ask plugins
        self.moves.forget()  # moves refer to plans
        self.budgets = None
        self._kept.clear()  # what is kept may hold the session

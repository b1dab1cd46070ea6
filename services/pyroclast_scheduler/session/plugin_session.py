"""What a plugin may read and write of a session. A session has more, which belongs to actions and to the end of the session.

A plugin reads the snapshot and asks the session; it changes nothing of the cluster itself. It writes only reports: causes,
Events, faults, warnings and numbers. `Session` implements this face, and mypy checks that plugins use nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from pyroclast.api.records.meta import Record
from pyroclast.api.types import ResourceType
from pyroclast_scheduler.model.causes import Cause
from pyroclast_scheduler.model.dimensions import Dimensions
from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.model.hypernodes import HyperNodes
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Columns, Floats
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.resource_sums import QueueSums
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.model.term_counts import TermCounts
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.extension_points import Candidate, GangEviction, Rank
from pyroclast_scheduler.session.node_limits import OpenNodes, Reserved
from pyroclast_scheduler.session.outcome import Report
from pyroclast_scheduler.session.ports import Extender, NodeUsage, Ports
from pyroclast_scheduler.session.promises import Promises
from pyroclast_scheduler.session.statement import Moves, Statement

R = TypeVar("R", bound=Record)
T = TypeVar("T")


class PluginSession(Protocol):
    """The face of a session for plugins."""

    # -- the cluster, to read ------------------------------------------------------------------------------------------

    @property
    def snapshot(self) -> Snapshot:
        """The state of the cluster at the start of the session."""

    @property
    def dimensions(self) -> Dimensions:
        """The row of each resource in the arrays. Resources that no node has and no queue limits share the row UNKNOWN."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the nodes, by row."""

    @property
    def columns(self) -> Columns:
        """The amounts of the nodes as arrays, with the placements of this session."""

    @property
    def total(self) -> Floats:
        """The sum of the allocatable amounts of all nodes."""

    @property
    def features(self) -> NodeFeatures:
        """The labels and taints of the nodes."""

    @property
    def nodes(self) -> OpenNodes:
        """The nodes that this session may use."""

    @property
    def hyper_nodes(self) -> HyperNodes:
        """The hypernodes."""

    @property
    def term_counts(self) -> TermCounts:
        """For each (anti-)affinity term, the number of matching pods in each topology domain."""

    @property
    def queues(self) -> Mapping[str, Queue]:
        """The queues by name."""

    @property
    def queue_sums(self) -> Mapping[str, QueueSums]:
        """What the jobs of each queue use and request, known without reading jobs."""

    @property
    def promises(self) -> Promises:
        """The room that is kept for gangs."""

    @property
    def jobs(self) -> Mapping[str, Job]:
        """The jobs that changed or have something waiting. The session adds further ones while its actions run."""

    def job(self, key: str) -> Job | None:
        """Return any job by its key."""

    def all_jobs(self) -> Mapping[str, Job]:
        """Return every job. The cost grows with all jobs, so prefer `queue_sums` and `jobs`."""

    def plan(self, shape: Shape) -> PlacementPlan:
        """Return the placement plan of a shape: its request as a vector, and its feasible nodes."""

    def once(self, make: Callable[[PluginSession], T]) -> T:
        """Return the value that `make` creates for this session, once."""

    # -- inputs that change without a watch event; reading them decides when waiting jobs are tried again ----------------

    @property
    def ports(self) -> Ports:
        """The ports: `memory`, `period` and more."""

    def now(self) -> float:
        """Return the present time. Waiting jobs are then tried again in each schedule period."""

    def usage(self) -> Mapping[str, NodeUsage]:
        """Return the measurements of nodes. Waiting jobs are then tried again in each schedule period."""

    def extender(self) -> Extender:
        """Return the port to HTTP extenders. Each waiting job is then tried again after every change."""

    def objects(self, record: type[R]) -> Mapping[str, R]:
        """Return the objects of a watched kind. A change of any of them makes every waiting job be tried again."""

    def told_objects(self, record: type[R]) -> Mapping[str, R]:
        """Return the same for a plugin that names the objects on which a job depends, by the trigger ObjectChange."""

    def objects_in(self, record: type[R], namespace: str) -> list[R]:
        """Return the objects of a watched kind in one namespace."""

    # -- what other plugins and the configuration say --------------------------------------------------------------------

    @property
    def configuration(self) -> Configuration:
        """The configuration of the scheduler."""

    @property
    def moves(self) -> Moves:
        """The moves of this session so far."""

    def job_ready(self, job: Job) -> bool:
        """Whether the placements of `job` may be committed."""

    def is_waiting(self, task: Task) -> bool:
        """Whether `task` may be placed."""

    def waiting_in_order(self, tasks: Iterable[Task]) -> list[Task]:
        """Return those of `tasks` that may be placed, in their order."""

    def is_preemptable(self, owner: Job, task: Task) -> bool:
        """Whether `task` of `owner` may be evicted for other jobs."""

    def locked_to(self, job: Job) -> Bools | None:
        """Return a mask of the nodes that are locked against `job`; None if no plugin locks any."""

    def barred_to(self, job: Job) -> Bools | None:
        """Return a mask of the nodes that are refused to `job` by its PodGroup or queue; None if no plugin refuses any."""

    def kind(self, job: Job) -> bytes | None:
        """Return the equivalence class of `job`; None if the job is the only one of its class."""

    def job_key(self, job: Job) -> tuple[Rank, ...]:
        """Return the sort key of `job` among the jobs of its queue."""

    def job_order(self, job: Job) -> tuple[Rank, ...]:
        """Return the ranks of `job` by the plugins, without age and UID."""

    def queue_key(self, queue: Queue) -> tuple[Rank, ...]:
        """Return the sort key of `queue` among all queues."""

    def task_key(self, task: Task) -> tuple[Rank, ...]:
        """Return the sort key of `task` among the tasks of its job."""

    def victim_queue_key(self, queue: Queue, preemptor: Queue) -> tuple[Rank, ...] | None:
        """Return the sort key of `queue` among the queues that may lose pods to `preemptor`; None if no plugin orders them."""

    def unified_evictable(self, wish: GangEviction, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return those of `candidates` that may be evicted for a whole gang."""

    def statement(self) -> Statement:
        """Return a new statement, for a plugin that evicts pods by itself, as the plugin reservation does."""

    # -- reports, to write -----------------------------------------------------------------------------------------------

    @property
    def report(self) -> Report:
        """Numbers for the metrics, warnings about the configuration, pods whose queue gate is removed."""

    @property
    def reserved(self) -> Reserved:
        """The reservations of nodes, which one plugin sets."""

    def refuse(self, job: Job, cause: Cause) -> None:
        """Set the cause for which `job` is not enqueued, unless it has one."""

    def note(self, job: Job, kind: str, reason: str, message: str) -> None:
        """Record an Event on the PodGroup of `job`. `kind`: Normal or Warning."""

    def fault(self, kind: ResourceType, record: Record, reason: str) -> None:
        """Report an invalid object. The fault lasts as long as every session reports it."""

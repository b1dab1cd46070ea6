"""Lists of facts: a row of each is one item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.views.contract.explanations import Quantities, Record

__all__ = ["LISTS"]


class WaitingJob(Record, frozen=True, kw_only=True):
    """A Job, or a PodGroup of Kubernetes itself, that waits; `object` says which.

    `start`: three times, `never`, or null. Queue and pods of a Job that its flow creates later are null.
    """

    position: int | None
    namespace: str
    name: str
    queue: str | None
    priority: str | None
    pods: int | None
    asks: Quantities
    waited_seconds: int
    code: PendingReason
    start: list[str] | Literal["never"] | None
    never: bool
    sentence: str
    since: str
    object: str


class RunningJob(Record, frozen=True, kw_only=True):
    """A Job, or a PodGroup of Kubernetes itself, that runs."""

    namespace: str
    name: str
    queue: str
    pods: int
    ready: int
    nodes: int
    asks: Quantities
    elapsed_seconds: int
    ends: str | None
    health: str
    phase: str
    retries: int
    object: str


class WaitingPlace(Record, frozen=True, kw_only=True):
    """A place in the order of a queue. A field more for each plugin that ranks, by its name."""

    position: int
    namespace: str
    name: str | None
    priority: int | None
    waited_seconds: int
    asks: Quantities
    code: PendingReason | None
    start: list[str] | None


class QueueShare(Record, frozen=True, kw_only=True):
    """What a queue has of one resource; of none, where it asks for nothing.

    `resource` is null then, and the amounts are absent.
    """

    name: str
    label: str
    parent: str | None
    weight: int
    state: str | None
    waiting: int
    running: int
    oldest_seconds: int | None
    resource: str | None
    guarantee: str | UnsetType | None = UNSET
    deserved: str | UnsetType | None = UNSET
    allocated: str | UnsetType | None = UNSET
    borrowed: str | UnsetType | None = UNSET
    limit: str | UnsetType | None = UNSET


class NodeGroup(Record, frozen=True, kw_only=True):
    """Nodes that are alike, and what is free on them."""

    group: str
    state: str
    nodes: int
    cpu_free: str
    memory_free: str
    devices_free: Quantities
    largest_free: Quantities
    pods: int
    reserved_for: list[str]
    names: list[str]
    name: str | UnsetType = UNSET


class PodTimeline(Record, frozen=True, kw_only=True):
    """When a pod came to each stage, in seconds since its Job was created."""

    name: str
    node: str | None
    created_seconds: int | None
    bound_seconds: int | None
    started_seconds: int | None
    ready_seconds: int | None
    ended_seconds: int | None
    restarts: int
    phase: str


class ResourceUsage(Record, frozen=True, kw_only=True):
    """What is used of what was asked for; null where nobody measures."""

    name: str
    pods: int
    cpu: str | None
    cpu_percent: int | None
    cpu_asked: str | None
    memory: str | None
    memory_percent: int | None
    memory_asked: str | None
    gpu: str | None
    gpu_percent: int | None
    gpu_asked: str | None
    namespace: str | UnsetType = UNSET
    job: str | UnsetType = UNSET
    task: str | UnsetType = UNSET


class Step(Record, frozen=True, kw_only=True):
    """A phase that a Job came into, or why it waited."""

    at: str
    name: str
    message: str | None


class JobRecord(Record, frozen=True, kw_only=True):
    """A Job, or a PodGroup of Kubernetes itself, that was; amounts are in thousandths or MiB times seconds."""

    object: str | UnsetType = UNSET
    namespace: str
    name: str
    uid: str
    queue: str | None
    user: str
    flow: str | None
    owner: str | None
    state: str
    reason: str | None
    message: str | None
    exit_code: int | None
    submitted: str | None
    started: str | None
    ended: str | None
    waited_seconds: int | None
    elapsed_seconds: int | None
    gang_size: int | None
    pods: int
    nodes: int
    domains: list[str] | UnsetType = UNSET
    retries: int
    shape: str | None
    image: str | None
    estimate: Any
    labels: dict[str, str]
    asked: dict[str, int]
    doubtful: dict[str, int]
    cpu_hours: float | UnsetType = UNSET
    gpu_hours: float | UnsetType | None = UNSET
    doubtful_cpu_hours: float | UnsetType | None = UNSET
    made_by: dict[str, Any] | UnsetType | None = UNSET
    use: dict[str, Any] | UnsetType = UNSET
    phases: list[Step] | UnsetType = UNSET
    causes: list[Step] | UnsetType = UNSET
    tasks: list[dict[str, Any]] | UnsetType = UNSET
    evictions: list[dict[str, Any]] | UnsetType = UNSET


class JobEfficiency(Record, frozen=True, kw_only=True):
    """What a task asked for and used of one resource."""

    task: str
    resource: str
    asked_hours: float
    used_hours: float | None
    peak: str | None
    peak_pod: str | None
    efficiency: str | None
    name: str | UnsetType = UNSET


class UsageRecord(Record, frozen=True, kw_only=True):
    """What was asked for and used in a period; a field more for each of `--by`."""

    period: str
    asked: int
    used: int | None
    doubtful: int
    jobs: int
    failed: int
    asked_hours: float
    used_hours: float | None
    doubtful_hours: float | None
    efficiency: str | None


class ClusterRecord(Record, frozen=True, kw_only=True):
    """How much of the nodes was allocated, reserved, idle and down."""

    resource: str
    allocated: int
    reserved: int
    idle: int
    down: int
    total: int
    allocated_hours: float
    reserved_hours: float
    idle_hours: float
    down_hours: float
    total_hours: float
    share: str | None


class WaitRecord(Record, frozen=True, kw_only=True):
    """How long Jobs of a queue and a size waited."""

    queue: str
    pods: str
    jobs: int
    p50: int = msgspec.field(name="p50Seconds")
    p90: int = msgspec.field(name="p90Seconds")
    p99: int = msgspec.field(name="p99Seconds")


class EstimateRecord(Record, frozen=True, kw_only=True):
    """How often the foretold starts of a queue came true. `basis`: on what the predictions rested, and how many of them."""

    queue: str
    predictions: int
    held: int
    early: int
    late: int
    p50_width_seconds: int | None
    p50_error_seconds: int | None
    basis: dict[str, int]
    held_share: str | None
    early_share: str | None
    late_share: str | None
    basis_text: str | None


class QueueBudget(Record, frozen=True, kw_only=True):
    """What a queue may spend of a resource in a period, and what is left of it; null where nothing is known.

    A budget that makes no sense has a name and a problem.
    """

    name: str
    resource: str | UnsetType = UNSET
    period: str | UnsetType = UNSET
    limit_hours: float | UnsetType = UNSET
    spent_hours: float | UnsetType | None = UNSET
    doubtful_hours: float | UnsetType | None = UNSET
    left_hours: float | UnsetType | None = UNSET
    hours_per_day: float | UnsetType | None = UNSET
    begins: str | UnsetType | None = UNSET
    ends: str | UnsetType | None = UNSET
    used_up_at: str | UnsetType | None = UNSET
    at_end: str | UnsetType = UNSET
    as_of: str | UnsetType | None = UNSET
    problem: str | None


LISTS: Final[Mapping[str, type[Record]]] = {
    **{
        each.__name__: each
        for each in (
            WaitingJob,
            RunningJob,
            WaitingPlace,
            QueueShare,
            NodeGroup,
            PodTimeline,
            JobRecord,
            JobEfficiency,
            UsageRecord,
            ClusterRecord,
            WaitRecord,
            EstimateRecord,
            QueueBudget,
        )
    },
    **dict.fromkeys(("JobUsage", "TaskUsage", "QueueUsage", "NodeUsage"), ResourceUsage),
}
"""The record of an item by the kind of its list, without `List`."""

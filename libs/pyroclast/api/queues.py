"""Queue: a share of the cluster that groups wait for."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le

from pyroclast.api import types
from pyroclast.api.enums import DequeueStrategy, QueueState
from pyroclast.api.kinds import Column, CustomKind
from pyroclast.api.wire import ApiObject, Count, Extra, Int32, Name, ResourceList, SubdomainName, WireModel

__all__ = ["KIND", "Affinity", "Cluster", "Guarantee", "NodeGroupTerms", "Queue", "QueueSpec", "QueueStatus", "Reservation"]


class Cluster(WireModel):
    """Another cluster to which Jobs of the queue may be forwarded."""

    name: str | None = None
    """Name of the cluster."""
    weight: Int32 | None = None
    """Share of the Jobs that it gets."""
    capacity: ResourceList | None = None
    """What it can take."""


class Guarantee(WireModel):
    """What is kept for the queue."""

    resource: ResourceList | None = None
    """Resources that no other queue may use."""


class NodeGroupTerms(WireModel):
    """Node groups, by the label volcano.sh/nodegroup-name."""

    required_during_scheduling_ignored_during_execution: list[str] | None = None
    """Names of the groups that must (or must not) be used."""
    preferred_during_scheduling_ignored_during_execution: list[str] | None = None
    """Names of the groups that should (or should not) be used."""


class Affinity(WireModel):
    """Which nodes the queue wants and avoids."""

    node_group_affinity: NodeGroupTerms | None = None
    """Groups of nodes to use."""
    node_group_anti_affinity: NodeGroupTerms | None = None
    """Groups of nodes to avoid."""


class QueueSpec(WireModel):
    """What a queue may use."""

    weight: Annotated[int, Ge(1), Le(65535), Extra({"format": "int32"})] = 1
    """Share of the cluster, relative to the other queues."""
    capability: ResourceList | None = None
    """The most that the queue may use."""
    reclaimable: bool | None = None
    """Whether others may take back what the queue uses beyond its share; true when absent."""
    extend_clusters: list[Cluster] | None = None
    """Clusters to which Jobs may be forwarded."""
    guarantee: Guarantee | None = None
    """What is kept for the queue."""
    affinity: Affinity | None = None
    """Which nodes the queue wants and avoids."""
    type: Name | None = None
    """Free text that classifies the queue."""
    parent: SubdomainName | None = None
    """The queue above this one; root when absent."""
    deserved: ResourceList | None = None
    """What the queue can get back from others at any time."""
    priority: Count | None = None
    """Queues of higher priority are served first and give back last."""
    dequeue_strategy: DequeueStrategy = DequeueStrategy.TRAVERSE
    """Whether a group that does not fit lets those behind it pass (traverse) or not (fifo)."""


class Reservation(WireModel):
    """What is reserved for the queue."""

    nodes: list[str] | None = None
    """Names of nodes."""
    resource: ResourceList | None = None
    """Resources."""


class QueueStatus(WireModel):
    """What a queue is and uses."""

    state: QueueState | None = None
    """Whether Jobs may come in."""
    unknown: Count | None = None
    """Number of groups in phase Unknown."""
    pending: Count | None = None
    """Number of pending groups."""
    running: Count | None = None
    """Number of running groups."""
    inqueue: Count | None = None
    """Number of groups that may start."""
    completed: Count | None = None
    """Number of completed groups."""
    reservation: Reservation | None = None
    """What is reserved for the queue."""
    allocated: ResourceList | None = None
    """What the queue uses."""
    last_command: str | None = None
    """The uid of the Command that was carried out last, so that a restart of the controller does not repeat it."""


class Queue(ApiObject):
    """A Queue is a share of the cluster that groups of pods wait for."""

    spec: QueueSpec | None = None
    """What the queue may use."""
    status: QueueStatus | None = None
    """What the queue is and uses."""


KIND = CustomKind(types.QUEUES, Queue, ("q", "queue-v1beta1"), (Column("PARENT", "string", ".spec.parent"),))

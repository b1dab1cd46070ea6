"""Queue: a share of the cluster, to which groups of pods are submitted."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le

from pyroclast.api import types
from pyroclast.api.enums import DequeueStrategy, QueueState
from pyroclast.api.shared import Column, CustomKind
from pyroclast.api.wire import ApiObject, Count, Extra, Int32, Name, ResourceList, SubdomainName, WireModel


class Cluster(WireModel):
    """Another cluster to which Jobs of the queue may be forwarded."""

    name: str | None = None
    """Name of the cluster."""
    weight: Int32 | None = None
    """The relative share of the Jobs that the cluster gets."""
    capacity: ResourceList | None = None
    """The capacity of the cluster."""


class Guarantee(WireModel):
    """The guaranteed resources of a queue."""

    resource: ResourceList | None = None
    """Resources that no other queue may use."""


class NodeGroupTerms(WireModel):
    """Node groups, by the label volcano.sh/nodegroup-name."""

    required_during_scheduling_ignored_during_execution: list[str] | None = None
    """Names of the node groups that must (or must not) be used."""
    preferred_during_scheduling_ignored_during_execution: list[str] | None = None
    """Names of the node groups that should (or should not) be used."""


class Affinity(WireModel):
    """The node groups that the queue uses and avoids."""

    node_group_affinity: NodeGroupTerms | None = None
    """Node groups to use."""
    node_group_anti_affinity: NodeGroupTerms | None = None
    """Node groups to avoid."""


class QueueSpec(WireModel):
    """The shares and limits of a queue."""

    weight: Annotated[int, Ge(1), Le(65535), Extra({"format": "int32"})] = 1
    """Share of the cluster, relative to the other queues."""
    capability: ResourceList | None = None
    """The largest amount of resources that the queue may use."""
    reclaimable: bool | None = None
    """Whether other queues may reclaim what the queue uses beyond its share; true when absent."""
    extend_clusters: list[Cluster] | None = None
    """Clusters to which Jobs may be forwarded."""
    guarantee: Guarantee | None = None
    """The guaranteed resources of the queue."""
    affinity: Affinity | None = None
    """The node groups that the queue uses and avoids."""
    type: Name | None = None
    """Free text that classifies the queue."""
    parent: SubdomainName | None = None
    """The parent queue; root when absent."""
    deserved: ResourceList | None = None
    """The resources that the queue can reclaim from other queues at any time."""
    priority: Count | None = None
    """Queues of higher priority are served first, and their pods are reclaimed last."""
    dequeue_strategy: DequeueStrategy = DequeueStrategy.TRAVERSE
    """Whether groups behind a group that does not fit may start before it (traverse) or not (fifo)."""


class Reservation(WireModel):
    """The reserved nodes and resources of a queue."""

    nodes: list[str] | None = None
    """Names of the reserved nodes."""
    resource: ResourceList | None = None
    """The reserved resources."""


class QueueStatus(WireModel):
    """The state and the use of a queue."""

    state: QueueState | None = None
    """Whether the queue accepts Jobs."""
    unknown: Count | None = None
    """Number of groups in phase Unknown."""
    pending: Count | None = None
    """Number of pending groups."""
    running: Count | None = None
    """Number of running groups."""
    inqueue: Count | None = None
    """Number of admitted groups that have not started."""
    completed: Count | None = None
    """Number of completed groups."""
    reservation: Reservation | None = None
    """The reserved nodes and resources of the queue."""
    allocated: ResourceList | None = None
    """The resources that the queue uses."""
    last_command: str | None = None
    """The UID of the Command that was last executed, so that a restarted controller does not repeat it."""


class Queue(ApiObject):
    """A Queue is a share of the cluster, to which groups of pods are submitted."""

    spec: QueueSpec | None = None
    """The shares and limits of the queue."""
    status: QueueStatus | None = None
    """The state and the use of the queue."""


KIND = CustomKind(types.QUEUES, Queue, ("q", "queue-v1beta1"), (Column("PARENT", "string", ".spec.parent"),))

"""The records of PodGroup and Queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from pyroclast.api.enums import DequeueStrategy, PodGroupPhase, QueueState
from pyroclast.api.records.jobs import NetworkTopology
from pyroclast.api.records.meta import Condition, ObjectRecord, Wire


class SubGroupPolicy(Wire, frozen=True, kw_only=True):
    """A further grouping inside a PodGroup; `label_selector` is unparsed."""

    name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_size: int = 1
    min_sub_groups: int = 0
    label_selector: Mapping[str, Any] | None = None
    match_label_keys: tuple[str, ...] = ()


class PodGroupSpec(Wire, frozen=True, kw_only=True):
    min_member: int = 0
    min_task_member: Mapping[str, int] = {}
    queue: str = "default"
    priority_class_name: str = ""
    min_resources: Mapping[str, str | int] | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()


class PodGroupCondition(Condition, frozen=True, kw_only=True):
    transition_id: str = msgspec.field(default="", name="transitionID")


class PodGroupStatus(Wire, frozen=True, kw_only=True):
    phase: PodGroupPhase = PodGroupPhase.PENDING
    conditions: tuple[PodGroupCondition, ...] = ()
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class PodGroup(ObjectRecord, frozen=True, kw_only=True):
    ESSENTIAL: ClassVar = ("spec", "status.phase")

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class ExtendCluster(Wire, frozen=True, kw_only=True):
    name: str = ""
    weight: int = 0
    capacity: Mapping[str, str | int] = {}


class Guarantee(Wire, frozen=True, kw_only=True):
    resource: Mapping[str, str | int] = {}


class NodeGroupTerms(Wire, frozen=True, kw_only=True):
    required_during_scheduling_ignored_during_execution: tuple[str, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[str, ...] = ()


class QueueAffinity(Wire, frozen=True, kw_only=True):
    node_group_affinity: NodeGroupTerms | None = None
    node_group_anti_affinity: NodeGroupTerms | None = None


class QueueSpec(Wire, frozen=True, kw_only=True):
    """The shares and limits of a queue. `reclaimable` None means true."""

    weight: int = 1
    capability: Mapping[str, str | int] | None = None
    reclaimable: bool | None = None
    extend_clusters: tuple[ExtendCluster, ...] = ()
    guarantee: Guarantee = Guarantee()
    affinity: QueueAffinity | None = None
    type: str = ""
    parent: str = ""
    deserved: Mapping[str, str | int] | None = None
    priority: int = 0
    dequeue_strategy: DequeueStrategy = DequeueStrategy.TRAVERSE


class Reservation(Wire, frozen=True, kw_only=True):
    nodes: tuple[str, ...] = ()
    resource: Mapping[str, str | int] = {}


class QueueStatus(Wire, frozen=True, kw_only=True):
    """The state and the use of a queue. `state` is None before the first write of the status, and then means Open."""

    state: QueueState | None = None
    unknown: int = 0
    pending: int = 0
    running: int = 0
    inqueue: int = 0
    completed: int = 0
    reservation: Reservation = Reservation()
    allocated: Mapping[str, str | int] | None = None
    last_command: str = ""


class Queue(ObjectRecord, frozen=True, kw_only=True):
    ESSENTIAL: ClassVar = ("spec", "status.state")

    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()

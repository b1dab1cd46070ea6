"""The parts of objects that pages show: what is not here is not kept in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.api.records.jobs import JobCondition, JobState
from pyroclast.api.records.meta import Condition, ObjectRecord, Wire

__all__ = ["ShownFlow", "ShownGroup", "ShownJob", "ShownNamespace", "ShownNative", "ShownNode", "ShownPod", "ShownQueue"]


class TaskSize(Wire, frozen=True, kw_only=True):
    """A task of a Job."""

    name: str = ""
    replicas: int = 1


class ShownJobSpec(Wire, frozen=True, kw_only=True):
    """What a Job asks for."""

    scheduler_name: str = ""
    queue: str = "default"
    priority_class_name: str = ""
    min_available: int | None = None
    tasks: tuple[TaskSize, ...] = ()


class ShownJobStatus(Wire, frozen=True, kw_only=True):
    """How a Job is."""

    state: JobState = JobState()
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    retry_count: int = 0
    conditions: tuple[JobCondition, ...] = ()


class ShownJob(ObjectRecord, frozen=True, kw_only=True):
    """A Job."""

    spec: ShownJobSpec = ShownJobSpec()
    status: ShownJobStatus = ShownJobStatus()


class ShownGroupSpec(Wire, frozen=True, kw_only=True):
    """What a gang asks for."""

    queue: str = "default"
    priority: int = 0
    priority_class_name: str = ""
    min_resources: Mapping[str, str | int] | None = None


class ShownGroupStatus(Wire, frozen=True, kw_only=True):
    """What the scheduler says of a gang."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class ShownGroup(ObjectRecord, frozen=True, kw_only=True):
    """A PodGroup."""

    spec: ShownGroupSpec = ShownGroupSpec()
    status: ShownGroupStatus = ShownGroupStatus()


class ShownQueue(ObjectRecord, frozen=True, kw_only=True):
    """A queue; its parts are read as they are."""

    spec: Mapping[str, Any] = {}
    status: Mapping[str, Any] = {}


class ShownFlow(ObjectRecord, frozen=True, kw_only=True):
    """A JobFlow; its parts are read as they are."""

    spec: Mapping[str, Any] = {}
    status: Mapping[str, Any] = {}


class ShownNative(ObjectRecord, frozen=True, kw_only=True):
    """A PodGroup of Kubernetes itself; its parts are read as they are."""

    spec: Mapping[str, Any] = {}
    status: Mapping[str, Any] = {}


class ShownSchedulingGroup(Wire, frozen=True, kw_only=True):
    """The PodGroup of Kubernetes itself that a pod belongs to."""

    pod_group_name: str = ""


class ShownContainer(Wire, frozen=True, kw_only=True):
    """What a container asks for."""

    resources: Mapping[str, Any] = {}
    restart_policy: str = ""


class ShownPodSpec(Wire, frozen=True, kw_only=True):
    """Where a pod is and what it asks for."""

    node_name: str = ""
    containers: tuple[ShownContainer, ...] = ()
    init_containers: tuple[ShownContainer, ...] = ()
    resources: Mapping[str, Any] | None = None
    scheduling_group: ShownSchedulingGroup = ShownSchedulingGroup()
    overhead: Mapping[str, str | int] = {}


class ShownWait(Wire, frozen=True, kw_only=True):
    """Why a container does not run."""

    reason: str = ""


class ShownContainerState(Wire, frozen=True, kw_only=True):
    """Whether a container waits."""

    waiting: ShownWait | None = None


class ShownContainerStatus(Wire, frozen=True, kw_only=True):
    """How a container is."""

    state: ShownContainerState = ShownContainerState()


class ShownPodStatus(Wire, frozen=True, kw_only=True):
    """How a pod is."""

    phase: str = ""
    init_container_statuses: tuple[ShownContainerStatus, ...] = ()
    container_statuses: tuple[ShownContainerStatus, ...] = ()


class ShownPod(ObjectRecord, frozen=True, kw_only=True):
    """A pod that has not ended."""

    spec: ShownPodSpec = ShownPodSpec()
    status: ShownPodStatus = ShownPodStatus()


class ShownNodeSpec(Wire, frozen=True, kw_only=True):
    """Whether pods may come."""

    unschedulable: bool = False


class ShownNodeStatus(Wire, frozen=True, kw_only=True):
    """What a node has."""

    allocatable: Mapping[str, str | int] = {}
    conditions: tuple[Condition, ...] = ()


class ShownNode(ObjectRecord, frozen=True, kw_only=True):
    """A node."""

    spec: ShownNodeSpec = ShownNodeSpec()
    status: ShownNodeStatus = ShownNodeStatus()


class ShownNamespace(ObjectRecord, frozen=True, kw_only=True):
    """A namespace."""

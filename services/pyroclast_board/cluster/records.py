"""The fields of objects that pages show. Other fields are not stored in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.api.records.jobs import JobCondition, JobState
from pyroclast.api.records.meta import Condition, ObjectRecord, Wire
from pyroclast.api.records.nodes import Taint


class TaskSize(Wire, frozen=True, kw_only=True):
    """The name and size of a task of a Job."""

    name: str = ""
    replicas: int = 1


class ShownJobSpec(Wire, frozen=True, kw_only=True):
    """The shown fields of a Job's spec."""

    scheduler_name: str = ""
    queue: str = "default"
    priority_class_name: str = ""
    min_available: int | None = None
    tasks: tuple[TaskSize, ...] = ()


class ShownJobStatus(Wire, frozen=True, kw_only=True):
    """The shown fields of a Job's status."""

    state: JobState = JobState()
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    retry_count: int = 0
    conditions: tuple[JobCondition, ...] = ()


class ShownJob(ObjectRecord, frozen=True, kw_only=True):
    """The shown fields of a Job."""

    spec: ShownJobSpec = ShownJobSpec()
    status: ShownJobStatus = ShownJobStatus()


class ShownGroupSpec(Wire, frozen=True, kw_only=True):
    """The shown fields of a PodGroup's spec."""

    queue: str = "default"
    priority: int = 0
    priority_class_name: str = ""
    min_resources: Mapping[str, str | int] | None = None


class ShownGroupStatus(Wire, frozen=True, kw_only=True):
    """The shown fields of a PodGroup's status, which the scheduler writes."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class ShownGroup(ObjectRecord, frozen=True, kw_only=True):
    """The shown fields of a PodGroup."""

    spec: ShownGroupSpec = ShownGroupSpec()
    status: ShownGroupStatus = ShownGroupStatus()


class ShownObject(ObjectRecord, frozen=True, kw_only=True):
    """A Queue, a JobFlow or a native PodGroup, whose spec and status are not parsed."""

    spec: Mapping[str, Any] = {}
    status: Mapping[str, Any] = {}


class ShownSchedulingGroup(Wire, frozen=True, kw_only=True):
    """The native PodGroup to which a pod belongs."""

    pod_group_name: str = ""


class ShownContainer(Wire, frozen=True, kw_only=True):
    """The shown fields of a container's spec, with its requests."""

    resources: Mapping[str, Any] = {}
    restart_policy: str = ""


class ShownPodSpec(Wire, frozen=True, kw_only=True):
    """The shown fields of a pod's spec, with its node and requests."""

    node_name: str = ""
    containers: tuple[ShownContainer, ...] = ()
    init_containers: tuple[ShownContainer, ...] = ()
    resources: Mapping[str, Any] | None = None
    scheduling_group: ShownSchedulingGroup = ShownSchedulingGroup()
    overhead: Mapping[str, str | int] = {}


class ShownWait(Wire, frozen=True, kw_only=True):
    """The reason for which a container waits."""

    reason: str = ""


class ShownContainerState(Wire, frozen=True, kw_only=True):
    """The state of a container: waiting or not."""

    waiting: ShownWait | None = None


class ShownContainerStatus(Wire, frozen=True, kw_only=True):
    """The shown fields of a container's status."""

    state: ShownContainerState = ShownContainerState()


class ShownPodStatus(Wire, frozen=True, kw_only=True):
    """The shown fields of a pod's status."""

    phase: str = ""
    init_container_statuses: tuple[ShownContainerStatus, ...] = ()
    container_statuses: tuple[ShownContainerStatus, ...] = ()


class ShownPod(ObjectRecord, frozen=True, kw_only=True):
    """The shown fields of a pod that has not ended."""

    spec: ShownPodSpec = ShownPodSpec()
    status: ShownPodStatus = ShownPodStatus()


class ShownNodeSpec(Wire, frozen=True, kw_only=True):
    """Whether a node is cordoned, and its taints."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ShownNodeStatus(Wire, frozen=True, kw_only=True):
    """The allocatable resources and the conditions of a node."""

    allocatable: Mapping[str, str | int] = {}
    conditions: tuple[Condition, ...] = ()


class ShownNode(ObjectRecord, frozen=True, kw_only=True):
    """The shown fields of a node."""

    spec: ShownNodeSpec = ShownNodeSpec()
    status: ShownNodeStatus = ShownNodeStatus()


class ShownNamespace(ObjectRecord, frozen=True, kw_only=True):
    """The shown fields of a namespace."""

"""Job: pods of several tasks that start together, with policies for what happens to them."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, MaxLen, MinLen
from pydantic import StringConstraints

from pyroclast.api import types
from pyroclast.api.enums import BusEvent, JobPhase, NumaPolicy
from pyroclast.api.kinds import AGE, Column, CustomKind
from pyroclast.api.shared import LifecyclePolicy, NetworkTopologySpec, TaskState
from pyroclast.api.wire import (
    DNS_LABEL,
    ApiObject,
    Count,
    Duration,
    Extra,
    Int32,
    Int64,
    Name,
    PodTemplate,
    SubdomainName,
    Time,
    VolumeClaim,
    WireModel,
)

__all__ = [
    "KIND",
    "DependsOn",
    "Job",
    "JobCondition",
    "JobRetry",
    "JobSpec",
    "JobState",
    "JobStatus",
    "PartitionPolicySpec",
    "TaskSpec",
    "VolumeSpec",
]

_Positive = Annotated[int, Ge(1), Extra({"format": "int32"})]


class VolumeSpec(WireModel):
    """A volume that every container of every task mounts."""

    mount_path: Annotated[str, StringConstraints(min_length=1, pattern=r"^[^:]+$")]
    """Where the containers mount the volume."""
    volume_claim_name: Name | None = None
    """Name of the claim. Filled in by the controller when only volumeClaim is given."""
    volume_claim: VolumeClaim | None = None
    """The claim to make. Without it and without volumeClaimName each pod gets an empty directory of its own."""


class DependsOn(WireModel):
    """The tasks that must be up before this one starts."""

    name: list[str] | None = None
    """Names of the tasks."""
    iteration: str | None = None
    """Whether `any` of the tasks is enough or `all` are needed, which is the default."""


class PartitionPolicySpec(WireModel):
    """How the pods of a task are split into groups of equal size, each of which is placed as a whole."""

    total_partitions: _Positive | None = None
    """Number of groups. When absent, as many as the replicas fill."""
    partition_size: _Positive
    """Pods of each group."""
    min_partitions: Count = 0
    """How many groups must be placeable before any starts."""
    network_topology: NetworkTopologySpec | None = None
    """How far apart the pods of one group may be placed."""


class TaskSpec(WireModel):
    """Pods of a Job that are made from one template."""

    name: Annotated[str, StringConstraints(max_length=63, pattern=DNS_LABEL)] | None = None
    """Name of the task, unique in the Job; pods are called JOB-TASK-INDEX."""
    replicas: Count | None = None
    """Number of pods."""
    min_available: Count | None = None
    """How many pods of the task must be placeable before the Job starts; all of them by default."""
    template: PodTemplate | None = None
    """What the pods look like."""
    policies: list[LifecyclePolicy] | None = None
    """What to do when something happens to this task; consulted before the policies of the Job."""
    topology_policy: NumaPolicy | None = None
    """How the CPUs of a pod must lie to each other."""
    max_retry: Count | None = None
    """How often the containers of a pod may restart before the task counts as failed; 3 by default."""
    depends_on: DependsOn | None = None
    """Which tasks must be up before this one starts."""
    partition_policy: PartitionPolicySpec | None = None
    """How the pods are split into groups."""


class JobRetry(WireModel):
    """How restarts follow each other. Without it three follow at once, the others after 1 s, 2 s and so on up to 5 min."""

    backoff: Duration | None = None
    """Least time between the first restart and the second, as a Go duration; doubled for each further one."""
    max_backoff: Duration | None = None
    """Longest time between two restarts, as a Go duration; 5m when absent."""
    reset_after: Duration | None = None
    """After so long without a restart, as a Go duration, status.retryCount starts anew; never when absent."""


class JobSpec(WireModel):
    """What a Job should be."""

    scheduler_name: Annotated[str, MaxLen(63)] | None = None
    """The scheduler of the pods whose template names none."""
    min_available: Count | None = None
    """How many pods must be placeable before any starts; the sum over the tasks by default."""
    volumes: list[VolumeSpec] | None = None
    """Volumes that all containers mount."""
    tasks: Annotated[list[TaskSpec], MinLen(1)] | None = None
    """The tasks."""
    policies: list[LifecyclePolicy] | None = None
    """What to do when something happens to any task."""
    plugins: dict[str, list[str]] | None = None
    """Job plugins by name, with their arguments: env, svc, ssh, tensorflow, pytorch, mpi, ray, hcclrank."""
    running_estimate: Duration | None = None
    """How long the user thinks that the Job runs, as a Go duration."""
    queue: SubdomainName = "default"
    """The queue that the Job waits in."""
    max_retry: Count = 3
    """How often the Job may be restarted."""
    retry: JobRetry | None = None
    """How restarts follow each other."""
    ttl_seconds_after_finished: Count | None = None
    """Seconds after its end at which the Job is deleted; never when absent."""
    priority_class_name: SubdomainName | None = None
    """Priority of the Job and of its pods that name none."""
    min_success: _Positive | None = None
    """How many pods must succeed for the Job to be complete."""
    network_topology: NetworkTopologySpec | None = None
    """How far apart the pods of the Job may be placed."""


class JobState(WireModel):
    """The phase of a Job and how it came into it."""

    phase: JobPhase | None = None
    """The phase."""
    reason: str | None = None
    """Why the phase changed last, as one word."""
    message: str | None = None
    """Why the phase changed last, for people."""
    last_transition_time: Time | None = None
    """When the state changed last."""


class JobCondition(WireModel):
    """A phase that the Job was in."""

    status: str
    """The phase."""
    last_transition_time: Time | None = None
    """When the Job came into it."""


class DelayedAction(WireModel):
    """An action of a policy with a timeout whose time runs: it is carried out then unless what caused it passes."""

    action: str | None = None
    """What will be done."""
    event: BusEvent | None = None
    """What happened."""
    at: Time | None = None
    """When it happened, by the clock of the API server."""
    task: str | None = None
    """The task that it happened to."""
    pod: str | None = None
    """The pod that it happened to."""
    uid: str | None = None
    """The uid of that pod."""
    partition: str | None = None
    """The partition of that pod."""
    version: Count | None = None
    """The version of the Job then."""
    exit_code: Int32 | None = None
    """How the pod ended."""


class TrackedPods(WireModel):
    """The pods that have started and that the controller has not deleted itself: one that is gone was deleted by somebody else.

    While the Job ends, they are those that are still to be deleted.
    """

    at: Time | None = None
    """The `lastTransitionTime` that was written with them; where `state` has another, they are out of date."""
    indexes: dict[str, str] | None = None
    """The indexes of the pods of each task, as in `0-4,7`."""


class JobWaiting(WireModel):
    """Why a Job waits, as the annotation `scheduling.volcano.sh/waiting` of its PodGroup says it."""

    code: str | None = None
    """The code, one word."""
    never: bool | None = None
    """Waiting alone does not help."""
    since: str | None = None
    """Since when the code holds."""
    seen: str | None = None
    """When a scheduling session looked at it last."""
    resource: str | None = None
    """The resource that is short."""
    asks: str | None = None
    """How much of it the gang or the pod asks for."""
    has: str | None = None
    """How much of it the queue or the cluster has in use."""
    may: str | None = None
    """How much of it the queue or the cluster may use."""
    ahead: Int64 | None = None
    """How many wait before it in its queue."""
    first: str | None = None
    """The first of them, where it is of the same namespace."""
    start: list[str] | None = None
    """The earliest, the likely and the latest start, where there is an estimate."""
    basis: str | None = None
    """What the estimate rests on."""


class JobStatus(WireModel):
    """What a Job is."""

    state: JobState | None = None
    """The current phase."""
    min_available: Count | None = None
    """How many pods must be placeable, as of the last look at the spec."""
    task_status_count: dict[str, TaskState] | None = None
    """Number of pods by task and phase."""
    pending: Count | None = None
    """Number of pending pods."""
    running: Count | None = None
    """Number of running pods."""
    succeeded: Count | None = None
    """Number of pods that succeeded."""
    failed: Count | None = None
    """Number of pods that failed."""
    terminating: Count | None = None
    """Number of pods that are going away."""
    unknown: Count | None = None
    """Number of pods of which nothing is known."""
    version: Count | None = None
    """How often all pods were taken away; pods carry the version they were made for."""
    retry_count: Count | None = None
    """How often the Job was restarted."""
    restart_time: Time | None = None
    """When the last restart began, or may begin: no pod is made before."""
    running_duration: Duration | None = None
    """Age of the Job at its last change of phase, as a Go duration."""
    controlled_resources: dict[str, str] | None = None
    """Plugins that are set up and claims that were made, by what they are for."""
    conditions: list[JobCondition] | None = None
    """The phases that the Job was in, the latest last."""
    observed_generation: Int64 | None = None
    """The generation of the spec that was acted on last."""
    tracked_pods: TrackedPods | None = None
    """The pods that a controller that starts looks for, so that it misses no deletion."""
    delayed_actions: list[DelayedAction] | None = None
    """What policies with a timeout will do, so that a restart of the controller neither forgets nor repeats it."""
    last_command: str | None = None
    """The uid of the Command that was carried out last, so that a restart of the controller does not repeat it."""
    unknown_pod_group: str | None = None
    """The uid of the PodGroup of which a policy has taken note that it is Unknown, until it is so no longer."""
    waiting: JobWaiting | None = None
    """Why the Job waits; its numbers are as old as the last write of the status."""


class Job(ApiObject):
    """A Job is a set of pods of several tasks that are placed together, watched together and end together."""

    spec: JobSpec | None = None
    """What the Job should be."""
    status: JobStatus | None = None
    """What the Job is."""


KIND = CustomKind(
    types.JOBS,
    Job,
    ("vcjob", "vj"),
    (
        Column("STATUS", "string", ".status.state.phase"),
        Column("minAvailable", "integer", ".status.minAvailable"),
        Column("RUNNINGS", "integer", ".status.running"),
        AGE,
        Column("QUEUE", "string", ".spec.queue", priority=1),
    ),
)

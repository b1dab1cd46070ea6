"""Job: pods of several tasks that start together, with policies for occurrences."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, MaxLen, MinLen
from pydantic import StringConstraints

from pyroclast.api import enums, types, wire
from pyroclast.api.shared import AGE, Column, CustomKind, LifecyclePolicy, NetworkTopologySpec, TaskState

_Positive = Annotated[int, Ge(1), wire.Extra({"format": "int32"})]


class VolumeSpec(wire.WireModel):
    """A volume that every container of every task mounts."""

    mount_path: Annotated[str, StringConstraints(min_length=1, pattern=r"^[^:]+$")]
    """Where the containers mount the volume."""
    volume_claim_name: wire.Name | None = None
    """Name of the claim. The controller sets the name when only volumeClaim is given."""
    volume_claim: wire.VolumeClaim | None = None
    """The claim to create. Without volumeClaim and volumeClaimName, each pod gets its own emptyDir."""


class DependsOn(wire.WireModel):
    """The tasks that must be ready before this task starts."""

    name: list[str] | None = None
    """Names of the tasks."""
    iteration: str | None = None
    """Whether `any` of the tasks is enough, or `all` must be ready, which is the default."""


class PartitionPolicySpec(wire.WireModel):
    """How the pods of a task are divided into groups of equal size, each of which is placed as a whole."""

    total_partitions: _Positive | None = None
    """Number of groups. When absent, the replicas determine the number."""
    partition_size: _Positive
    """Number of pods of each group."""
    min_partitions: wire.Count = 0
    """How many groups must be placeable before any pod starts."""
    network_topology: NetworkTopologySpec | None = None
    """The network topology limit for the pods of one group."""


class ArraySpec(wire.WireModel):
    """The indexes of an array task, of which only some run at the same time."""

    indexes: Annotated[str, StringConstraints(max_length=4096, pattern=wire.INDEXES)] | None = None
    """The indexes in ascending order, such as `0-9999,20000-20100:5`. A range may have a step after `:`."""
    max_parallel: Annotated[int, Ge(1), wire.Extra({"format": "int32"})] | None = None
    """How many pods of the task exist at the same time; all when absent."""
    max_failures: wire.IntOrString | None = None
    """How many indexes may fail, as a number or as a per cent of the indexes; one more fails the Job. No limit when absent."""
    retries_per_index: wire.Count | None = None
    """How often the pod of one index is made again after it failed; never when absent."""
    cancelled: Annotated[str, StringConstraints(max_length=65536, pattern=wire.INDEXES_OR_NONE)] | None = None
    """Indexes that are not to run, such as `7,100-199`. Their pods are deleted. An index stays cancelled."""
    keep_pods: bool | None = None
    """Whether the pods of completed indexes stay; they are deleted when absent."""


class TaskSpec(wire.WireModel):
    """Pods of a Job that are created from one template."""

    name: Annotated[str, StringConstraints(max_length=63, pattern=wire.DNS_LABEL)] | None = None
    """Name of the task, unique in the Job; the name of a pod is JOB-TASK-INDEX."""
    replicas: wire.Count | None = None
    """Number of pods."""
    min_available: wire.Count | None = None
    """How many pods of the task must be placeable before the Job starts; all pods by default."""
    template: wire.PodTemplate | None = None
    """The template of the pods."""
    policies: list[LifecyclePolicy] | None = None
    """Policies for occurrences of this task, which take precedence over the policies of the Job."""
    topology_policy: enums.NumaPolicy | None = None
    """How the CPUs of a pod must be aligned to NUMA nodes."""
    max_retry: wire.Count | None = None
    """How often the containers of a pod may restart before the task counts as failed; 3 by default."""
    depends_on: DependsOn | None = None
    """The tasks that must be ready before this task starts."""
    partition_policy: PartitionPolicySpec | None = None
    """How the pods are divided into groups."""
    array: ArraySpec | None = None
    """The indexes of the task, in place of replicas. The pods of an array are independent of each other."""
    independent_pods: bool | None = None
    """Whether a failed pod is made again at its index while the other pods go on."""


class JobRetry(wire.WireModel):
    """The pauses between restarts. When absent, three restarts happen at once, and further restarts after 1 s, 2 s and so on up
    to 5 min.
    """

    backoff: wire.Duration | None = None
    """The least time between the first restart and the second, as a Go duration; doubled for each further restart."""
    max_backoff: wire.Duration | None = None
    """Longest time between two restarts, as a Go duration; 5m when absent."""
    reset_after: wire.Duration | None = None
    """The time without a restart, as a Go duration, after which status.retryCount is reset to 0; never when absent."""


class After(wire.WireModel):
    """Jobs of the same namespace that must reach a condition before this Job starts."""

    job: wire.Name | None = None
    """Name of the Job."""
    selector: wire.LabelSelector | None = None
    """Labels of the Jobs, in place of a name."""
    kind: enums.AfterKind | None = None
    """The kind: Job, which is the default, or BatchJob, a Job of the group `batch`."""
    condition: enums.AfterCondition | None = None
    """What the Jobs must reach: Succeeded, which is the default, Failed, Ended or Started."""
    index: enums.AfterIndex | None = None
    """With `same`, each index of this array waits only for the same index of the other array."""


class SignalBefore(wire.WireModel):
    """A signal to the containers before the time of the Job is over."""

    seconds: _Positive
    """How many seconds before."""
    signal: Annotated[str, StringConstraints(pattern=r"^(SIG)?[A-Z0-9]{2,10}$")] | None = None
    """The name of the signal, such as USR1; TERM when absent."""


class JobSpec(wire.WireModel):
    """The desired state of a Job."""

    scheduler_name: Annotated[str, MaxLen(63)] | None = None
    """The scheduler of the pods whose template names none."""
    min_available: wire.Count | None = None
    """How many pods must be placeable before any pod starts; the sum over the tasks by default."""
    volumes: list[VolumeSpec] | None = None
    """Volumes that all containers mount."""
    tasks: Annotated[list[TaskSpec], MinLen(1)] | None = None
    """The tasks."""
    policies: list[LifecyclePolicy] | None = None
    """Policies for occurrences of any task."""
    plugins: dict[str, list[str]] | None = None
    """Job plugins by name, with their arguments: env, slurm, svc, ssh, tensorflow, pytorch, mpi, ray, hcclrank."""
    running_estimate: wire.Duration | None = None
    """The user's estimate of the Job's run time, as a Go duration."""
    queue: wire.SubdomainName = "default"
    """The queue to which the Job is submitted."""
    max_retry: wire.Count = 3
    """How often the Job may be restarted."""
    retry: JobRetry | None = None
    """The pauses between restarts."""
    ttl_seconds_after_finished: wire.Count | None = None
    """Seconds after its end at which the Job is deleted; never when absent."""
    priority_class_name: wire.SubdomainName | None = None
    """The PriorityClass of the Job, and of its pods that name none."""
    min_success: _Positive | None = None
    """How many pods must succeed for the Job to be completed."""
    network_topology: NetworkTopologySpec | None = None
    """The network topology limit for the pods of the Job."""
    suspend: bool | None = None
    """Whether the Job has no pods at present."""
    managed_by: Annotated[str, MaxLen(63)] | None = None
    """The controller of the Job, as in `batch/v1`; Pyroclast leaves the Jobs of other controllers alone."""
    after: Annotated[list[After], MaxLen(32)] | None = None
    """The Jobs that must reach a condition before this Job starts."""
    after_policy: enums.AfterPolicy | None = None
    """What happens when `after` can never be satisfied: Fail, which is the default, or Wait."""
    deadline: Annotated[str, MaxLen(64)] | None = None
    """When the Job must have ended, as an RFC 3339 time or as a Go duration after its creation."""
    max_run_time: wire.Duration | None = None
    """The longest run time of the Job, as a Go duration."""
    on_timeout: enums.TimeoutPolicy | None = None
    """What happens at the end of the time: Fail, which is the default, or Requeue."""
    signal_before: SignalBefore | None = None
    """A signal to the containers before the end of the time."""
    max_failed_pods: wire.Count | None = None
    """How many pods may fail, over all tries; one more fails the Job. No limit when absent."""


class JobState(wire.WireModel):
    """The phase of a Job, and the last change of the phase."""

    phase: enums.JobPhase | None = None
    """The phase."""
    reason: str | None = None
    """Why the phase last changed, as one word."""
    message: str | None = None
    """Why the phase last changed, as text."""
    last_transition_time: wire.Time | None = None
    """When the state last changed."""


class JobCondition(wire.WireModel):
    """A past or present phase of the Job."""

    status: str
    """The phase."""
    last_transition_time: wire.Time | None = None
    """When the Job entered the phase."""


class DelayedAction(wire.WireModel):
    """The delayed action of a policy with a timeout.

    The controller executes it after the timeout, unless its cause has passed.
    """

    action: str | None = None
    """The action."""
    event: enums.BusEvent | None = None
    """The event that triggered the policy."""
    at: wire.Time | None = None
    """When the event happened, by the clock of the API server."""
    task: str | None = None
    """The task of the event."""
    pod: str | None = None
    """The pod of the event."""
    uid: str | None = None
    """The UID of that pod."""
    partition: str | None = None
    """The partition of that pod."""
    version: wire.Count | None = None
    """The version of the Job at the event."""
    exit_code: wire.Int32 | None = None
    """The exit code of the pod."""


class TrackedPods(wire.WireModel):
    """The pods that run and that the controller has not deleted. If one no longer exists, another client has deleted it.

    While the Job ends, these are the pods that are still to be deleted.
    """

    at: wire.Time | None = None
    """The `lastTransitionTime` of the same write; if `state` has another one, the pods are out of date."""
    indexes: dict[str, str] | None = None
    """The indexes of the pods of each task, such as `0-4,7`."""
    succeeded: dict[str, str] | None = None
    """The indexes of the pods of each task that have succeeded. They count, and do not run again, also when they were deleted."""


class JobWaiting(wire.WireModel):
    """Why a Job waits, with the same fields as the annotation `scheduling.volcano.sh/waiting` of its PodGroup."""

    code: str | None = None
    """The code, one word."""
    never: bool | None = None
    """Whether waiting alone does not help."""
    since: str | None = None
    """Since when the code applies."""
    seen: str | None = None
    """When a scheduling session last examined the Job."""
    resource: str | None = None
    """The scarce resource."""
    asks: str | None = None
    """The amount of this resource that the gang or the pod requests."""
    has: str | None = None
    """The amount of this resource that the queue or the cluster uses."""
    may: str | None = None
    """The amount of this resource that the queue or the cluster may use."""
    ahead: wire.Int64 | None = None
    """The number of jobs ahead in the queue."""
    first: str | None = None
    """The first of the jobs ahead, if it is in the same namespace."""
    start: list[str] | None = None
    """The earliest, the likely and the latest start, if there is an estimate."""
    basis: str | None = None
    """The basis of the estimate."""


class PodOutput(wire.WireModel):
    """What a pod has put out: the termination message of its main container."""

    task: str
    """Name of the task."""
    index: wire.Count | None = None
    """Index of the pod in its task."""
    message: str
    """The message, without the line end at its end."""


class ArrayStatus(wire.WireModel):
    """The state of the indexes of an array task; ranges such as `0-511,600`. An index in none of them has not run yet."""

    completed: str | None = None
    """The indexes whose pod succeeded. An index of a range that is also in failed or cancelled has not completed."""
    failed: str | None = None
    """The indexes whose pod failed, and failed again in all retries."""
    running: str | None = None
    """The indexes whose pod runs."""
    cancelled: str | None = None
    """The indexes that were cancelled before they ended."""
    failures: dict[str, wire.Count] | None = None
    """How often the pod of an index failed, by index, only of unfinished indexes."""


class AfterJob(wire.WireModel):
    """The last known state of an earlier Job, which stays when the earlier Job is deleted."""

    name: str
    """Name of the earlier Job."""
    uid: str | None = None
    """UID of the earlier Job."""
    phase: str | None = None
    """Its phase: Running, Completed, Failed or Terminated; absent when it has not started."""
    gone: bool | None = None
    """Whether the earlier Job was deleted."""
    indexes: str | None = None
    """The indexes of its array that have reached the condition, such as `0-4,7`; only with `index: same`."""


class AfterStatus(wire.WireModel):
    """The state of one entry of `spec.after`, in the same order."""

    met: bool | None = None
    """Whether the earlier Jobs have reached the condition; that stays so."""
    jobs: list[AfterJob] | None = None
    """The earlier Jobs; for a selector at most 100, those that prevent the start first."""


class JobStatus(wire.WireModel):
    """The observed state of a Job."""

    state: JobState | None = None
    """The current phase."""
    min_available: wire.Count | None = None
    """The minimum of placeable pods in the spec that the controller last acted on."""
    task_status_count: dict[str, TaskState] | None = None
    """Number of pods by task and phase."""
    pending: wire.Count | None = None
    """Number of pending pods."""
    running: wire.Count | None = None
    """Number of running pods."""
    succeeded: wire.Count | None = None
    """Number of pods that succeeded."""
    failed: wire.Count | None = None
    """Number of pods that failed."""
    terminating: wire.Count | None = None
    """Number of pods that are being deleted."""
    unknown: wire.Count | None = None
    """Number of pods in an unknown state."""
    version: wire.Count | None = None
    """How often all pods were deleted; a pod carries the version of the Job at its creation."""
    retry_count: wire.Count | None = None
    """How often the Job was restarted."""
    start_time: wire.Time | None = None
    """When the Job began to run, since its last restart or suspension; `maxRunTime` counts from this time."""
    after: list[AfterStatus] | None = None
    """The state of each entry of `spec.after`."""
    restart_time: wire.Time | None = None
    """When the last restart began, or the time before which no pod is created for a restart."""
    running_duration: wire.Duration | None = None
    """Age of the Job at its last change of phase, as a Go duration."""
    controlled_resources: dict[str, str] | None = None
    """The plugins that are set up and the claims of the Job, by their purpose."""
    conditions: list[JobCondition] | None = None
    """The phases of the Job, the latest last."""
    observed_generation: wire.Int64 | None = None
    """The generation of the spec that the controller last acted on."""
    tracked_pods: TrackedPods | None = None
    """The pods that a restarted controller checks, so that it misses no deletion."""
    delayed_actions: list[DelayedAction] | None = None
    """The pending actions of policies with a timeout, so that a restarted controller neither forgets nor repeats them."""
    last_command: str | None = None
    """The UID of the Command that was last executed, so that a restarted controller does not repeat it."""
    unknown_pod_group: str | None = None
    """The UID of the PodGroup whose phase Unknown has triggered a policy; absent when the phase has changed."""
    waiting: JobWaiting | None = None
    """Why the Job waits; the numbers are as old as the last write of the status."""
    outputs: list[PodOutput] | None = None
    """The outputs of the ended pods, if the Job belongs to a JobFlow; at most 64 KiB together."""
    outputs_omitted: str | None = None
    """Why the outputs of the pods are left out; absent when they are not."""
    arrays: dict[str, ArrayStatus] | None = None
    """The indexes of the array tasks, by task."""
    failed_pods: wire.Count | None = None
    """How many pods failed over all tries, if the Job has `maxFailedPods` or tasks with independent pods."""


class Job(wire.ApiObject):
    """A Job is a set of pods of several tasks that are placed together, monitored together and end together."""

    spec: JobSpec | None = None
    """The desired state of the Job."""
    status: JobStatus | None = None
    """The observed state of the Job."""


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

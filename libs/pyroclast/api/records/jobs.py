"""The records of Job, CronJob and Command.

Pod templates and claims stay raw JSON (`msgspec.Raw`), which refers to the decoded bytes. So decode each object from its own
bytes; otherwise a whole page of a list stays in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from pyroclast.api import enums
from pyroclast.api.records.meta import ObjectRecord, OwnerReference, Wire


class NetworkTopology(Wire, frozen=True, kw_only=True):
    mode: enums.NetworkTopologyMode = enums.NetworkTopologyMode.HARD
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class LifecyclePolicy(Wire, frozen=True, kw_only=True):
    action: str = ""
    event: enums.BusEvent | None = None
    events: tuple[enums.BusEvent, ...] = ()
    exit_code: int | None = None
    timeout: str | None = None


class JobVolume(Wire, frozen=True, kw_only=True):
    """A volume mounted into every container; `volume_claim` is raw JSON, empty when absent."""

    mount_path: str = ""
    volume_claim_name: str = ""
    volume_claim: msgspec.Raw = msgspec.Raw()


class DependsOn(Wire, frozen=True, kw_only=True):
    name: tuple[str, ...] = ()
    iteration: str = ""


class PartitionPolicy(Wire, frozen=True, kw_only=True):
    total_partitions: int | None = None
    partition_size: int = 0
    min_partitions: int = 0
    network_topology: NetworkTopology | None = None


class Array(Wire, frozen=True, kw_only=True):
    indexes: str = ""
    max_parallel: int | None = None
    max_failures: int | str | None = None
    retries_per_index: int = 0
    cancelled: str = ""
    keep_pods: bool = False


class Task(Wire, frozen=True, kw_only=True):
    """A task of a Job; `template` is raw JSON, empty when absent."""

    name: str = ""
    replicas: int = 0
    min_available: int | None = None
    template: msgspec.Raw = msgspec.Raw()
    policies: tuple[LifecyclePolicy, ...] = ()
    topology_policy: enums.NumaPolicy | None = None
    max_retry: int | None = None
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicy | None = None
    array: Array | None = None
    independent_pods: bool = False


class JobRetry(Wire, frozen=True, kw_only=True):
    backoff: str | None = None
    max_backoff: str | None = None
    reset_after: str | None = None


class After(Wire, frozen=True, kw_only=True):
    job: str = ""
    selector: Mapping[str, Any] | None = None
    kind: enums.AfterKind = enums.AfterKind.JOB
    condition: enums.AfterCondition = enums.AfterCondition.SUCCEEDED
    index: enums.AfterIndex | None = None


class SignalBefore(Wire, frozen=True, kw_only=True):
    seconds: int = 0
    signal: str = "TERM"


class JobSpec(Wire, frozen=True, kw_only=True):
    """The desired state of a Job. None means absent, where that differs from zero."""

    scheduler_name: str = ""
    min_available: int | None = None
    volumes: tuple[JobVolume, ...] = ()
    tasks: tuple[Task, ...] = ()
    policies: tuple[LifecyclePolicy, ...] = ()
    plugins: Mapping[str, tuple[str, ...]] = {}
    running_estimate: str | None = None
    queue: str = "default"
    max_retry: int = 3
    retry: JobRetry | None = None
    ttl_seconds_after_finished: int | None = None
    priority_class_name: str = ""
    min_success: int | None = None
    network_topology: NetworkTopology | None = None
    suspend: bool = False
    managed_by: str = ""
    after: tuple[After, ...] = ()
    after_policy: enums.AfterPolicy = enums.AfterPolicy.FAIL
    deadline: str | None = None
    max_run_time: str | None = None
    on_timeout: enums.TimeoutPolicy = enums.TimeoutPolicy.FAIL
    signal_before: SignalBefore | None = None
    max_failed_pods: int | None = None


class JobState(Wire, frozen=True, kw_only=True):
    phase: enums.JobPhase = enums.JobPhase.NEW
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class TaskState(Wire, frozen=True, kw_only=True):
    phase: Mapping[str, int] = {}


class JobCondition(Wire, frozen=True, kw_only=True):
    status: str = ""
    last_transition_time: str | None = None


class DelayedAction(Wire, frozen=True, kw_only=True):
    """A pending delayed action of a policy, and its occurrence. `at`: when the occurrence happened.

    `event` is text, since another version of Pyroclast may have written it.
    """

    action: str = ""
    event: str = ""
    at: str = ""
    task: str = ""
    pod: str = ""
    uid: str = ""
    partition: str = ""
    version: int = 0
    exit_code: int = 0


class TrackedPods(Wire, frozen=True, kw_only=True):
    """Pods that a restarted controller checks: their indexes by task, such as `0-4,7`.

    `at`: the `last_transition_time` of the same status; None when there are no such pods. `succeeded`: the pods that have
    succeeded, also when they were deleted afterwards.
    """

    at: str | None = None
    indexes: Mapping[str, str] = {}
    succeeded: Mapping[str, str] = {}


class JobWaiting(Wire, frozen=True, kw_only=True):
    """Why a Job waits, with the fields of its PodGroup's annotation; see `pyroclast.api.waiting.Waiting`."""

    code: str = ""
    never: bool = False
    since: str = ""
    seen: str = ""
    resource: str = ""
    asks: str = ""
    has: str = ""
    may: str = ""
    ahead: int = 0
    first: str = ""
    start: tuple[str, ...] = ()
    basis: str = ""


class PodOutput(Wire, frozen=True, kw_only=True):
    task: str = ""
    index: int = 0
    message: str = ""


class ArrayStatus(Wire, frozen=True, kw_only=True):
    """The indexes of an array task by their state, as ranges; `failures`: how often the pods of unfinished indexes failed."""

    completed: str = ""
    failed: str = ""
    running: str = ""
    cancelled: str = ""
    failures: Mapping[str, int] = {}


class AfterJob(Wire, frozen=True, kw_only=True):
    """The last known state of an earlier Job. `phase` is empty before its start."""

    name: str = ""
    uid: str = ""
    phase: str = ""
    gone: bool = False
    indexes: str = ""


class AfterStatus(Wire, frozen=True, kw_only=True):
    met: bool = False
    jobs: tuple[AfterJob, ...] = ()


class JobStatus(Wire, frozen=True, kw_only=True):
    state: JobState = JobState()
    min_available: int = 0
    task_status_count: Mapping[str, TaskState] = {}
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    version: int = 0
    retry_count: int = 0
    start_time: str | None = None
    after: tuple[AfterStatus, ...] = ()
    restart_time: str | None = None
    running_duration: str | None = None
    controlled_resources: Mapping[str, str] = {}
    conditions: tuple[JobCondition, ...] = ()
    observed_generation: int = 0
    tracked_pods: TrackedPods = TrackedPods()
    delayed_actions: tuple[DelayedAction, ...] = ()
    last_command: str = ""
    unknown_pod_group: str = ""
    waiting: JobWaiting | None = None
    outputs: tuple[PodOutput, ...] = ()
    outputs_omitted: str = ""
    arrays: Mapping[str, ArrayStatus] = {}
    failed_pods: int = 0


class Job(ObjectRecord, frozen=True, kw_only=True):
    ESSENTIAL: ClassVar = ("spec", "status.state", "status.version", "status.retryCount")

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class TemplateMeta(Wire, frozen=True, kw_only=True):
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class JobTemplateSpec(Wire, frozen=True, kw_only=True):
    """The template of a CronJob's Jobs; `spec` is raw JSON, empty when absent."""

    metadata: TemplateMeta = TemplateMeta()
    spec: msgspec.Raw = msgspec.Raw()


class CronJobSpec(Wire, frozen=True, kw_only=True):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: enums.ConcurrencyPolicy = enums.ConcurrencyPolicy.ALLOW
    suspend: bool = False
    job_template: JobTemplateSpec = JobTemplateSpec()
    successful_jobs_history_limit: int = 3
    failed_jobs_history_limit: int = 1


class ObjectReference(Wire, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class CronJobStatus(Wire, frozen=True, kw_only=True):
    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(ObjectRecord, frozen=True, kw_only=True):
    ESSENTIAL: ClassVar = ("spec", "status")

    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()


class Command(ObjectRecord, frozen=True, kw_only=True):
    """A single instruction to a controller. `action` is any text in JSON."""

    ESSENTIAL: ClassVar = ("action", "target")

    action: str = ""
    target: OwnerReference | None = None
    reason: str = ""
    message: str = ""

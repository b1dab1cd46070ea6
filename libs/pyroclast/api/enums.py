"""The closed vocabularies of the API, spelled as in JSON.

They are separate from the models, because the pure packages need the words without the schemas.
"""

from __future__ import annotations

from enum import StrEnum


class BusEvent(StrEnum):
    """Occurrences of a Job. A policy may name all of them except the internal ones (`is_internal`)."""

    ANY = "*"
    POD_PENDING = "PodPending"
    POD_RUNNING = "PodRunning"
    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    UNKNOWN = "Unknown"
    TASK_COMPLETED = "TaskCompleted"
    OUT_OF_SYNC = "OutOfSync"
    COMMAND_ISSUED = "CommandIssued"
    JOB_UPDATED = "JobUpdated"
    TASK_FAILED = "TaskFailed"

    @property
    def is_internal(self) -> bool:
        """Whether admission refuses a policy for this occurrence (`*` does not match it either)."""
        return self in _INTERNAL_EVENTS


_INTERNAL_EVENTS = frozenset({BusEvent.POD_RUNNING, BusEvent.OUT_OF_SYNC, BusEvent.COMMAND_ISSUED})


class Action(StrEnum):
    """Actions that a policy, a Command or the controller itself may request."""

    ABORT_JOB = "AbortJob"
    RESTART_JOB = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    RESTART_PARTITION = "RestartPartition"
    TERMINATE_JOB = "TerminateJob"
    COMPLETE_JOB = "CompleteJob"
    RESUME_JOB = "ResumeJob"
    SYNC_JOB = "SyncJob"
    ENQUEUE_JOB = "EnqueueJob"
    SYNC_QUEUE = "SyncQueue"
    OPEN_QUEUE = "OpenQueue"
    CLOSE_QUEUE = "CloseQueue"
    SYNC_JOB_FLOW = "SyncJobFlow"
    SYNC_JOB_TEMPLATE = "SyncJobTemplate"

    @property
    def is_for_policies(self) -> bool:
        """Whether a policy of a Job may name this action."""
        return self in _POLICY_ACTIONS


_POLICY_ACTIONS = frozenset(
    {
        Action.ABORT_JOB,
        Action.RESTART_JOB,
        Action.RESTART_TASK,
        Action.RESTART_POD,
        Action.RESTART_PARTITION,
        Action.TERMINATE_JOB,
        Action.COMPLETE_JOB,
        Action.RESUME_JOB,
    }
)


class JobPhase(StrEnum):
    """Phases of a Job. NEW is the absent phase of a Job that its controller has not reconciled yet."""

    NEW = ""
    PENDING = "Pending"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"

    @property
    def is_finished(self) -> bool:
        """Whether the Job has ended for good, so that its TTL runs. An aborted Job has not, since it may be resumed."""
        return self in _FINISHED_PHASES


_FINISHED_PHASES = frozenset({JobPhase.COMPLETED, JobPhase.TERMINATED, JobPhase.FAILED})


class JobReason(StrEnum):
    """Why a Job entered its phase: `status.state.reason`."""

    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    POD_PENDING = "PodPending"
    TASK_FAILED = "TaskFailed"
    TASK_COMPLETED = "TaskCompleted"
    COMMAND_ISSUED = "CommandIssued"
    UNKNOWN = "Unknown"
    JOB_UPDATED = "JobUpdated"
    MIN_AVAILABLE_REACHED = "MinAvailableReached"
    MIN_SUCCESS_REACHED = "MinSuccessReached"
    MIN_SUCCESS_NOT_REACHED = "MinSuccessNotReached"
    TASK_MIN_AVAILABLE_NOT_REACHED = "TaskMinAvailableNotReached"
    ALL_TASKS_FINISHED = "AllTasksFinished"
    MAX_RETRY_REACHED = "MaxRetryReached"
    REQUEUE_LIMIT_REACHED = "RequeueLimitReached"
    PODS_RELEASED = "PodsReleased"
    VOLUME_CLAIM_NOT_FOUND = "VolumeClaimNotFound"
    NOT_ENOUGH_PODS = "NotEnoughPods"
    RUN_TIME_LIMIT = "RunTimeLimit"
    DRIVER_GONE = "DriverGone"
    DEADLINE = "DeadlineExceeded"
    SUSPENDED = "Suspended"
    WAITS_FOR_JOB = "WaitsForJob"
    DEPENDENCY_NEVER_SATISFIED = "DependencyNeverSatisfied"
    MAX_FAILED_PODS = "MaxFailedPodsExceeded"
    MAX_FAILURES = "MaxFailuresExceeded"


class JobEventReason(StrEnum):
    """Reasons of the Events that the job controller records on a Job, or on pods without a Job."""

    COMMAND_ISSUED = "CommandIssued"
    PLUGIN_ERROR = "PluginError"
    PVC_ERROR = "PVCError"
    POD_GROUP_ERROR = "PodGroupError"
    POD_GROUP_PENDING = "PodGroupPending"
    EXECUTE_ACTION = "ExecuteAction"
    JOB_STATUS_ERROR = "JobStatusError"
    FAILED_CREATE = "FailedCreate"
    FAILED_DELETE = "FailedDelete"
    POD_REJECTED = "PodRejected"
    QUEUE_NOT_TAKEN = "QueueNotTaken"
    VARIABLE_LEFT_OUT = "VariableLeftOut"
    NO_SCHEDULER = "NoScheduler"
    SCHEDULING_TAKEN_OVER = "SchedulingTakenOver"
    POD_GROUP_NOT_PUBLISHED = "PodGroupNotPublished"
    SUSPENDED = "Suspended"


class PodPhase(StrEnum):
    """Phases of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class PodGroupPhase(StrEnum):
    """Phases of a PodGroup. An absent phase means PENDING."""

    PENDING = "Pending"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    INQUEUE = "Inqueue"
    COMPLETED = "Completed"


class DisruptionReason(StrEnum):
    """Why the scheduler deletes a pod: reasons of the pod's condition DisruptionTarget."""

    PREEMPTION = "PreemptionByScheduler"
    GANG_RELEASED = "GangReleased"


class NativeConditionType(StrEnum):
    """Condition types of native PodGroups and CompositePodGroups; `QUEUED` and `WAITING` are Pyroclast's own."""

    INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
    COMPOSITE_SCHEDULED = "CompositePodGroupInitiallyScheduled"
    DISRUPTION_TARGET = "DisruptionTarget"
    QUEUED = "pyroclast.dev/Queued"
    WAITING = "pyroclast.dev/Waiting"


class NativeConditionReason(StrEnum):
    """Condition reasons of native PodGroups; while `Queued` is true, its reasons are those of `PendingReason`."""

    SCHEDULED = "Scheduled"
    UNSCHEDULABLE = "Unschedulable"
    SCHEDULER_ERROR = "SchedulerError"
    INVALID = "Invalid"
    PREEMPTION = "PreemptionByScheduler"
    ADMITTED = "Admitted"


class PodGroupConditionType(StrEnum):
    """Types of a PodGroup's conditions."""

    UNSCHEDULABLE = "Unschedulable"
    SCHEDULED = "Scheduled"


class PodGroupConditionReason(StrEnum):
    """Reasons of a PodGroup's conditions."""

    NOT_ENOUGH_RESOURCES = "NotEnoughResources"
    READY = "tasks in gang are ready to be scheduled"
    NOT_ENOUGH_TASKS = "NotEnoughTasks"
    NOT_ENOUGH_PODS_OF_TASK = "NotEnoughPodsOfTask"
    POD_FAILED = "PodFailed"
    POD_DELETED = "PodDeleted"


class QueueState(StrEnum):
    """States of a Queue. An absent state means OPEN."""

    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"


class DequeueStrategy(StrEnum):
    """Whether jobs behind a job that does not fit may be scheduled before it."""

    FIFO = "fifo"
    TRAVERSE = "traverse"


class FlowPhase(StrEnum):
    """Phases of a JobFlow. NEW is the absent phase."""

    NEW = ""
    SUCCEED = "Succeed"
    TERMINATING = "Terminating"
    FAILED = "Failed"
    RUNNING = "Running"
    PENDING = "Pending"


class EntryPhase(StrEnum):
    """Phases of an entry of a flow beyond the phases of its Job: `status.conditions[].phase`."""

    WAITING = "Waiting"
    SKIPPED = "Skipped"
    RETRYING = "Retrying"


class FlowReason(StrEnum):
    """Why an entry of a flow waits, was skipped, or is in its phase: `status.conditions[].reason`."""

    DEPENDENCIES = "DependenciesNotMet"
    CHOICE_OPEN = "ChoiceNotMade"
    UNKNOWN_TARGET = "UnknownTarget"
    CYCLE = "Cycle"
    TEMPLATE_NOT_FOUND = "TemplateNotFound"
    JOB_NAME_TAKEN = "JobNameTaken"
    PATCH_INVALID = "PatchInvalid"
    JOB_REFUSED = "JobRefused"
    EXPRESSION_FAILED = "ExpressionFailed"
    STARTING = "Starting"
    JOB_DELETED = "JobDeleted"
    FLOW_FAILED = "FlowFailed"
    BACKOFF = "Backoff"
    SUSPENDED = "Suspended"
    LOOP = "Loop"
    LOOP_TOO_LONG = "LoopTooLong"
    CHOICE_MADE = "ChoiceMade"
    NOT_CHOSEN = "NotChosen"
    CONDITION_FALSE = "ConditionFalse"
    TARGETS_SKIPPED = "TargetsSkipped"
    TARGET_FAILED = "TargetFailed"


class AfterKind(StrEnum):
    """The kinds of Jobs for which a Job may wait."""

    JOB = "Job"
    BATCH_JOB = "BatchJob"


class AfterCondition(StrEnum):
    """What a Job must reach so that another Job may start."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ENDED = "Ended"
    STARTED = "Started"


class AfterIndex(StrEnum):
    """Which index of another array an index waits for."""

    SAME = "same"


class AfterPolicy(StrEnum):
    """What happens to a Job whose `after` can never be satisfied."""

    FAIL = "Fail"
    WAIT = "Wait"


class TimeoutPolicy(StrEnum):
    """What happens to a Job at the end of its time."""

    FAIL = "Fail"
    REQUEUE = "Requeue"


class FailurePolicy(StrEnum):
    """What happens to the other Jobs of a JobFlow that has failed."""

    CONTINUE = "Continue"
    CANCEL = "Cancel"


class RetainPolicy(StrEnum):
    """What happens to the Jobs of a JobFlow that has succeeded."""

    RETAIN = "retain"
    DELETE = "delete"


class TargetStrategy(StrEnum):
    """How many targets of a flow entry must be satisfied."""

    ALL = "all"
    ANY = "any"


class ConcurrencyPolicy(StrEnum):
    """What a CronJob does when its last Job still runs."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class Iteration(StrEnum):
    """How many of the tasks on which a task depends must be ready."""

    ANY = "any"
    ALL = "all"


class NumaPolicy(StrEnum):
    """NUMA policy of a task."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


class NetworkTopologyMode(StrEnum):
    """Whether pods of a group may be placed beyond its topology limit."""

    HARD = "hard"
    SOFT = "soft"


class MemberType(StrEnum):
    """Type of a HyperNode's member."""

    NODE = "Node"
    HYPER_NODE = "HyperNode"


class SplitMode(StrEnum):
    """How a HyperJob is divided among clusters."""

    STATIC = "static"
    AUTO = "auto"

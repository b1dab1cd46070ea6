"""A Job with its PodGroup and the cause for which it waits, on which every view of Jobs is based."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pyroclast.api import waiting_reasons as pending
from pyroclast.api.enums import JobPhase, JobReason
from pyroclast.api.schedulers import SILENT_SECONDS, Schedulers
from pyroclast.api.types import JOBS
from pyroclast.api.waiting_codes import TOLD_BY_SCHEDULER, says_never
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.views.readable import main_resources

Group = Mapping[str, Any]

WAITS: Final = "waits: "
"""The beginning of a Job's message that says why the Job waits."""

BESIDE: Final = f"; {WAITS}"
"""What stands between the message of a Job that runs and its trouble."""

_ENDS: Final = frozenset(phase for phase in JobPhase if phase.is_finished)

_WAITING_PHASES: Final = frozenset({JobPhase.PENDING, JobPhase.ABORTED, JobPhase.ABORTING, ""})


@dataclass(frozen=True, slots=True)
class WaitingCause:
    """The cause for which a Job waits, as it stands in the objects. `sentence` does not contain the code.

    `is_final`: whether waiting alone does not help. `since`: when the cause began, as an API timestamp.
    """

    code: str
    sentence: str
    since: str
    is_final: bool = False

    @property
    def is_scheduling(self) -> bool:
        """Whether the scheduler finds this cause, and knows more and newer facts of it than the objects."""
        return self.code in TOLD_BY_SCHEDULER or self.code == PendingReason.NOT_EXAMINED


@dataclass(frozen=True, slots=True)
class Waiter:
    """A Job, a Job that its flow has not created yet, or a native PodGroup: one record for lists and explanations.

    Attributes:
        object: the kind.
        created: its creation, for an entry of a flow that of the flow, as an API timestamp.
        cause: why it waits. None when it does not wait.
        sentence: what it does instead of waiting.
        queue, priority, pods: None when unknown.
        asks: the requests of the pods that must start together.
        phase: the phase of the Job.
        since: when the present state began, as an API timestamp.
        group: the PodGroup, with what the scheduler wrote on it.
        job: the Job itself. Empty for anything else.
    """

    object: str
    namespace: str
    name: str
    created: str
    cause: WaitingCause | None
    sentence: str = ""
    queue: str | None = None
    priority: str | None = None
    pods: int | None = None
    asks: Mapping[str, str] = field(default_factory=dict)
    phase: str = ""
    since: str = ""
    group: Group | None = None
    job: Mapping[str, Any] = field(default_factory=dict)


def is_waiting(job: Mapping[str, Any]) -> bool:
    """Whether a Job has not started, or was suspended. A deleted Job, or one whose pods all succeeded, does not wait."""
    return _state(job).get("phase", "") in _WAITING_PHASES and not (_deletion(job) or _success(job))


def _at_rest(job: Mapping[str, Any]) -> str:
    """Return what a Job that does not wait does instead, with the cause of its end."""
    state = _state(job)
    phase, message = str(state.get("phase", "")), str(state.get("message", ""))
    if told := _deletion(job) or _success(job):
        return told
    if phase in _ENDS:
        return f"it is {phase} since {state.get('lastTransitionTime') or 'an unknown time'}{f': {message}' if message else ''}"
    delayed = message.partition(BESIDE)[2]
    return f"it is {phase}: {delayed}" if pending.DUE in delayed else f"it is {phase} and does not wait"


def _deletion(job: Mapping[str, Any]) -> str:
    """Return why a deleted Job still exists; empty for other Jobs."""
    meta = job["metadata"]
    if not (at := meta.get("deletionTimestamp")):
        return ""
    held = ", ".join(meta.get("finalizers") or ())
    return f"it is being deleted since {at}" + (f", and stays until its finalizers are removed: {held}" if held else "")


def _success(job: Mapping[str, Any]) -> str:
    """Return that all pods of a Job have succeeded while its phase does not show this yet; empty for other Jobs."""
    state, status = _state(job), job.get("status") or {}
    total = pods_of(job)
    if state.get("phase", "") not in {"", JobPhase.PENDING, JobPhase.RUNNING} or not 0 < total <= int(
        status.get("succeeded") or 0
    ):
        return ""
    delayed = str(state.get("message", "")).partition(BESIDE)[2]
    what = delayed if pending.DUE in delayed else "the job controller has not ended it yet"
    return f"all {total} pods have succeeded; {what}"


def waiting_cause(job: Mapping[str, Any], group: Mapping[str, Any] | None, *, absence: str = "") -> WaitingCause:
    """Return the cause of the earliest stage.

    A code in the objects is used as it is; without a code, the cause follows from what is missing. `absence`: why no scheduler
    places the pods of the Job; empty when a scheduler does, or when that is unknown.
    """
    state, created = _state(job), job["metadata"].get("creationTimestamp", "")
    since = state.get("lastTransitionTime") or created
    phase, message = state.get("phase", ""), state.get("message", "")
    if phase in {JobPhase.ABORTED, JobPhase.ABORTING}:
        return WaitingCause(PendingReason.SUSPENDED, f"it was suspended: {message}" if message else "it was suspended", since)
    if state.get("reason") == JobReason.VOLUME_CLAIM_NOT_FOUND:
        return WaitingCause(PendingReason.CLAIM_MISSING, message, since)
    condition = _condition(group)
    last = "" if condition is None else pending.summary_of(condition.get("message", ""))
    stored = _coded(message.removeprefix(WAITS), since) if message.startswith(WAITS) else None
    is_placed = (group.get("status") or {}).get("phase") == "Running" if group is not None else False
    if absence and not is_placed and (stored is None or stored.code != PendingReason.PODS_REFUSED):
        return WaitingCause(PendingReason.NO_SCHEDULER, pending.silent(absence, last), created)
    if stored is not None:
        return stored
    if condition is not None:
        return _coded(last, condition.get("lastTransitionTime") or since)
    if is_placed:
        return WaitingCause(PendingReason.STARTING, _starting(job), since)
    return WaitingCause(PendingReason.NOT_EXAMINED, "the scheduler has not looked at it since it came or changed", since)


def group_cause(group: Group) -> WaitingCause:
    """Return the cause for which a PodGroup of Volcano without a Job waits."""
    condition, created = _condition(group), str(group["metadata"].get("creationTimestamp") or "")
    if condition is None:
        return WaitingCause(PendingReason.NOT_EXAMINED, "the scheduler has not looked at it since it came or changed", created)
    return _coded(pending.summary_of(condition.get("message", "")), condition.get("lastTransitionTime") or created)


def running_cause(job: Mapping[str, Any]) -> WaitingCause | None:
    """Return the problem of a Job that has not ended: crashing containers, refused pods, a silent node; None without one."""
    state = _state(job)
    message = state.get("message", "").partition(BESIDE)[2] if state.get("phase") not in _ENDS else ""
    is_cause = message and pending.DUE not in message and not (_deletion(job) or _success(job))
    return _coded(message, state.get("lastTransitionTime") or "") if is_cause else None


def _coded(message: str, since: str) -> WaitingCause:
    code, _, sentence = message.partition(": ")
    if code not in set(PendingReason):
        return WaitingCause(PendingReason.PODS_REFUSED, message, since)
    return WaitingCause(PendingReason(code), sentence, since, is_final=says_never(sentence))


def _starting(job: Mapping[str, Any]) -> str:
    """Return how many pods of the Job run. A Job is Running once as many pods run as its gang needs."""
    running = int((job.get("status") or {}).get("running") or 0)
    total = pods_of(job)
    return f"its pods have their nodes, and {running} of {total} {'runs' if running == 1 else 'run'}: containers are starting"


def _condition(group: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    conditions = ((group or {}).get("status") or {}).get("conditions") or ()
    codes = set(PendingReason)
    return next(
        (each for each in conditions if each.get("status") == "True" and pending.reason_of(each.get("message", "")) in codes),
        None,
    )


def _state(job: Mapping[str, Any]) -> Mapping[str, Any]:
    return (job.get("status") or {}).get("state") or {}


def pods_of(job: Mapping[str, Any]) -> int:
    """Return the number of pods that `job` has in all."""
    tasks = (job.get("spec") or {}).get("tasks") or ()
    if any(task.get("array") for task in tasks):
        from pyroclast.rules.jobs.arrays import number_of_pods  # noqa: PLC0415 - imports all rules of Jobs, for arrays alone

        return sum(number_of_pods(task) if task.get("array") else int(task.get("replicas", 1)) for task in tasks)
    return sum(int(task.get("replicas", 1)) for task in tasks)


def phase_of(job: Mapping[str, Any]) -> str:
    """Return the phase of a Job or of a flow; empty before the first reconciliation."""
    return str(_state(job).get("phase", ""))


JUDGED_SECONDS: Final = SILENT_SECONDS + 5
"""Seconds after which the job controller has reported a missing scheduler."""
WAITING_PHASES: Final = frozenset({"", "Pending", "Inqueue"})
"""Phases of PodGroups that are not allocated yet."""


def groups_by_owner(groups: Iterable[Group]) -> dict[str, Group]:
    """Return the PodGroups of Jobs, by the Job's UID."""
    return {
        owner["uid"]: group
        for group in groups
        for owner in group["metadata"].get("ownerReferences") or ()
        if owner.get("kind") == JOBS.kind
    }


def seconds_since(timestamp: str, now: float) -> int:
    """Return whole seconds from an API timestamp to `now` (seconds since the epoch); 0 for a future timestamp."""
    return max(0, int(now - datetime.fromisoformat(timestamp).timestamp()))


def waiter_of(job: Mapping[str, Any], group: Group | None, schedulers: Schedulers | None) -> Waiter:
    """Return one Job, with its PodGroup if that exists. `schedulers`: the schedulers that lead; None when unknown."""
    meta, spec, waits = job["metadata"], job.get("spec") or {}, is_waiting(job)
    created = str(meta.get("creationTimestamp") or "")
    return Waiter(
        JOBS.qualified,
        str(meta["namespace"]),
        str(meta["name"]),
        created,
        waiting_cause(job, group, absence=absence_of(job, schedulers)) if waits else None,
        sentence="" if waits else _at_rest(job),
        queue=str(spec.get("queue") or "default"),
        priority=spec.get("priorityClassName") or None,
        pods=pods_of(job),
        asks=main_resources(((group or {}).get("spec") or {}).get("minResources") or {}),
        phase=phase_of(job),
        since=_state(job).get("lastTransitionTime") or created,
        group=group,
        job=job,
    )


def absence_of(job: Mapping[str, Any], schedulers: Schedulers | None) -> str:
    """Return why no scheduler places the pods of a Job, of the first of its schedulers that does not lead; empty if all lead.

    A scheduler may work without a Lease, which only its pods show. After a while, the job controller has checked the pods, and
    its message is used.
    """
    if schedulers is None:
        return ""
    spec = job.get("spec") or {}
    own = spec.get("schedulerName") or ""
    templates = ((task.get("template") or {}).get("spec") or {} for task in spec.get("tasks") or ())
    names = dict.fromkeys(filter(None, (template.get("schedulerName") or own for template in templates)))
    message = str(((job.get("status") or {}).get("state") or {}).get("message", ""))
    is_judged = message.startswith(WAITS) and seconds_since(job["metadata"]["creationTimestamp"], schedulers.at) > JUDGED_SECONDS
    absences = (schedulers.absence(name) for name in names if schedulers.is_known(name) or not is_judged)
    return next(filter(None, absences), "")

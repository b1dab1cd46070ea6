"""Why a Job waits: the reason and message of `status.state`, `status.waiting`, the Events about it, and when to look again.

The causes come from the queue, the claims, the schedulers, the PodGroup and the containers of placed pods. They stand in one
module, so that the message, the code and the Event of one cause agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from pyroclast.api import keys
from pyroclast.api import waiting_reasons as pending
from pyroclast.api.enums import JobEventReason, JobPhase, JobReason, PodGroupConditionType, PodGroupPhase, QueueState
from pyroclast.api.records import Job, JobStatus, JobWaiting, Pod, PodGroup, Task
from pyroclast.api.schedulers import SILENT_SECONDS
from pyroclast.api.waiting import read_waiting
from pyroclast.api.waiting_codes import says_never
from pyroclast.api.waiting_reasons import PendingReason, reason_of
from pyroclast.lifecycle.effects import Notice, warning
from pyroclast.lifecycle.gang import members, podgroups, pods
from pyroclast.lifecycle.job import holds, preparation, status
from pyroclast.lifecycle.job.facts import JobFacts
from pyroclast.lifecycle.job.job_events import Response
from pyroclast.lifecycle.times import format_time, parse_time

_PREFIX: Final = "waits: "
"""The prefix of the messages of this module. By this prefix, `explained` finds the messages that it must remove."""

_CURRENT: Final = frozenset(PendingReason)
"""The reasons of conditions that are True only while they apply. Conditions with other reasons stay True afterwards."""

_BESIDE: Final = "; waits: "
"""The separator between the message of the phase of a running Job and a message of this module."""


def explained(
    facts: JobFacts, following: JobStatus, due: Response | None = None, cut_off: Mapping[str, str] | None = None
) -> JobStatus:
    """Return `following` with the reason and the message for which the Job waits; an outdated message is removed.

    `due`: the delayed response for which a running Job without unfinished pods waits; None when there is none. `cut_off`: why
    tasks can never start, by task; None when all can.
    """
    state = following.state
    if state.phase in _HANGING:
        before, problem = state.message.partition(_BESIDE)[0], hanging(facts)
        return status.entering(following, state.phase, state.reason, f"{before}{_BESIDE}{problem}" if problem else before)
    if state.phase is JobPhase.RUNNING:  # refusals and stuck containers follow the message of the phase
        before = state.message.partition(_BESIDE)[0]
        delayed = f"{due.occurrence}; {due.action}{pending.DUE}{format_time(due.due)}" if due is not None else ""
        never = next((f"{PendingReason.WAITS_FOR_TASK}: never: {why}" for why in (cut_off or {}).values()), "")
        problem = facts.memory.refused or delayed or never or holds.pause(facts) or hanging(facts) or _stuck(facts)
        return status.entering(following, state.phase, state.reason, f"{before}{_BESIDE}{problem}" if problem else before)
    cause = _cause(facts) if state.phase is JobPhase.PENDING else None
    if cause is not None:
        return status.entering(following, state.phase, *cause)
    said = state.reason == JobReason.VOLUME_CLAIM_NOT_FOUND or state.message.startswith(_PREFIX)
    return status.entering(following, state.phase, "", "") if said else following


_HANGING: Final = frozenset({JobPhase.RESTARTING, JobPhase.ABORTING, JobPhase.COMPLETING, JobPhase.TERMINATING})
"""Phases in which a Job waits for pods to go."""


def hanging(facts: JobFacts) -> str:
    """Return `NodeSilent: …` when a pod that has not ended is on a node that does not answer; else empty."""
    if not facts.silent_nodes:
        return ""
    lost = [
        pod for pod in facts.pods.by_name.values() if pod.spec.node_name in facts.silent_nodes and not members.is_finished(pod)
    ]
    if not lost:
        return ""
    first = min(lost, key=lambda pod: pod.metadata.name)
    node, more = first.spec.node_name, f" and {len(lost) - 1} more pods" if len(lost) > 1 else ""
    going = ", which is being deleted," if first.metadata.is_terminating else ""
    return (
        f"{PendingReason.NODE_SILENT}: pod {first.metadata.name}{going} is on node {node}{more}; the node does not answer since"
        f" {facts.silent_nodes[node]}"
    )


def hangs(last: JobStatus) -> bool:
    """Whether the message of `last` names a silent node."""
    return f"{_BESIDE}{PendingReason.NODE_SILENT}: " in last.state.message


def without_hanging(message: str) -> str:
    """Return the message of a phase without what it says of a silent node."""
    return message.partition(f"{_BESIDE}{PendingReason.NODE_SILENT}: ")[0]


def closed_queue(facts: JobFacts) -> str:
    """Return `QueueClosed: …` when the queue is closed or closing and the gang is not admitted; else empty."""
    state = facts.queue.status.state if facts.queue else None
    if state not in (QueueState.CLOSED, QueueState.CLOSING) or podgroups.is_admitted(facts.group):
        return ""
    return f"{PendingReason.QUEUE_CLOSED}: {pending.closed_queue(facts.job.spec.queue, state)}"


def missing_claim(name: str) -> str:
    """Return the message about a missing PersistentVolumeClaim, in the words of Volcano."""
    return f"pvc {name} is not found, the job will be in the Pending state until the PVC is created"


def newest_condition(group: PodGroup | None) -> tuple[str, str] | None:
    """Return the type and the message of the newest condition of a gang that is not placed.

    None when the gang is placed or has no condition.
    """
    conditions = [condition for condition in group.status.conditions if condition.status == "True"] if group else []
    current = next((condition for condition in conditions if condition.reason in _CURRENT), None)
    if current is not None:
        return current.type, current.message
    newest = max(conditions, key=lambda condition: condition.last_transition_time or "", default=None)
    if newest is None or newest.type == PodGroupConditionType.SCHEDULED:
        return None
    return newest.type, newest.message


def _cause(facts: JobFacts) -> tuple[JobReason, str] | None:
    """Return the reason and the message for which a pending Job waits; None when no cause is known.

    The first cause that applies is reported. The order is: the Job is held, objects cannot be created, the gang cannot be placed,
    containers do not run.
    """
    if held := holds.hold(facts):
        return (JobReason.SUSPENDED if facts.job.spec.suspend else JobReason.WAITS_FOR_JOB), _PREFIX + held
    if awaited := preparation.examine(facts.job, facts.claims).awaited:
        return JobReason.VOLUME_CLAIM_NOT_FOUND, missing_claim(awaited[0])
    placed = newest_condition(facts.group)
    causes = (
        "" if facts.queue else f"{PendingReason.LEFT_OUT}: {pending.missing_queue(facts.job.spec.queue)}",
        facts.memory.refused,
        absent_scheduler(facts),
        closed_queue(facts),
        pending.summary_of(placed[1]) if placed else "",
        hanging(facts),
        _stuck(facts),
        unexamined(facts),
    )
    message = next(filter(None, causes), "")
    return (JobReason.NOT_ENOUGH_PODS, _PREFIX + message) if message else None


_SUSPENDED: Final = frozenset({JobPhase.ABORTING, JobPhase.ABORTED})


def with_waiting(facts: JobFacts, following: JobStatus) -> JobStatus:
    """Return `following` with an updated `waiting`; None in this field when the Job does not wait.

    A change of this field alone causes no status write. A new code always comes with a write, because the message of the state
    contains the code.
    """
    return msgspec.structs.replace(following, waiting=_waiting(facts, following))


def _waiting(facts: JobFacts, following: JobStatus) -> JobWaiting | None:
    code, is_never = _code(facts, following)
    if not code:
        return None
    told = _told(facts.group)
    if told is not None and (told.code, told.never) == (code, is_never):
        return told
    last = facts.job.status.waiting
    is_same = last is not None and (last.code, last.never) == (code, is_never)
    since = last.since if last is not None and is_same and last.since else format_time(facts.now)
    return JobWaiting(code=code, never=is_never, since=since)


def _code(facts: JobFacts, following: JobStatus) -> tuple[str, bool]:
    """Return the code, empty when the Job does not wait, and whether the Job can never start by waiting alone."""
    state = following.state
    if state.phase in _SUSPENDED:
        return PendingReason.SUSPENDED, False
    if state.phase not in {JobPhase.PENDING, JobPhase.RUNNING}:
        return "", False
    if state.reason == JobReason.VOLUME_CLAIM_NOT_FOUND:
        return PendingReason.CLAIM_MISSING, False
    if code := reason_of(state.message):
        return code, says_never(state.message.partition(f"{code}: ")[2])
    is_placed = facts.group is not None and facts.group.status.phase is PodGroupPhase.RUNNING
    return (PendingReason.STARTING, False) if is_placed and state.phase is JobPhase.PENDING else ("", False)


def _told(group: PodGroup | None) -> JobWaiting | None:
    """Return the waiting that the annotation of `group` reports; None without a usable annotation."""
    told = None if group is None else read_waiting(group.metadata.annotations.get(keys.WAITING, ""))
    if told is None or told.ahead < 0:
        return None
    fields = {name: getattr(told, name) for name in JobWaiting.__struct_fields__}
    return JobWaiting(**{**fields, "start": tuple(told.start or ())})


PATIENCE_SECONDS: Final = 30.0


def unexamined(facts: JobFacts) -> str:
    """Return `NotExamined: …` when the PodGroup is half a minute old and no scheduler has examined the gang; else empty."""
    if (due := _examination_due(facts)) is None or facts.now < due:
        return ""
    return f"{PendingReason.NOT_EXAMINED}: the scheduler has not looked at it since it came or changed"


def examination_recheck_at(facts: JobFacts) -> float | None:
    """Return the time at which `unexamined` will return another result without any event, in seconds since the epoch.

    None when time alone does not change the result.
    """
    due = _examination_due(facts)
    return due if due is not None and facts.now < due else None


def _examination_due(facts: JobFacts) -> float | None:
    group = facts.group
    waits = facts.job.status.state.phase in (JobPhase.NEW, JobPhase.PENDING)
    if not waits or group is None or group.metadata.is_terminating or not group.metadata.creation_timestamp:
        return None
    if group.status.phase not in (PodGroupPhase.PENDING, PodGroupPhase.INQUEUE) or group.status.conditions:
        return None
    if any(map(_is_examined, facts.pods.by_name.values())):
        return None
    return parse_time(group.metadata.creation_timestamp) + PATIENCE_SECONDS


def _is_examined(pod: Pod) -> bool:
    """Whether a scheduler has examined or bound `pod`."""
    return bool(pod.spec.node_name) or any(each.type == "PodScheduled" for each in pod.status.conditions)


def absent_scheduler(facts: JobFacts) -> str:
    """Return `NoScheduler: …` when the Job has waited for half a minute and no scheduler runs for its pods.

    The text ends with the last cause that a scheduler wrote on the PodGroup. Empty when a scheduler runs for the pods, and when
    the running schedulers are unknown.
    """
    found, placed = next(_absences(facts), ""), newest_condition(facts.group)
    if not found or facts.now < _absence_due(facts):
        return ""
    return f"{PendingReason.NO_SCHEDULER}: {pending.silent(found, pending.parted(placed[1])[1] if placed else '')}"


def absence_recheck_at(facts: JobFacts) -> float | None:
    """Return the time at which `absent_scheduler` will return another result without any event, in seconds since the epoch.

    None when time alone does not change the result.
    """
    return _absence_due(facts) if facts.now < _absence_due(facts) and next(_absences(facts), "") else None


def scheduler_names(facts: JobFacts) -> tuple[str, ...]:
    """Return the distinct names of the schedulers that the pods of the Job request.

    A task without a scheduler name in its pod template uses `spec.schedulerName` of the Job.
    """
    own = facts.job.spec.scheduler_name
    return tuple(dict.fromkeys(_asked_by(task) or own for task in facts.job.spec.tasks))


def _asked_by(task: Task) -> str:
    """Return `schedulerName` of the pod template of `task`; empty when the template has no such field."""
    if b"schedulerName" not in bytes(task.template):  # few templates have the field, and to decode a template takes longer
        return ""
    return str((pods.template_of(task).get("spec") or {}).get("schedulerName") or "")


def _absences(facts: JobFacts) -> Iterator[str]:
    """Yield a sentence for each requested scheduler that does not run; nothing when the Job needs no scheduler now."""
    known = facts.schedulers
    waits = facts.job.status.state.phase in (JobPhase.NEW, JobPhase.PENDING)
    if known is None or not waits or (facts.group is not None and facts.group.status.phase is PodGroupPhase.RUNNING):
        return
    for name in scheduler_names(facts):
        if (absence := known.absence(name)) and (known.is_known(name) or not _is_served_without_lease(facts, name)):
            yield absence


def _is_served_without_lease(facts: JobFacts, name: str) -> bool:
    """Whether a scheduler without a Lease named `name` schedules pods under `name`.

    Such a scheduler runs without leader election, or is one of several profiles of one process. The node and the conditions of
    the pods show that it works. The PodGroup shows it only when `name` is one of our schedulers, because our schedulers
    process PodGroups without pods regardless of the scheduler name.
    """
    mine = [pod for pod in facts.pods.by_name.values() if pod.spec.scheduler_name == name]
    if any(map(_is_examined, mine)):
        return True
    if name not in facts.own_schedulers or facts.group is None:
        return False
    return facts.group.status.phase is not PodGroupPhase.PENDING or bool(facts.group.status.conditions)


def _absence_due(facts: JobFacts) -> float:
    """Return half a minute after the creation of the Job: a scheduler that starts together with the Job is not absent."""
    created = facts.job.metadata.creation_timestamp
    return (parse_time(created) if created else facts.now) + SILENT_SECONDS


_IMAGE_ERRORS: Final = (
    *("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"),
    *("RegistryUnavailable", "SignatureValidationFailed"),
)
_CODES: Final = {
    **dict.fromkeys(_IMAGE_ERRORS, PendingReason.IMAGE_REFUSED),
    "CreateContainerConfigError": PendingReason.VOLUME_NOT_MOUNTED,
    "CrashLoopBackOff": PendingReason.CRASHING,
}
_MOST: Final = 200
_BEFORE_ANSWER: Final = re.compile(
    r'(?:(?:Back-off pulling image "[^"]*"|ErrImagePull|rpc error: code = \w+ desc =|Error response from daemon'
    r'|failed to (?:pull and unpack image|pull image|resolve reference|resolve image|copy) "[^"]*")(?::\s*|\s+|$))+'
)
"""What kubelet and the container runtime write before the answer of the registry."""
_LONGEST_CHAIN: Final = 4096
_WORDS: Final = {
    PendingReason.IMAGE_REFUSED: "an image cannot be pulled",
    PendingReason.VOLUME_NOT_MOUNTED: "a ConfigMap, Secret or volume cannot be used",
    PendingReason.CRASHING: "containers end and are started again",
}


def _stuck(facts: JobFacts) -> str:
    """Return what `stuck` returns, with the answer of the registry that the Job already shows.

    A kubelet before 1.32 reports the answer only while it tries: without this, each try would write the status twice.
    """
    problem = stuck(facts.pods.by_name.values())
    _, found, after = facts.job.status.state.message.partition(problem) if problem else ("", "", "")
    return f"{problem}{after}" if found and after.startswith(": ") else problem


def stuck(pods: Iterable[Pod]) -> str:
    """Return the code and a description of stuck containers; empty when no container is stuck.

    The description has the number of pods, and the container of the first pod by name, for an image also its name and the answer
    of the registry. Times that change with each try are left out.
    """
    found: dict[PendingReason, dict[str, str]] = {}
    for pod in pods:
        images = {each.name: each.image for each in (*pod.spec.init_containers, *pod.spec.containers)}
        for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            waiting = container.state.waiting
            if waiting is not None and (code := _CODES.get(waiting.reason)) is not None:
                details = [f"container {container.name}"]
                if code is PendingReason.IMAGE_REFUSED:
                    details = [f"{details[0]}, image {images.get(container.name, '')[:_MOST]}", _answer(waiting.message)]
                elif code is PendingReason.VOLUME_NOT_MOUNTED:
                    details.append(waiting.message[:_MOST])
                found.setdefault(code, {}).setdefault(pod.metadata.name, ": ".join(filter(None, details)))
    if not found:
        return ""
    code = min(found, key=list(_WORDS).index)
    pod_name, first = min(found[code].items())
    count = len(found[code])
    return f"{code}: {_WORDS[code]} on {count} {'pod' if count == 1 else 'pods'}; {pod_name}, {first}"


def _answer(message: str) -> str:
    """Return why an image was refused, from the message of a container: the end of the chain of causes, which says most."""
    answer = _BEFORE_ANSWER.sub("", message[:_LONGEST_CHAIN], count=1).strip()
    return answer if len(answer) <= _MOST else f"…{answer[-_MOST:]}"


def unscheduled(job: Job, group: PodGroup | None) -> Notice | None:
    """Return the Event about why the gang is not placed; None when the gang is placed, or when no reason is known.

    Either the PodGroup waits for its finalizers while it is being deleted, or its newest condition gives the reason.
    """
    if group is not None and group.metadata.is_terminating and group.metadata.finalizers and not job.metadata.is_terminating:
        held = ", ".join(group.metadata.finalizers)
        message = f"PodGroup {group.key} is being deleted and waits for its finalizers: {held}"
        return warning(JobEventReason.POD_GROUP_PENDING, message)
    newest = newest_condition(group)
    if newest is None:
        return None
    message = f"PodGroup {job.metadata.namespace}:{job.metadata.name} {newest[0].lower()}, reason: {newest[1]}"
    return warning(JobEventReason.POD_GROUP_PENDING, message)


def waiting_notices(facts: JobFacts) -> Iterator[Notice]:
    """Yield Events about the claim, the queue or the scheduler for which a Job waits, although nothing was refused."""
    if holds.hold(facts):
        return
    if facts.job.status.state.phase in (JobPhase.NEW, JobPhase.PENDING):
        if awaited := preparation.examine(facts.job, facts.claims).awaited:
            message = f"Failed to create PVC, err: {missing_claim(awaited[0])}"
            yield warning(JobEventReason.PVC_ERROR, message)
        if absent := absent_scheduler(facts):
            yield warning(JobEventReason.NO_SCHEDULER, absent.partition(": ")[2])
            return
        if closed := closed_queue(facts):
            yield warning(JobEventReason.POD_GROUP_PENDING, closed)
            return
    pending = unscheduled(facts.job, facts.group)
    if pending:
        yield pending

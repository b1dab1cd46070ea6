"""Which of the things that were ordered or happened is answered now, and how long the others can wait."""

from __future__ import annotations

from dataclasses import dataclass

from pyroclast.api import keys
from pyroclast.api.enums import Action, BusEvent, JobReason, PodPhase
from pyroclast.api.records import Pod
from pyroclast.lifecycle import members
from pyroclast.lifecycle.moves import MOVES, Deed
from pyroclast.lifecycle.occurrences import Occurrence, observed
from pyroclast.lifecycle.policies import Response, respond
from pyroclast.lifecycle.views import JobView, Order

__all__ = ["Answer", "Outlook", "consider", "targets"]


@dataclass(frozen=True, slots=True)
class Answer:
    """An action to carry out now, and what asked for it."""

    action: str
    reason: JobReason
    message: str
    cause: Order | Response

    @property
    def was_announced(self) -> bool:
        """Whether users were told of it already, when its time began to run."""
        return isinstance(self.cause, Response) and self.cause.delay > 0


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is to be done now, what later, and what of the remembered occurrences nobody waits for any more."""

    answer: Answer | None = None
    later: tuple[Response, ...] = ()
    forget: frozenset[Occurrence] = frozenset()


def consider(view: JobView) -> Outlook:
    """The outlook of a Job: orders come first, then whatever is due the longest."""
    remembered = view.memory.occurrences
    if MOVES[view.job.status.state.phase][Action.SYNC_JOB].deed is not Deed.SYNC:
        return Outlook(_ordered(view), forget=frozenset(remembered))
    happened = (*remembered, *observed(view.job, view.pods)) if _has_policies(view) else ()
    responses = [response for occurrence in happened if (response := respond(view.job, occurrence))]
    pending = [response for response in responses if not _is_obsolete(response, view)]
    due = [response for response in pending if response.delay == 0 or response.due <= view.now]
    answer = _ordered(view)
    chosen = min(due, key=lambda response: response.due, default=None) if answer is None else None
    if chosen:
        answer = _answer(chosen)
    kept = {response.occurrence for response in pending if not _is_answered(response.occurrence, answer)}
    later = tuple(response for response in pending if response not in due)
    return Outlook(answer, later, frozenset(remembered) - kept)


def targets(answer: Answer, view: JobView) -> list[Pod] | None:
    """The pods that a partial restart is about; None: there is nothing to restart.

    Without a single pod left a task or pod is restarted all the same: its pods have gone and will be made again. A partition is
    not.
    """
    cause = answer.cause.occurrence if isinstance(answer.cause, Response) else None
    match answer.action:
        case Action.RESTART_TASK:
            return [pod for pod in view.pods.values() if cause and members.task_of(pod) == cause.task]
        case Action.RESTART_POD:
            pod = view.pods.get(cause.pod) if cause else None
            return [pod] if pod and cause and pod.metadata.uid == cause.uid else []
        case _:
            return [pod for pod in view.pods.values() if cause and _in_partition(pod, cause)] or None


def _has_policies(view: JobView) -> bool:
    return bool(view.job.spec.policies) or any(task.policies for task in view.job.spec.tasks)


def _ordered(view: JobView) -> Answer | None:
    if not view.memory.orders:
        return None
    order = view.memory.orders[0]
    return Answer(order.action, order.reason, order.message, order)


def _answer(response: Response) -> Answer:
    occurrence = response.occurrence
    return Answer(response.action, JobReason(occurrence.event.value), f"{occurrence}: {response.action} by policy", response)


def _is_obsolete(response: Response, view: JobView) -> bool:
    """Whether a delayed answer to a deletion has become needless: the pod that took the place runs."""
    occurrence = response.occurrence
    pod = view.pods.get(occurrence.pod)
    return (
        response.delay > 0
        and occurrence.event is BusEvent.POD_EVICTED
        and pod is not None
        and pod.status.phase is PodPhase.RUNNING
    )


def _is_answered(occurrence: Occurrence, answer: Answer | None) -> bool:
    """Whether `answer` settles `occurrence` as well: an action on the whole Job settles all, one on a part what concerns that
    part.
    """
    if answer is None:
        return False
    cause = answer.cause.occurrence if isinstance(answer.cause, Response) else None
    match answer.action:
        case Action.RESTART_TASK:
            return cause is not None and occurrence.task == cause.task
        case Action.RESTART_POD:
            return cause is not None and occurrence.pod == cause.pod
        case Action.RESTART_PARTITION:
            return cause is not None and (occurrence.task, occurrence.partition) == (cause.task, cause.partition)
        case _:
            return True


def _in_partition(pod: Pod, cause: Occurrence) -> bool:
    return members.task_of(pod) == cause.task and pod.metadata.labels.get(keys.PARTITION_ID, "") == cause.partition

"""The choice of the action to carry out now, from commands and policies, and the responses that wait for their delay."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from pyroclast.api import keys
from pyroclast.api.enums import Action, BusEvent, JobPhase, JobReason, PodPhase
from pyroclast.api.records import Pod
from pyroclast.lifecycle.gang import members
from pyroclast.lifecycle.gang.plan import Keep
from pyroclast.lifecycle.gang.pods import partition_of
from pyroclast.lifecycle.job import delays, holds, run_time
from pyroclast.lifecycle.job.facts import JobFacts, RequestedAction
from pyroclast.lifecycle.job.job_events import Occurrence, Response, observed, respond
from pyroclast.lifecycle.job.phase_transitions import PhaseWork, has_effect, is_ending, move

_OF_ONE_POD: Final = (BusEvent.POD_EVICTED, BusEvent.POD_FAILED, BusEvent.TASK_FAILED)


@dataclass(frozen=True, slots=True)
class PolicyAction:
    """An action to carry out now, and the command or the policy response that caused the action."""

    action: str
    reason: JobReason
    message: str
    cause: RequestedAction | Response

    @property
    def was_announced(self) -> bool:
        """Whether an Event announced the action already, when its delay began."""
        return isinstance(self.cause, Response) and self.cause.delay > 0


@dataclass(frozen=True, slots=True)
class PendingActions:
    """The action to carry out now, the responses with a remaining delay, and the remembered occurrences to forget."""

    answer: PolicyAction | None = None
    later: tuple[Response, ...] = ()
    forget: frozenset[Occurrence] = frozenset()
    needless: frozenset[Occurrence] = frozenset()
    """The occurrences of `forget` that need no response before the decision; the effects of the decision may change that."""

    def keeps_open(self) -> Response | None:
        """Return the delayed response that is due first and for which the Job must not end; None when the Job may end.

        A response to PodPending does not count, because the end of the Job is the end of the pod's wait.
        """
        lasting = [response for response in self.later if response.occurrence.event is not BusEvent.POD_PENDING]
        return min(lasting, key=lambda response: response.due, default=None)


def pending_actions(facts: JobFacts) -> PendingActions:
    """Return the pending actions of a Job. Requested actions come first, then the response that is due for the longest time."""
    remembered = delays.remembered(facts)
    if is_ending(facts.job.status.state.phase):
        return PendingActions(_ordered(facts), forget=frozenset(remembered))
    if facts.job.status.state.phase is JobPhase.RESTARTING and facts.job.status.retry_count >= facts.job.spec.max_retry:
        return PendingActions(forget=frozenset(remembered))  # the Job fails now, before it takes a further action
    has_policies = facts.job.spec.policies or any(task.policies for task in facts.job.spec.tasks)
    happened = (*remembered, *observed(facts.job, facts.pods, facts.memory.successes)) if has_policies else ()
    known = delays.since(facts) if happened else {}
    responses = [delays.timed(found, known, facts.now) for each in happened if (found := respond(facts.job, each))]
    meant = [response for response in responses if has_effect(JobPhase.RUNNING, response.action)]  # the other actions do nothing
    pending = [response for response in meant if not _is_obsolete(response, facts)]
    due = [response for response in pending if _is_due(response, facts)]
    answer = _ordered(facts)
    if answer is None and due:
        chosen = min(due, key=lambda response: response.due)
        message = f"{chosen.occurrence}: {chosen.action} by policy"
        answer = PolicyAction(chosen.action, JobReason(chosen.occurrence.event.value), message, chosen)
    kept = {response.occurrence for response in pending if not _is_answered(response.occurrence, answer)}
    later = tuple(response for response in pending if response.occurrence in kept and response not in due)
    needless = frozenset(remembered) - {response.occurrence for response in pending}
    return PendingActions(answer, later, frozenset(remembered) - kept, needless)


def targets(answer: PolicyAction, facts: JobFacts) -> tuple[Pod, ...] | None:
    """Return the pods of a partial restart; None when there is nothing to restart.

    The restart of a task or pod without existing pods returns an empty tuple, because the pods will be created again. A partition
    without pods is not restarted.
    """
    cause = answer.cause.occurrence if isinstance(answer.cause, Response) else None
    match answer.action:
        case Action.RESTART_TASK:
            return facts.pods.where(lambda state: cause is not None and state.task == cause.task)
        case Action.RESTART_POD:
            pod = facts.pods.by_name.get(cause.pod) if cause else None
            return (pod,) if pod and cause and pod.metadata.uid == cause.uid else ()
        case _:
            return (_partition(facts, cause) if cause else None) or None


def runs_again(answer: PolicyAction, facts: JobFacts) -> Mapping[str, Collection[int]]:
    """Return the indexes by task of deleted pods that had succeeded and that `answer` runs again."""
    cell = move(facts.job.status.state.phase, answer.action)
    if cell.work is PhaseWork.RELEASE:
        return facts.pods.gone if cell.keep is Keep.NONE else {}
    cause = answer.cause.occurrence if isinstance(answer.cause, Response) else None
    task = next((task for task in facts.job.spec.tasks if cause is not None and task.name == cause.task), None)
    if cell.work is not PhaseWork.RELEASE_PART or cause is None or task is None:
        return {}
    gone = facts.pods.gone.get(task.name, frozenset())
    if answer.action == Action.RESTART_POD:
        gone = gone.intersection((members.place_of(facts.job.metadata.name, cause.pod)[1],))
    elif answer.action == Action.RESTART_PARTITION:
        gone = frozenset(index for index in gone if partition_of(task, index) == cause.partition)
    return {task.name: gone} if gone else {}


def _ordered(facts: JobFacts) -> PolicyAction | None:
    """Return the oldest action of a Command or of the controller; else the action for a suspension or an ended time."""
    order = facts.orders[0] if facts.orders else holds.suspension(facts) or run_time.action(facts)
    if order is None:
        return None
    return PolicyAction(order.action, order.reason, order.message, order)


def _is_due(response: Response, facts: JobFacts) -> bool:
    return response.delay == 0 or response.due <= facts.now


def _is_obsolete(response: Response, facts: JobFacts) -> bool:
    """Whether `response` is not needed any more.

    A due restart of a partition is obsolete when the partition has no pods. A delayed response to a failure or deletion is
    obsolete when a replacement pod runs. A delayed response to a failure is also obsolete when the Job was scaled down below the
    index of the pod.
    """
    occurrence = response.occurrence
    if response.action == Action.RESTART_PARTITION and _is_due(response, facts) and not _partition(facts, occurrence):
        return True
    if response.delay == 0 or occurrence.event not in _OF_ONE_POD:
        return False
    pod = facts.pods.by_name.get(occurrence.pod)
    if pod is None:
        return occurrence.event is not BusEvent.POD_EVICTED and not _has_place(facts, occurrence)
    is_another = occurrence.event is BusEvent.POD_EVICTED or pod.metadata.uid != occurrence.uid
    return is_another and pod.status.phase in (PodPhase.RUNNING, PodPhase.SUCCEEDED)


def _has_place(facts: JobFacts, occurrence: Occurrence) -> bool:
    """Whether the spec of the Job has a pod with the name of the occurrence's pod."""
    task = next((task for task in facts.job.spec.tasks if task.name == occurrence.task), None)
    index = occurrence.pod.rpartition("-")[2]
    return task is not None and index.isdecimal() and int(index) < task.replicas


def _is_answered(occurrence: Occurrence, answer: PolicyAction | None) -> bool:
    """Whether `answer` is a response to `occurrence` as well.

    An action on the whole Job is a response to all occurrences. An action on a task, pod or partition is a response to the
    occurrences of that task, pod or partition.
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


def _partition(facts: JobFacts, cause: Occurrence) -> tuple[Pod, ...]:
    """Return the pods of the partition in which `cause` happened; empty when the task has no partitions."""
    has_partitions = any(task.name == cause.task and task.partition_policy for task in facts.job.spec.tasks)
    of_task = facts.pods.where(lambda state: has_partitions and state.task == cause.task)
    return tuple(pod for pod in of_task if pod.metadata.labels.get(keys.PARTITION_ID) == cause.partition)

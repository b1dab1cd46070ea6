"""Lifecycle of a Job, pure: what is to be done, given all that is known of it. No I/O, no clock, no randomness.

A phase is entered by a write of the status alone, which raises the version where pods of before must not come back; the work of
a phase (releasing pods, giving up the PodGroup, removing plugin objects) is done in the phase, from what is seen there. So a
crash at any point leaves a state from which the same work follows again.
"""

from __future__ import annotations

import dataclasses

import msgspec

from pyroclast.api.enums import Action, JobEventReason, JobPhase, JobReason, PodPhase
from pyroclast.api.records import JobStatus, Pod
from pyroclast.lifecycle import answers, members, plan, podgroups, preparation, status, volumes
from pyroclast.lifecycle.answers import Answer
from pyroclast.lifecycle.counts import Counts, count
from pyroclast.lifecycle.effects import DeleteGroup, DeletePods, Effect, MarkPods, RemovePlugins
from pyroclast.lifecycle.moves import Deed, Keep, Move, move
from pyroclast.lifecycle.settling import Change, min_available, settle
from pyroclast.lifecycle.views import Decision, JobView, Notice, Order

__all__ = ["decide"]

_ENDS = frozenset({JobPhase.COMPLETED, JobPhase.FAILED})


def decide(view: JobView, *, idle: bool = False) -> Decision:
    """What to do about the Job of `view`.

    Deciding twice on the same facts gives the same answer, so a restart between deciding and acting loses nothing. `idle`:
    acting has just failed; only the status is asked for, as far as the facts carry it.
    """
    if view.job.metadata.is_terminating:
        return Decision(forget=frozenset(view.memory.occurrences))  # its owner references clean up
    outlook = answers.consider(view)
    decision = _carry_out(view, outlook.answer) if outlook.answer and not idle else None
    if decision is None:
        decision = _keep_up(view, idle=idle)
    order = outlook.answer.cause if outlook.answer and isinstance(outlook.answer.cause, Order) else None
    waits = min((response.due for response in outlook.later), default=None)
    return dataclasses.replace(decision, armed=outlook.later, look_again_at=waits, order=order, forget=outlook.forget)


def _carry_out(view: JobView, answer: Answer) -> Decision | None:
    """Do what was asked for; None: in this phase it means no more than to keep up."""
    cell = move(view.job.status.state.phase, answer.action)
    told = () if answer.was_announced else (_told(answer),)
    if cell.deed is Deed.KILL_TARGET:
        return _restart_part(view, answer, cell, told)
    if cell.deed is Deed.KILL and (cell.to is not None or cell.keep is Keep.NONE):
        return Decision(status=_struck(view, cell, answer), notices=told)
    if isinstance(answer.cause, Order):
        return Decision(conclusive=False, notices=told)  # heard; what the phase asks for follows
    return None


def _told(answer: Answer) -> Notice:
    return Notice("Normal", JobEventReason.EXECUTE_ACTION, f"Start to execute action {answer.action} ")


def _struck(view: JobView, cell: Move, answer: Answer) -> JobStatus:
    """The status of a Job whose pods are all to be released: a higher version, and the phase that the action leads to."""
    last = view.job.status
    retries = last.retry_count + cell.counts_as_retry
    following = msgspec.structs.replace(last, version=last.version + 1, retry_count=retries)
    if cell.to is not None:
        following = status.entering(following, cell.to, answer.reason, answer.message)
    if following.state.phase is not JobPhase.RESTARTING:
        following = _all_marked(view, following)
    return status.killed(view.job, status.counted(following, count(view.pods.values())), view.now)


def _restart_part(view: JobView, answer: Answer, cell: Move, told: tuple[Notice, ...]) -> Decision | None:
    """Mark the pods in question and let the Job restart; they are deleted there."""
    pods = answers.targets(answer, view)
    if pods is None:
        return None
    marks = _marking(pods)
    if cell.to is None:
        return Decision(marks, conclusive=False, notices=told) if marks else None
    return Decision(marks, _restarting(view, answer.reason, answer.message), notices=told)


def _marking(pods: list[Pod]) -> tuple[Effect, ...]:
    unmarked = [pod for pod in pods if not members.is_marked(pod)]
    return (MarkPods(plan.victims_of(unmarked)),) if unmarked else ()


def _restarting(view: JobView, reason: JobReason, message: str) -> JobStatus:
    last = view.job.status
    following = msgspec.structs.replace(last, retry_count=last.retry_count + 1)
    following = status.entering(following, JobPhase.RESTARTING, reason, message)
    return status.killed(view.job, status.counted(following, count(view.pods.values())), view.now)


def _keep_up(view: JobView, *, idle: bool = False) -> Decision:
    """What the phase asks for by itself."""
    if move(view.job.status.state.phase, Action.SYNC_JOB).deed is Deed.SYNC:
        return _synchronise(view, idle=idle)
    return _release(view, idle=idle)


def _synchronise(view: JobView, *, idle: bool) -> Decision:
    """Bring what there is in line with the spec."""
    job, phase = view.job, view.job.status.state.phase
    broken_off = plan.interrupted(job, view.pods) if phase in (JobPhase.PENDING, JobPhase.RUNNING) else ()
    if broken_off and not idle:
        names = ", ".join(pod.metadata.name for pod in broken_off)
        return Decision(status=_restarting(view, _reason_of(broken_off), f"the restart of {names} is carried on"))
    counts = count(pod for pod in view.pods.values() if any(task.name == members.task_of(pod) for task in job.spec.tasks))
    change = settle(phase, job.spec, counts, job.status.retry_count)
    if change and change.to in _ENDS:
        return Decision(status=_ended(view, counts, change))
    obstacle = preparation.obstacle(view)
    effects = _wanted(view, blocked=bool(obstacle))
    if effects and not idle:
        return Decision(effects, conclusive=False, obstacle=obstacle)
    if effects and phase is JobPhase.RESTARTING:
        change = None  # pods of before may still be there
    return Decision(status=_synchronised(view, counts, change, complete=not (effects or obstacle)), obstacle=obstacle)


def _reason_of(pods: tuple[Pod, ...]) -> JobReason:
    failed = any(pod.status.phase is PodPhase.FAILED for pod in pods)
    return JobReason.POD_FAILED if failed else JobReason.POD_EVICTED


def _wanted(view: JobView, *, blocked: bool) -> tuple[Effect, ...]:
    """What is to go, to be prepared and to come; `blocked`: the Job cannot get on, so nothing new is made."""
    job = view.job
    going: list[Effect] = []
    if job.status.state.phase is JobPhase.RESTARTING:
        keep = Keep.FINISHED if status.was_resumed(job.status) else Keep.NONE
        old = plan.release(view.pods, keep, older_than=job.status.version)
        going = [DeletePods(plan.victims_of(old))] if old else []
    prepared = () if blocked else tuple(preparation.preparations(view))
    if going or prepared:
        return (*going, *prepared)
    awaited = volumes.examine(job, view.claims).awaited
    following = plan.plan(job, view.pods)
    if blocked or awaited or not podgroups.is_admitted(view.group):
        following = dataclasses.replace(following, missing=())
    return tuple(following.effects())


def _synchronised(view: JobView, counts: Counts, change: Change | None, *, complete: bool) -> JobStatus | None:
    """The status after a synchronisation; `complete`: nothing was left undone."""
    job, last = view.job, view.job.status
    resources = {**last.controlled_resources, **volumes.resources_of(job)}
    if preparation.is_prepared(view):
        resources |= view.marks
    generation = job.metadata.generation if complete else last.observed_generation
    following = msgspec.structs.replace(
        status.counted(last, counts),
        min_available=min_available(job.spec),
        controlled_resources=resources,
        observed_generation=generation,
    )
    if change:
        following = status.entering(following, change.to, change.reason or "", change.message)
    following = _awaiting(view, following)
    return None if status.is_same(last, following) else status.synchronised(following, view.now)


def _awaiting(view: JobView, following: JobStatus) -> JobStatus:
    """Say in the status which claim is waited for, or no longer."""
    state = following.state
    awaited = volumes.examine(view.job, view.claims).awaited
    if awaited and state.phase is JobPhase.PENDING:
        message = f"pvc {awaited[0]} is not found, the job will be in the Pending state until the PVC is created"
        return status.entering(following, state.phase, JobReason.VOLUME_CLAIM_NOT_FOUND, message)
    if state.reason == JobReason.VOLUME_CLAIM_NOT_FOUND:
        return status.entering(following, state.phase, "", "")
    return following


def _ended(view: JobView, counts: Counts, change: Change) -> JobStatus:
    """The status of a Job that is over: what is left of it belongs to an older version from here on."""
    last = view.job.status
    following = msgspec.structs.replace(status.counted(last, counts), version=last.version + 1)
    following = status.entering(following, change.to, change.reason or "", change.message)
    return status.killed(view.job, _all_marked(view, following), view.now)


def _all_marked(view: JobView, following: JobStatus) -> JobStatus:
    """Every plugin marked, also one whose objects were only begun: what is marked is removed."""
    return msgspec.structs.replace(following, controlled_resources={**following.controlled_resources, **view.marks})


def _release(view: JobView, *, idle: bool) -> Decision:
    """Let go of everything but the finished pods."""
    job, last = view.job, view.job.status
    effects: list[Effect] = []
    if living := plan.release(view.pods, Keep.FINISHED):
        effects.append(DeletePods(plan.victims_of(living)))
    if view.group is not None and not view.group.metadata.is_terminating:
        effects.append(DeleteGroup(view.group.metadata.name, view.group.metadata.uid))
    marks = {key for key in last.controlled_resources if key.startswith(status.PLUGIN_MARK)}
    if marks and not view.memory.removed:
        effects.append(RemovePlugins())
    if effects and not idle:
        return Decision(tuple(effects), conclusive=False)
    counts = count(view.pods.values())
    following = status.counted(last, counts)
    if view.memory.removed:
        kept = {key: value for key, value in last.controlled_resources.items() if key not in marks}
        following = msgspec.structs.replace(following, controlled_resources=kept)
    change = settle(last.state.phase, job.spec, counts, last.retry_count)
    if change:
        cause = f"{last.state.message}; " if last.state.message else ""  # why it ended is still what users ask
        following = status.entering(following, change.to, change.reason or "", cause + change.message)
    return Decision(status=None if status.is_same(last, following) else status.killed(job, following, view.now))

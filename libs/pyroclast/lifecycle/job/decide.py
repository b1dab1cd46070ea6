"""The decision about a Job: the next effects and the next status, from the facts. No I/O, no clock, no randomness.

A status write alone moves a Job into a phase. The write raises the version of the Job when older pods must not count any more.
Later decisions, made in the new phase, delete pods, the PodGroup and plugin objects, depending on the objects that exist then.
So after a crash at any point the next decision repeats the work that is not done. The pauses between restarts are here as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from pyroclast.api.enums import JobEventReason, JobPhase, JobReason, PodPhase
from pyroclast.api.records import JobStatus, Pod
from pyroclast.lifecycle.effects import (
    DeleteGroup,
    DeletePods,
    Effect,
    MarkPods,
    Notice,
    RemovePlugins,
    WriteStatus,
    normal,
    warning,
)
from pyroclast.lifecycle.gang import members, plan, podgroups, seating
from pyroclast.lifecycle.gang.members import min_available
from pyroclast.lifecycle.gang.plan import Keep
from pyroclast.lifecycle.job import (
    arrays,
    delays,
    holds,
    outputs,
    phase_transitions,
    policy_decisions,
    preparation,
    restarts,
    run_time,
    status,
    tracked_pods,
    waits,
)
from pyroclast.lifecycle.job.facts import JobDecision, JobFacts, RequestedAction
from pyroclast.lifecycle.job.job_events import Response, last_failure
from pyroclast.lifecycle.job.policy_decisions import PendingActions, PolicyAction
from pyroclast.lifecycle.job.status import Counts, count
from pyroclast.lifecycle.job.waits import with_waiting

_ENDS: Final = frozenset({JobPhase.COMPLETED, JobPhase.FAILED})


def decide(facts: JobFacts, *, idle: bool = False) -> JobDecision:
    """Return the next effects and the next status for the Job of `facts`.

    The same facts always give the same decision, so a restart between the decision and its effects loses nothing. `idle`: an
    effect has just failed, so return only the status that the facts support, and no effects.
    """
    if facts.job.metadata.is_terminating:
        return JobDecision(forget=frozenset(facts.memory.occurrences))  # garbage collection deletes the objects of the Job
    # 1. The action of a Command or policy; without one, the work of the present phase.
    pending = policy_decisions.pending_actions(facts)
    step = None
    if pending.answer:
        again = policy_decisions.runs_again(pending.answer, facts)
        restarted = dataclasses.replace(facts, pods=facts.pods.without(again)) if again and not idle else facts
        step = _carry_out(restarted, pending.answer, again=bool(again))
        facts = restarted if step is not None else facts
    if step is None or idle:
        has_action = step is not None  # the action still has to be carried out, as one of its effects has just failed
        ends = phase_transitions.is_ending(facts.job.status.state.phase)
        step = _release(facts, idle=idle) if ends else _synchronise(facts, pending, idle=idle, has_action=has_action)
    # 2. What the status must say besides: before deletions, a step without its own status announces the pods that they concern.
    effects = step.effects if step.conclusive else (*_announcement(facts, step.effects), *step.effects)
    following = _with_notes(facts, step, pending) if step.conclusive else step.status
    # 3. The time of the next decision, if nothing happens before.
    begins, asked = restarts.begins(facts.job, facts.now), facts.memory.asked_since
    times = [response.due for response in pending.later]
    times += [begins] if begins is not None else []
    times += run_time.due(facts)
    times += [at] if (at := arrays.replacement_at(facts)) is not None and step.conclusive else []
    times += [asked + seating.ANSWER_SECONDS] if asked is not None and not _is_late(facts) else []
    times += [due] if (due := preparation.examined_at(facts)) is not None and due > facts.now else []
    times += [facts.now] if holds.is_released_by(facts, following) else []
    cause = pending.answer.cause if pending.answer else None
    return JobDecision(
        effects,
        with_waiting(facts, run_time.with_start(facts, following)) if following is not None else None,
        conclusive=step.conclusive,
        notices=step.notices,
        armed=pending.later,
        recheck_at=min(times, default=None),
        order=cause if isinstance(cause, RequestedAction) else None,
        forget=pending.forget,
        needless=pending.needless,
        obstacle=step.obstacle,
    )


def _with_notes(facts: JobFacts, decision: JobDecision, pending: PendingActions) -> JobStatus | None:
    """Return the status to write, with `delayedActions`, `unknownPodGroup`, `trackedPods` and `outputs` up to date.

    None when the status needs no write.
    """
    following, base = decision.status, decision.status or facts.job.status
    kept = delays.kept(pending.later)
    unknown = delays.noted(facts, (*pending.forget, *(response.occurrence for response in pending.later)))
    if following is None and phase_transitions.is_ending(base.state.phase):
        pods = base.tracked_pods  # while the Job only waits for the deletion of its pods, trackedPods needs no write
    else:
        pods = tracked_pods.tracked(facts.job, facts.pods, base, tracked_pods.leaving(decision.effects))
    changed = arrays.recorded(facts.job, facts.pods, outputs.collected(facts.job, facts.pods, base))
    changed = msgspec.structs.replace(changed, delayed_actions=kept, unknown_pod_group=unknown, tracked_pods=pods)
    if changed == base:
        return following
    return changed if following else status.synchronised(changed, facts.now)


def _announcement(facts: JobFacts, effects: Iterable[Effect]) -> tuple[Effect, ...]:
    """Return the status write that must precede `effects`; empty when no write is needed.

    The write removes the pods that `effects` delete from `trackedPods`. Without this write, a controller that starts during the
    deletion would report these pods as evicted.
    """
    going, last = tracked_pods.leaving(effects), facts.job.status
    victims = (facts.pods.by_name[name] for name in going)
    is_named = tracked_pods.names_any_of(facts.job, victims) or tracked_pods.names_forgotten(facts.job, facts.pods)
    if phase_transitions.is_ending(last.state.phase) or not is_named:
        return ()
    return (WriteStatus(msgspec.structs.replace(last, tracked_pods=tracked_pods.tracked(facts.job, facts.pods, last, going))),)


def _carry_out(facts: JobFacts, answer: PolicyAction, *, again: bool) -> JobDecision | None:
    """Return the decision that carries out `answer`; None when `answer` has no effect of its own in this phase.

    `again`: whether deleted pods that had succeeded run again.
    """
    cell = phase_transitions.move(facts.job.status.state.phase, answer.action)
    order = answer.cause if isinstance(answer.cause, RequestedAction) else None
    notices = () if answer.was_announced else tuple(_announced(facts.job.status.state.phase, answer, order))
    decision = None
    if answer.reason is JobReason.REQUEUE_LIMIT_REACHED and phase_transitions.is_ending(facts.job.status.state.phase):
        pass  # the Job already ends as the user requested
    elif cell.work is phase_transitions.PhaseWork.RELEASE_PART:
        decision = _restart_part(facts, answer, cell, notices, again=again)
    elif phase_transitions.has_effect(facts.job.status.state.phase, answer.action):
        decision = JobDecision(status=_outdated(facts, cell, answer), notices=notices)
    if decision is None:
        return JobDecision(conclusive=False, notices=notices) if order else None  # the command is done; the next decision follows
    if order is None or not order.command or decision.status is None:
        return decision
    noted = msgspec.structs.replace(decision.status, last_command=order.command)
    return dataclasses.replace(decision, status=noted)  # a Command that still exists must not be carried out twice


def _announced(phase: JobPhase, answer: PolicyAction, order: RequestedAction | None) -> Iterator[Notice]:
    if order is not None and order.command:
        what = f"Start to execute command {order.action}, and clean it up to make sure executed not more than once."
        yield normal(JobEventReason.COMMAND_ISSUED, what)
    if answer.reason is JobReason.SUSPENDED:
        yield normal(JobEventReason.SUSPENDED, f"{answer.message}; its pods end")
    elif nothing := phase_transitions.meaningless(phase, answer.action):
        yield warning(JobEventReason.COMMAND_ISSUED, f"{answer.action} had no effect: {nothing}")
    else:
        yield normal(JobEventReason.EXECUTE_ACTION, f"Start to execute action {answer.action} ")


def _outdated(facts: JobFacts, cell: phase_transitions.Move, answer: PolicyAction) -> JobStatus:
    """Return the status that releases all pods of the Job: a higher version, and the phase that the action leads to."""
    by_user = isinstance(answer.cause, RequestedAction)
    rejected = _is_rejected(facts, answer)
    last = (
        restarts.with_restart(facts.job, facts.now, by_user=by_user, rejected=rejected)
        if cell.counts_as_retry
        else facts.job.status
    )
    following = arrays.leaving(facts.job, facts.pods, msgspec.structs.replace(last, version=last.version + 1), whole=True)
    if cell.to is not None:
        message = restarts.with_begin(answer.message, following, facts.now) if cell.counts_as_retry else answer.message
        following = status.entering(following, cell.to, answer.reason, message)
    if following.state.phase is not JobPhase.RESTARTING:
        following = _all_marked(facts, following)
    is_last = following.retry_count >= facts.job.spec.max_retry
    keep = Keep.FINISHED if is_last else cell.keep  # users inspect the pods of the last try
    return _releasing(facts, following, plan.release(facts.pods, keep))


def _releasing(facts: JobFacts, following: JobStatus, releasing: tuple[Pod, ...]) -> JobStatus:
    """Return `following` as the status write of a new phase; the pods of `releasing` already count as terminating."""
    counts = count(facts.pods, releasing=releasing)
    return status.killed(facts.job, status.counted(following, counts), facts.now)


def _restart_part(
    facts: JobFacts, answer: PolicyAction, cell: phase_transitions.Move, notices: tuple[Notice, ...], *, again: bool
) -> JobDecision | None:
    """Mark the pods that `answer` concerns and move the Job to the phase of `cell`; the pods are deleted in that phase.

    None when there is nothing to restart.
    """
    pods = policy_decisions.targets(answer, facts)
    if pods is None:
        return None
    unmarked = [pod for pod in pods if not members.is_marked(pod)]
    marks = (MarkPods(plan.victims_of(unmarked)),) if unmarked else ()
    if cell.to is None:
        return JobDecision(marks, conclusive=False, notices=notices) if marks or again else None
    by_user = isinstance(answer.cause, RequestedAction)
    rejected = _is_rejected(facts, answer)
    following = _restarting(facts, answer.reason, answer.message, pods, by_user=by_user, rejected=rejected)
    return JobDecision(marks, following, notices=notices)


def _is_rejected(facts: JobFacts, answer: PolicyAction) -> bool:
    """Whether the pod that caused `answer` failed before any container ran."""
    cause = answer.cause.occurrence if isinstance(answer.cause, Response) else None
    pod = facts.pods.by_name.get(cause.pod) if cause else None
    return pod is not None and members.never_ran(pod)


def _restarting(
    facts: JobFacts,
    reason: JobReason,
    message: str,
    releasing: tuple[Pod, ...],
    *,
    by_user: bool = False,
    rejected: bool = False,
) -> JobStatus:
    following = restarts.with_restart(facts.job, facts.now, by_user=by_user, rejected=rejected)
    following = arrays.leaving(facts.job, facts.pods, following, whole=False, releasing=releasing)
    message = restarts.with_begin(message, following, facts.now)
    return _releasing(facts, status.entering(following, JobPhase.RESTARTING, reason, message), releasing)


def _synchronise(facts: JobFacts, pending: PendingActions, *, idle: bool, has_action: bool) -> JobDecision:
    """Return the decision that brings the observed objects in line with the spec. The Job ends only after its delayed actions."""
    job, phase = facts.job, facts.job.status.state.phase
    marked = plan.interrupted(facts.pods)
    if marked and phase in (JobPhase.PENDING, JobPhase.RUNNING) and not idle:
        names = ", ".join(pod.metadata.name for pod in marked)
        message = f"{last_failure(marked)}the restart of {names} is carried on"
        failed = any(pod.status.phase is PodPhase.FAILED for pod in marked)
        reason = JobReason.POD_FAILED if failed else JobReason.POD_EVICTED
        rejected = any(map(members.never_ran, marked))
        return JobDecision(status=_restarting(facts, reason, message, marked, rejected=rejected))
    counts = _counted(facts)
    held, spec = bool(holds.hold(facts)), arrays.effective(job.spec, facts.pods)
    retries, is_alone = job.status.retry_count, facts.has_no_group
    change = arrays.end(facts, counts) or phase_transitions.following_phase(
        phase, spec, counts, retries, may_run_at_first=is_alone
    )
    if change is None or (held and phase is JobPhase.PENDING):
        change = holds.failure(facts)
    is_open = not held and change is None and phase in (JobPhase.PENDING, JobPhase.RUNNING)
    cut_off = plan.cut_off(job, facts.pods) if is_open else {}
    if cut_off and not plan.can_create(job, facts.pods):
        change = phase_transitions.after_cut_off(spec, counts, cut_off)
    due = pending.keeps_open() if change and change.to in _ENDS and phase is not JobPhase.RESTARTING else None
    if due is not None:
        change = None
    if (change is None or change.to not in _ENDS) and (over := run_time.failure(facts)) is not None:
        change = over
    if change and change.to in _ENDS:
        if marked and not idle:  # pods that were marked for a restart are deleted, although no pod replaces them
            return JobDecision((DeletePods(plan.victims_of(marked)),), conclusive=False)
        if not (marked or has_action):
            return JobDecision(status=_ended(facts, counts, change))
        change = None  # a restart whose first write failed may keep the Job from ending
    if (half := _half_gang(facts, counts)) and not idle:
        return JobDecision((DeletePods(plan.victims_of(half), gives_back=True),), conclusive=False)
    obstacle = "" if held else preparation.obstacle(facts)
    is_early = restarts.begins(job, facts.now) is not None
    effects = _wanted(facts, blocked=bool(obstacle) or held or facts.memory.held or is_early)
    if effects and not idle:
        return JobDecision(effects, conclusive=False, obstacle=obstacle)
    awaits = seating.awaits_placement(facts.group)
    if is_early or ((effects or awaits) and phase is JobPhase.RESTARTING):
        change = None  # pods of an earlier try may still exist
    complete = not (effects or obstacle or facts.memory.held or is_early or awaits or has_action)
    return JobDecision(
        status=_synchronised(facts, counts, change, due=due, cut_off=cut_off, complete=complete), obstacle=obstacle
    )


def _counted(facts: JobFacts) -> Counts:
    """Count the pods of the tasks of the Job. Pods beyond the replicas of a changed spec count as terminating."""
    is_new = facts.job.metadata.generation != facts.job.status.observed_generation
    replicas = facts.pods.replicas
    others = facts.pods.where(lambda state: is_new and not state.place and state.task in replicas)
    surplus = [pod for pod in others if members.index_of(pod) >= replicas[members.task_of(pod)]]
    return count(facts.pods, tasks=replicas, releasing=surplus)


def _half_gang(facts: JobFacts, counts: Counts) -> tuple[Pod, ...]:
    """Return the unbound pods of a gang that cannot be completed and of which no pod has started; empty for other gangs."""
    started = counts.running + counts.succeeded + counts.failed
    waits = facts.memory.gives_back and facts.job.status.state.phase is JobPhase.PENDING and started == 0
    if not waits or counts.pending >= min_available(facts.job.spec):
        return ()
    return tuple(pod for pod in facts.pods.where(lambda state: not state.is_terminating) if not pod.spec.node_name)


def _wanted(facts: JobFacts, *, blocked: bool) -> tuple[Effect, ...]:
    """Return the effects that delete, prepare and create objects. `blocked`: the Job must not create new objects now."""
    job, remembered = facts.job, facts.memory
    closing = seating.closing(job, facts.group, facts.pods, remembered.seats_refused, is_late=_is_late(facts))
    if given_up := tuple(closing):
        return given_up
    going: list[Effect] = []
    if job.status.state.phase is JobPhase.RESTARTING:
        keep = Keep.FINISHED if status.was_resumed(job.status) else Keep.NONE
        lasting = {
            task: frozenset(indexes) for task, indexes in tracked_pods.succeeded(job).items()
        }  # a partial restart keeps them
        old = [
            pod
            for pod in plan.release(facts.pods, keep, older_than=job.status.version)
            if members.is_marked(pod) or members.index_of(pod) not in lasting.get(members.task_of(pod), ())
        ]
        going = [DeletePods(plan.victims_of(old))] if old else []
    prepared = () if blocked else tuple(preparation.preparations(facts))
    if going or prepared:
        return (*going, *prepared)
    awaited = preparation.examine(job, facts.claims).awaited
    following = plan.plan(job, facts.pods)
    following = dataclasses.replace(following, stale=_distinct(following.stale, arrays.superfluous(facts)))
    is_admitted = facts.has_no_group or podgroups.is_admitted(facts.group)
    if blocked or awaited or not is_admitted or seating.awaits_placement(facts.group):
        return tuple(dataclasses.replace(following, missing=()).effects())
    found = seating.seated(job, facts.group, facts.pods, following.missing, remembered.seated)
    needed = len(following.missing) - following.elastic
    following = dataclasses.replace(following, missing=found.slots, elastic=max(0, len(found.slots) - needed))
    return (*following.effects(), *([found.ask] if found.ask is not None else ()))


def _distinct(*groups: tuple[Pod, ...]) -> tuple[Pod, ...]:
    return tuple({pod.metadata.uid: pod for pods in groups for pod in pods}.values())


def _is_late(facts: JobFacts) -> bool:
    """Whether the scheduler has not placed the requested seats within the time limit."""
    asked = facts.memory.asked_since
    return asked is not None and facts.now >= asked + seating.ANSWER_SECONDS


def _synchronised(
    facts: JobFacts,
    counts: Counts,
    change: phase_transitions.Change | None,
    *,
    due: Response | None,
    cut_off: Mapping[str, str],
    complete: bool,
) -> JobStatus | None:
    """Return the status after a synchronisation; None when the status stays the same.

    `due`: the delayed response without which the Job would end; None when there is none. `cut_off`: why tasks can never start.
    `complete`: no effect and no obstacle is left, so the status may report the present generation as observed.
    """
    job, last = facts.job, facts.job.status
    resources = {**last.controlled_resources, **preparation.resources_of(job)}
    if preparation.is_prepared(facts):
        resources |= facts.marks
    generation = job.metadata.generation if complete else last.observed_generation
    following = msgspec.structs.replace(
        status.counted(last, counts),
        min_available=min_available(job.spec),
        controlled_resources=resources,
        observed_generation=generation,
    )
    if change and last.state.phase is JobPhase.NEW and change.to is JobPhase.RUNNING:
        following = status.synchronised(status.entering(following, JobPhase.PENDING, "", ""), facts.now)
    if change:
        following = status.entering(following, change.to, change.reason or "", change.message)
    following = waits.explained(facts, holds.with_after(facts, following), due, cut_off)
    return None if status.is_same(last, following) else status.synchronised(following, facts.now)


def _ended(facts: JobFacts, counts: Counts, change: phase_transitions.Change) -> JobStatus:
    """Return the status of a Job that ends. The higher version makes all remaining pods belong to an older version."""
    last = facts.job.status
    following = msgspec.structs.replace(status.counted(holds.with_after(facts, last), counts), version=last.version + 1)
    following = arrays.leaving(facts.job, facts.pods, following, whole=True)
    message = change.message
    if change.to is JobPhase.FAILED:  # users need to know why the Job failed
        cause = f"{last.state.message}; " if last.state.phase is JobPhase.RESTARTING and last.state.message else ""
        message = (cause or last_failure(facts.pods.by_name.values())) + message
    following = status.entering(following, change.to, change.reason or "", message)
    return status.killed(facts.job, _all_marked(facts, following), facts.now)


def _all_marked(facts: JobFacts, following: JobStatus) -> JobStatus:
    """Return `following` with the marks of all plugins, because only the objects of marked plugins are removed.

    This includes a plugin of which only some objects were created.
    """
    return msgspec.structs.replace(following, controlled_resources={**following.controlled_resources, **facts.marks})


def _release(facts: JobFacts, *, idle: bool) -> JobDecision:
    """Return the decision that deletes the PodGroup, the plugin objects and all pods except finished pods."""
    job, last = facts.job, facts.job.status
    effects: list[Effect] = []
    if going := _distinct(plan.release(facts.pods, Keep.FINISHED), arrays.superfluous(facts)):
        effects.append(DeletePods(plan.victims_of(going)))
    if facts.group is not None and not (facts.has_no_group or facts.group.metadata.is_terminating):
        effects.append(DeleteGroup(facts.group.metadata.name, facts.group.metadata.uid))
    marks = {key for key in last.controlled_resources if key.startswith(status.PLUGIN_MARK)}
    if marks and not facts.memory.removed:
        effects.append(RemovePlugins())
    if effects and not idle:
        return JobDecision(tuple(effects), conclusive=False)
    counts = count(facts.pods)
    following = status.counted(last, counts)
    if facts.memory.removed:
        kept = {key: value for key, value in last.controlled_resources.items() if key not in marks}
        following = msgspec.structs.replace(following, controlled_resources=kept)
    change = phase_transitions.following_phase(last.state.phase, job.spec, counts, last.retry_count)
    if change and (suspended := holds.stopped(last)):
        following = waits.explained(facts, status.entering(following, suspended.to, suspended.reason or "", suspended.message))
    elif change:
        before = waits.without_hanging(last.state.message)
        cause = f"{before}; " if before else ""  # users still need to know why the Job ended
        reason = last.state.reason if change.to is JobPhase.TERMINATED else change.reason  # the reason shows who ended the Job
        following = status.entering(following, change.to, reason or "", cause + change.message)
    else:
        following = waits.explained(facts, following) if facts.silent_nodes or waits.hangs(last) else following
    return JobDecision(status=None if status.is_same(last, following) else status.killed(job, following, facts.now))

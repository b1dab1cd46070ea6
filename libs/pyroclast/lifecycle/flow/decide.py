"""The decision about a flow: the effects that its controller carries out, and the status that it writes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

import msgspec

from pyroclast.api.enums import FailurePolicy, FlowPhase, FlowReason, JobPhase, RetainPolicy
from pyroclast.api.keys import FLOW_FINALIZER, FLOW_SUSPENDED
from pyroclast.api.records import FlowState, FlowStatus
from pyroclast.lifecycle.effects import Notice, normal, warning
from pyroclast.lifecycle.flow.choices import is_missing, wants_exit_codes
from pyroclast.lifecycle.flow.facts import (
    AddFinalizer,
    CancelJob,
    CreateJob,
    DeleteJob,
    Effect,
    FlowDecision,
    FlowFacts,
    ReleaseFlow,
    Report,
    SuspendJob,
)
from pyroclast.lifecycle.flow.judge import judge
from pyroclast.lifecycle.flow.next_starts import HELP, Obstacle, Starts, is_blocked, plan_starts
from pyroclast.lifecycle.flow.resume import is_asked, resume
from pyroclast.lifecycle.flow.status import status_of
from pyroclast.lifecycle.flow.units import Stage, States, next_phase, tally

_ORPHAN = "orphan"  # the finalizer that tells the garbage collector to keep the objects that the deleted object owns


_MOST_TOLD: Final = 10
"""Most refused Jobs for which one decision records an Event."""

_AT_WORK = frozenset({JobPhase.NEW, JobPhase.PENDING, JobPhase.RUNNING, JobPhase.RESTARTING})


def decide(facts: FlowFacts) -> FlowDecision:
    """Return the decision that follows from `facts`. The effects come first; the status describes the flow before the effects.

    The caller decides again after it carried out effects or wrote a status, until a decision has neither.
    """
    if facts.flow.metadata.is_terminating:
        return _terminate(facts)
    phase = facts.flow.status.state.phase
    if phase is FlowPhase.TERMINATING:  # another writer set the phase: the flow is not being deleted
        return FlowDecision()
    if is_asked(facts):
        return resume(facts)
    judgement = judge(facts)
    states = judgement.states
    asked = _exit_codes(facts, states)
    counted = tally(facts.graph, states)
    following = next_phase(phase, counted)
    at_work = following in (FlowPhase.NEW, FlowPhase.PENDING, FlowPhase.RUNNING) and not counted.failed
    starts = plan_starts(facts, states) if at_work else Starts()
    if at_work and not starts.effects and is_blocked(states, starts.obstacles):
        following = FlowPhase.PENDING
    effects, is_emptied = starts.effects, False
    if FLOW_FINALIZER not in facts.flow.metadata.finalizers and any(isinstance(effect, CreateJob) for effect in effects):
        effects = [AddFinalizer(), *effects]  # before the first Job is created, so that no Job outlives its flow by accident
    if phase is FlowPhase.SUCCEED and facts.flow.spec.job_retain_policy is RetainPolicy.DELETE:
        effects = _deletions(facts)
        is_emptied = not facts.jobs
    if phase is FlowPhase.FAILED and facts.flow.spec.failure_policy is FailurePolicy.CANCEL:
        effects = [  # Jobs that are ending by themselves, or are suspended, stay as they are
            CancelJob(name, job.metadata.uid)
            for name, job in facts.jobs.items()
            if job.status.state.phase in _AT_WORK and not job.metadata.is_terminating and job.metadata.uid not in facts.cancelled
        ]

    effects = [*effects, *_suspensions(facts)]

    def report() -> Report:
        status = facts.flow.status if is_emptied else status_of(facts, states, starts.obstacles, following)
        return Report(status, (*_notices(facts, states, status), *_refusals(facts, starts.obstacles)))

    return FlowDecision(
        tuple(effects),
        report,
        following,
        probes=tuple(judgement.probes) if at_work else (),
        exit_codes=asked,
        recheck_at=starts.recheck_at,
        waits_for_status=starts.waits_for_status or (at_work and judgement.unrecorded),
    )


def _terminate(facts: FlowFacts) -> FlowDecision:
    """A deleted flow that has not ended shows Terminating, deletes its Jobs, and is released when they are gone.

    A flow that has ended is released at once, because the garbage collector deletes its Jobs. A flow deleted with orphaning is
    released at once too, and its Jobs stay.
    """
    meta, phase = facts.flow.metadata, facts.flow.status.state.phase
    if FLOW_FINALIZER not in meta.finalizers:
        return FlowDecision()
    if _ORPHAN in meta.finalizers or phase in (FlowPhase.SUCCEED, FlowPhase.FAILED):
        return FlowDecision((ReleaseFlow(),))
    status = msgspec.structs.replace(facts.flow.status, state=FlowState(phase=FlowPhase.TERMINATING))
    return FlowDecision(
        tuple(_deletions(facts)) if facts.jobs else (ReleaseFlow(),), lambda: Report(status), FlowPhase.TERMINATING
    )


def _suspensions(facts: FlowFacts) -> list[Effect]:
    """Return the effects that suspend the Jobs of a suspended flow, and resume those that were suspended together with it."""
    wanted = facts.flow.spec.suspend
    return [
        SuspendJob(name, job.metadata.uid, wanted)
        for name, job in facts.jobs.items()
        if job.status.state.phase in _AT_WORK
        and not job.metadata.is_terminating
        and job.spec.suspend is not wanted
        and (wanted or job.metadata.annotations.get(FLOW_SUSPENDED) == "true")
    ]


def _deletions(facts: FlowFacts) -> list[Effect]:
    return [DeleteJob(name, job.metadata.uid) for name, job in facts.jobs.items() if not job.metadata.is_terminating]


def _exit_codes(facts: FlowFacts, states: States) -> tuple[str, ...]:
    """Return the Jobs that ended without completing, whose exit code an entry reads, and which nobody has looked up yet."""
    wanted = {name for node in facts.graph.nodes.values() for name in wants_exit_codes(node)}
    return tuple(
        unit.name
        for name in facts.graph.nodes
        if name in wanted and name in states
        for unit in states[name].units
        if is_missing(unit, facts.exit_codes)
    )


def _refusals(facts: FlowFacts, obstacles: Mapping[str, Obstacle]) -> list[Notice]:
    """Return an Event for each Job that is refused, for a reason that the status does not show yet."""
    shown = {(each.reason, each.message) for each in facts.flow.status.conditions.values()}
    new = {
        name: each for name, each in obstacles.items() if each.reason in HELP and (each.reason.value, each.message) not in shown
    }
    return [
        warning(each.reason.value, f"Job {name} cannot be created: {each.message}; {HELP[each.reason]}")
        for name, each in islice(new.items(), _MOST_TOLD)
    ]


def _notices(facts: FlowFacts, states: States, status: FlowStatus) -> list[Notice]:
    """Return the Events beside the status: entries that are skipped from now on, though no target failed."""
    before: Mapping[str, object] = facts.flow.status.conditions
    flow = facts.flow.metadata.name
    skipped = [
        f"{name}: {state.message}"
        for name, state in states.items()
        if state.stage is Stage.SKIPPED
        and state.reason is not FlowReason.TARGET_FAILED
        and getattr(before.get(f"{flow}-{name}"), "phase", "") != "Skipped"
    ]
    return [normal("Skipped", f"skipped {text}") for text in skipped] if status is not facts.flow.status else []

"""Resumes a failed flow from its failure: what has completed stays, with its outputs; the rest runs again.

The user sets an annotation to a new value, and the status records the value that was carried out. First the Jobs that run again
are deleted, while the flow is still Failed. When they are gone, one write removes all that the status knows of them, and the flow
is Running. A controller that is killed between these steps repeats the deletions, which are by UID, or the write, which needs the
newest version of the flow. So no Job runs twice for one resumption.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pyroclast.api import keys
from pyroclast.api.enums import FailurePolicy, FlowPhase
from pyroclast.api.records import FlowState, FlowStatus
from pyroclast.lifecycle.effects import normal
from pyroclast.lifecycle.flow.facts import DeleteJob, FlowDecision, FlowFacts, Report
from pyroclast.lifecycle.flow.jobs import job_name
from pyroclast.lifecycle.flow.judge import judge
from pyroclast.lifecycle.flow.sizes import LISTS
from pyroclast.lifecycle.flow.units import States

_MOST_NAMED = 10


def is_asked(facts: FlowFacts) -> bool:
    """Whether the flow has failed, and its user asks to resume it."""
    token = facts.flow.metadata.annotations.get(keys.FLOW_RESUME, "")
    return bool(token) and facts.flow.status.state.phase is FlowPhase.FAILED and token != facts.flow.status.resumed


def resume(facts: FlowFacts) -> FlowDecision:
    """Return the decision that resumes the flow: it deletes Jobs, or waits until they are gone, or changes the status."""
    states = judge(facts).states
    again = _run_again(facts, states)
    flow = facts.flow.metadata.name
    names = set(_names(facts, states, again))
    there = {name: job for name, job in facts.jobs.items() if name in names}
    deletions = tuple(DeleteJob(name, job.metadata.uid) for name, job in there.items() if not job.metadata.is_terminating)
    if deletions:
        return FlowDecision(deletions, phase=FlowPhase.FAILED)
    if there:
        return FlowDecision(phase=FlowPhase.FAILED)
    entries = {job_name(flow, name) for name in again}

    def report() -> Report:
        ordered = sorted(again, key=lambda name: facts.graph.nodes[name].position)
        more = f" and {len(ordered) - _MOST_NAMED} more" if len(ordered) > _MOST_NAMED else ""
        text = f"run {', '.join(ordered[:_MOST_NAMED])}{more} again"
        return Report(_without(facts.flow.status, names | entries, facts), (normal("Resumed", text),))

    return FlowDecision(report=report, phase=FlowPhase.RUNNING)


def _run_again(facts: FlowFacts, states: States) -> set[str]:
    """Return the entries that run again: those that failed, and all that depend on them.

    With the failure policy Cancel, the unfinished entries were told to terminate, so they run again too.
    """
    is_cancelled = facts.flow.spec.failure_policy is FailurePolicy.CANCEL
    again = {
        name
        for name, state in states.items()
        if state.has_failed or (is_cancelled and any(unit.has_started and not unit.is_over for unit in state.units))
    }
    for name in facts.graph.order:  # each entry follows those that it waits for
        node = facts.graph.nodes[name]
        if any(other in again for other in (*node.waits, *node.choosers)):
            again.add(name)
    return again


def _names(facts: FlowFacts, states: States, again: set[str]) -> Iterator[str]:
    """Yield the names of the Jobs that run again. In a loop that failed by itself, the rounds that completed stay."""
    for name in again:
        node, state = facts.graph.nodes[name], states[name]
        depends = any(other in again for other in (*node.waits, *node.choosers))
        for unit in state.units:
            if depends or unit.is_over_badly or not unit.is_over:
                yield unit.name


def _without(status: FlowStatus, names: set[str], facts: FlowFacts) -> FlowStatus:
    """Return `status` without the Jobs and entries in `names`, for a flow that runs again."""
    lists = {each: tuple(name for name in getattr(status, each) if name not in names) for each in LISTS}
    return msgspec.structs.replace(
        status,
        **lists,
        job_status_list=tuple(row for row in status.job_status_list if row.name not in names),
        conditions={name: each for name, each in status.conditions.items() if name not in names},
        state=FlowState(phase=FlowPhase.RUNNING),
        completion_time=None,
        resumed=facts.flow.metadata.annotations[keys.FLOW_RESUME],
    )

"""Judges the entries of a flow one after the other, and the rounds of loops: how far each is, and which Jobs to create now."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyroclast.api.enums import EntryPhase, FlowPhase, FlowReason, JobPhase
from pyroclast.api.records import MOST_ROUNDS, FlowJobStatus
from pyroclast.lifecycle.flow.choices import chosen_by_switch, condition_holds
from pyroclast.lifecycle.flow.dependencies import Met, judge_dependencies
from pyroclast.lifecycle.flow.expressions import ExpressionProblem, holds, round_values
from pyroclast.lifecycle.flow.facts import FlowFacts, Node, ProbeRequest
from pyroclast.lifecycle.flow.jobs import job_name
from pyroclast.lifecycle.flow.units import BAD_ENDS, EntryState, Stage, Unit, UnitStage, rounds_of, unit_of

_ENDED = (FlowPhase.SUCCEED, FlowPhase.FAILED)


@dataclass(slots=True)
class Judgement:
    """The state of each entry, by name, and the probes to run while entries wait."""

    states: dict[str, EntryState] = field(default_factory=dict)
    probes: list[ProbeRequest] = field(default_factory=list)


def judge(facts: FlowFacts) -> Judgement:
    """Judge all entries. In a flow that has ended, no new Job is wanted."""
    known = {each.name: each for each in facts.flow.status.job_status_list}
    judgement = Judgement()
    for name in facts.graph.order:
        judgement.states[name] = _entry(facts, facts.graph.nodes[name], known, judgement)
    for name in facts.graph.cyclic:
        message = "it is part of a cycle of dependencies, or waits for one"
        judgement.states[name] = EntryState(Stage.WAITING, reason=FlowReason.CYCLE, message=message)
    judgement.states = {name: judgement.states[name] for name in facts.graph.nodes}
    return judgement


def _entry(facts: FlowFacts, node: Node, known: dict[str, FlowJobStatus], judgement: Judgement) -> EntryState:
    if (rounds := rounds_of(node.entry) or 0) > MOST_ROUNDS:  # admission refuses such a loop, but admission may be switched off
        message = f"its loop would make {rounds} Jobs, at most {MOST_ROUNDS} are possible"
        return EntryState(Stage.WAITING, reason=FlowReason.LOOP_TOO_LONG, message=message)
    units = _units(facts, node, known)
    if any(unit.has_started for unit in units):
        return _started(facts, node, units, judgement)
    before = facts.flow.status.conditions.get(job_name(facts.flow.metadata.name, node.name))
    if before is not None and before.phase == EntryPhase.SKIPPED:  # it stays skipped, and the entries of its `else` stay chosen
        reason = next((reason for reason in FlowReason if reason == before.reason), None)
        chosen = frozenset(node.entry.otherwise) if reason is FlowReason.CONDITION_FALSE else frozenset()
        return EntryState(Stage.SKIPPED, reason=reason, message=before.message, chosen=chosen)
    if before is not None and before.reason == FlowReason.CHOICE_MADE:
        return _choice(node, judgement, facts)
    if before is not None and before.reason == FlowReason.LOOP and not units:
        return judge_rounds(facts, node, units, chosen_by_switch(node, judgement.states, facts.exit_codes))
    return _waiting(facts, node, units, judgement)


def _units(facts: FlowFacts, node: Node, known: dict[str, FlowJobStatus]) -> tuple[Unit, ...]:
    """Return the Jobs of an entry; for a loop, those of all rounds. In a flow that has ended, no Job is tried again."""
    flow, entry = facts.flow.metadata.name, node.entry
    retry = None if facts.flow.status.state.phase in _ENDED else entry.retry
    rounds = rounds_of(entry)
    names = [(job_name(flow, entry.name, index), index) for index in ([None] if rounds is None else range(rounds))]
    return tuple(unit_of(name, index, facts.jobs.get(name), known.get(name), retry) for name, index in names)


def _started(facts: FlowFacts, node: Node, units: tuple[Unit, ...], judgement: Judgement) -> EntryState:
    """Judge an entry whose Job was created: the entry continues, whatever happens to its targets."""
    chosen = chosen_by_switch(node, judgement.states, facts.exit_codes)
    if node.entry.loop is not None:
        return judge_rounds(facts, node, units, chosen)
    unit, reason, message = units[0], None, ""
    if unit.stage is UnitStage.LOST and facts.flow.status.state.phase not in _ENDED:
        reason, message = FlowReason.JOB_DELETED, "its Job was deleted and is made again"
    elif unit.stage is UnitStage.RETRYING:
        reason = FlowReason.BACKOFF
    wanted = units if reason is not None else ()
    stage = Stage.DONE if unit.is_over else Stage.STARTED
    return EntryState(stage, unit.phase, units, wanted, reason=reason, message=message, chosen=chosen)


def _choice(node: Node, judgement: Judgement, facts: FlowFacts) -> EntryState:
    """Judge an entry without a template: the entry is done when its switch is decided."""
    chosen = chosen_by_switch(node, judgement.states, facts.exit_codes)
    names = ", ".join(sorted(chosen or ())) or "nothing"
    return EntryState(
        Stage.DONE, JobPhase.COMPLETED, reason=FlowReason.CHOICE_MADE, message=f"chose {names}", chosen=chosen or frozenset()
    )


def _waiting(facts: FlowFacts, node: Node, units: tuple[Unit, ...], judgement: Judgement) -> EntryState:
    states = judgement.states
    if facts.flow.status.state.phase in _ENDED:
        return EntryState(Stage.WAITING, reason=FlowReason.FLOW_FAILED, message="the flow has ended, nothing is started any more")
    choosers = [states[name] for name in node.choosers if name in states]
    if choosers and not any(state.chosen and node.name in state.chosen for state in choosers):
        if all(state.chosen is not None for state in choosers):
            return _skip(FlowReason.NOT_CHOSEN, f"not chosen by {', '.join(node.choosers)}")
        return EntryState(
            Stage.WAITING, reason=FlowReason.CHOICE_OPEN, message=f"waits for the choice of {', '.join(node.choosers)}"
        )
    dependencies = judge_dependencies(facts, node, states)
    match dependencies.met:
        case Met.SKIPPED:
            return _skip(FlowReason.TARGETS_SKIPPED, dependencies.message)
        case Met.NEVER:
            return _skip(FlowReason.TARGET_FAILED, dependencies.message)
        case Met.OPEN:
            judgement.probes += dependencies.probes
            unknown = any(name not in facts.graph.nodes for name in node.waits)
            reason = FlowReason.UNKNOWN_TARGET if unknown else FlowReason.DEPENDENCIES
            return EntryState(Stage.WAITING, reason=reason, message=dependencies.message)
        case Met.YES:
            return _conditional(facts, node, units, judgement)


def _conditional(facts: FlowFacts, node: Node, units: tuple[Unit, ...], judgement: Judgement) -> EntryState:
    """Judge whether an entry runs whose dependencies are satisfied."""
    try:
        holding = condition_holds(facts, node, judgement.states)
    except ExpressionProblem as problem:
        message = f"if.expression: {problem}"
        return EntryState(Stage.DONE, JobPhase.FAILED, reason=FlowReason.EXPRESSION_FAILED, message=message)
    if holding is None:
        target = node.entry.condition.target if node.entry.condition is not None else ""
        return EntryState(Stage.WAITING, reason=FlowReason.DEPENDENCIES, message=f"waits for the outcome of {target}")
    if not holding:
        return _skip(FlowReason.CONDITION_FALSE, "its condition does not hold", frozenset(node.entry.otherwise))
    chosen = chosen_by_switch(node, judgement.states, facts.exit_codes)
    if node.entry.switch is not None and facts.template(node.name) is None:
        return _choice(node, judgement, facts)
    if node.entry.loop is not None:
        return judge_rounds(facts, node, units, chosen)
    return EntryState(Stage.WAITING, units=units, wanted=units, reason=FlowReason.STARTING, chosen=chosen)


def _skip(reason: FlowReason, message: str, chosen: frozenset[str] = frozenset()) -> EntryState:
    return EntryState(Stage.SKIPPED, reason=reason, message=message, chosen=chosen)


def judge_rounds(facts: FlowFacts, node: Node, rounds: tuple[Unit, ...], chosen: frozenset[str] | None) -> EntryState:
    """Judge a loop whose entry may run.

    Rounds start in order, and at most `parallel` run at a time. No round starts after a round failed for good, or once `until`
    holds. A loop without rounds is done at once. If `until` has no value, the loop fails after its running rounds have ended.
    """
    started = tuple(unit for unit in rounds if unit.has_started)
    over = [unit for unit in started if unit.is_over]
    bad = next((unit for unit in over if unit.phase in BAD_ENDS), None)
    problem = ""
    ended = bad is not None or len(started) == len(rounds)
    if not ended and over and node.entry.loop is not None and node.entry.loop.until:
        try:
            ended = holds(node.entry.loop.until, round_values(node.entry, started, facts.exit_codes), in_loop=True)
        except ExpressionProblem as fault:
            problem = f"for.until: {fault}"
    message = f"{len(over)} of {len(rounds)} rounds are over"
    if problem and len(over) == len(started):
        return EntryState(
            Stage.DONE, JobPhase.FAILED, started, reason=FlowReason.EXPRESSION_FAILED, message=problem, chosen=chosen
        )
    if ended and len(over) == len(started):
        phase = bad.phase if bad is not None else JobPhase.COMPLETED
        return EntryState(Stage.DONE, phase, started, reason=FlowReason.LOOP, message=message, chosen=chosen)
    wanted = [unit for unit in started if unit.stage in (UnitStage.LOST, UnitStage.RETRYING)]
    if not ended and not problem:
        parallel = max(1, node.entry.loop.parallel) if node.entry.loop is not None else 1
        free = parallel - (len(started) - len(over))
        wanted += [unit for unit in rounds if not unit.has_started][: max(0, free)]
    has_run = any(unit.phase not in (JobPhase.NEW, JobPhase.PENDING) for unit in started)
    return EntryState(
        Stage.STARTED if started else Stage.WAITING,
        JobPhase.RUNNING if has_run else JobPhase.PENDING,
        started,
        tuple(wanted),
        reason=FlowReason.EXPRESSION_FAILED if problem else FlowReason.LOOP if started else FlowReason.STARTING,
        message=problem or message,
        chosen=chosen,
    )

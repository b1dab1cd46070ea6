"""Judges the entries of a flow one after the other, and the rounds of loops: how far each is, and which Jobs to create now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyroclast.api.enums import EntryPhase, FlowPhase, FlowReason, JobPhase
from pyroclast.api.records import MOST_ROUNDS, FlowJobStatus
from pyroclast.lifecycle.flow.choices import chosen_by_switch, condition_holds, knows_codes, variables_of
from pyroclast.lifecycle.flow.dependencies import Met, judge_dependencies
from pyroclast.lifecycle.flow.expressions import ExpressionProblem, holds, round_values, value_of
from pyroclast.lifecycle.flow.facts import FlowFacts, Node, ProbeRequest
from pyroclast.lifecycle.flow.jobs import job_name
from pyroclast.lifecycle.flow.patch import PatchError
from pyroclast.lifecycle.flow.references import substituted, text_of
from pyroclast.lifecycle.flow.units import BAD_ENDS, EntryState, Stage, Unit, UnitStage, items_of, rounds_of, unit_of
from pyroclast.lifecycle.flow.uses import patch_of

_ENDED = (FlowPhase.SUCCEED, FlowPhase.FAILED)


@dataclass(slots=True)
class Judgement:
    """The state of each entry, by name, and the probes to run while entries wait.

    `rounds`: the number of rounds of all loops until now. `no_items`: why the items of a loop have no value, by entry.
    `unrecorded`: whether an entry waits until the status of the flow has outputs.
    """

    states: dict[str, EntryState] = field(default_factory=dict)
    probes: list[ProbeRequest] = field(default_factory=list)
    rounds: int = 0
    no_items: dict[str, str] = field(default_factory=dict)
    unrecorded: bool = False


def judge(facts: FlowFacts) -> Judgement:
    """Judge all entries. In a flow that has ended, no new Job is wanted."""
    known = {each.name: each for each in facts.flow.status.job_status_list}
    judgement = Judgement(rounds=sum(rounds_of(node.entry) or 0 for node in facts.graph.nodes.values()))
    for name in facts.graph.order:
        judgement.states[name] = _entry(facts, facts.graph.nodes[name], known, judgement)
    for name in facts.graph.cyclic:
        judgement.states[name] = _wait(FlowReason.CYCLE, "it is part of a cycle of dependencies, or waits for one")
    judgement.states = {name: judgement.states[name] for name in facts.graph.nodes}
    return judgement


def _entry(facts: FlowFacts, node: Node, known: dict[str, FlowJobStatus], judgement: Judgement) -> EntryState:
    if (rounds := rounds_of(node.entry) or 0) > MOST_ROUNDS:  # admission refuses such a loop, but admission may be switched off
        return _wait(FlowReason.LOOP_TOO_LONG, f"its loop would make {rounds} Jobs, at most {MOST_ROUNDS} are possible")
    items = _items(facts, node, known, judgement)
    units = _units(facts, node, known, items)
    if any(unit.has_started for unit in units):
        return _started(facts, node, units, judgement)
    before = facts.flow.status.conditions.get(job_name(facts.flow.metadata.name, node.name))
    if before is not None and before.phase == EntryPhase.SKIPPED:  # it stays skipped, and the entries of its `else` stay chosen
        reason = next((reason for reason in FlowReason if reason == before.reason), None)
        chosen = frozenset(node.entry.otherwise) if reason is FlowReason.CONDITION_FALSE else frozenset()
        return EntryState(Stage.SKIPPED, reason=reason, message=before.message, chosen=chosen)
    if before is not None and (before.phase, before.reason) == (JobPhase.FAILED, FlowReason.EXPRESSION_FAILED):
        return _failed(before.message)
    if before is not None and before.reason == FlowReason.CHOICE_MADE:
        return _choice(node, judgement, facts)
    if before is not None and before.reason == FlowReason.LOOP and not units:
        return _judge_started(facts, node, units, judgement)
    return _waiting(facts, node, units, judgement)


def _items(facts: FlowFacts, node: Node, known: dict[str, FlowJobStatus], judgement: Judgement) -> tuple[str | None, ...]:
    """Return the item of each round of the loop of an entry; one None for an entry without a loop.

    A loop over outputs has no rounds before its value exists. Rounds that were created stay, also when the value changes. If the
    value is no list or number, or makes too many rounds, `judgement.no_items` says so; it matters only if the entry may run.
    """
    loop, states = node.entry.loop, judgement.states
    if loop is None or not loop.items_from:
        return items_of(node.entry)
    name = job_name(facts.flow.metadata.name, node.name)
    there = [
        int(number)
        for other in (*known, *facts.jobs)
        if other.startswith(f"{name}-") and (number := other[len(name) + 1 :]).isdecimal() and str(int(number)) == number
    ]
    created = min(max(there, default=-1) + 1, MOST_ROUNDS)
    needs = [states.get(other) for other in node.needs]
    is_known = all(state is not None and state.is_decided for state in needs) and knows_codes(facts, node, states)
    if not is_known or any(not unit.is_recorded for state in needs if state for unit in state.units if unit.is_over):
        return tuple(map(str, range(created)))
    try:
        items = _texts(value_of(loop.items_from, variables_of(facts, node, states)))
    except ExpressionProblem as problem:
        items, judgement.no_items[node.name] = (), str(problem)
    if judgement.rounds + len(items) > MOST_ROUNDS and not created:
        jobs = judgement.rounds + len(items)
        judgement.no_items[node.name] = f"the loops of the flow would make {jobs} Jobs, at most {MOST_ROUNDS} are possible"
        items = ()
    judgement.rounds += len(items)
    return (*items, *map(str, range(len(items), created)))


def _texts(value: object) -> tuple[str, ...]:
    """Return the items of a loop as texts: the items of a list, or the numbers below a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= MOST_ROUNDS:
            raise ExpressionProblem(f"it makes {value} rounds, from 0 to {MOST_ROUNDS} are possible")
        return tuple(map(str, range(value)))
    if not isinstance(value, list):
        raise ExpressionProblem(f"it must be a list or a number, but is {text_of(value)[:100]}")
    if None in value:
        raise ExpressionProblem(f"item {value.index(None)} of the list is null")
    return tuple(map(text_of, value))


def _units(facts: FlowFacts, node: Node, known: dict[str, FlowJobStatus], items: tuple[str | None, ...]) -> tuple[Unit, ...]:
    """Return the Jobs of an entry; for a loop, those of all rounds. In a flow that has ended, no Job is tried again."""
    flow, entry = facts.flow.metadata.name, node.entry
    retry = None if facts.flow.status.state.phase in _ENDED else entry.retry
    indexes = [None] if entry.loop is None else range(len(items))
    names = [(job_name(flow, entry.name, index), index) for index in indexes]
    return tuple(
        unit_of(name, index, facts.jobs.get(name), known.get(name), retry, item)
        for (name, index), item in zip(names, items, strict=True)
    )


def _started(facts: FlowFacts, node: Node, units: tuple[Unit, ...], judgement: Judgement) -> EntryState:
    """Judge an entry whose Job was created: the entry continues, whatever happens to its targets."""
    state = _judge_started(facts, node, units, judgement)
    if not state.wanted or not node.uses.sources:
        return state
    try:
        return replace(state, values=_values(facts, node, judgement.states))
    except ExpressionProblem as problem:  # a Job that must be created again cannot be
        return _failed(str(problem), units)


def _judge_started(facts: FlowFacts, node: Node, units: tuple[Unit, ...], judgement: Judgement) -> EntryState:
    try:
        chosen = chosen_by_switch(facts, node, judgement.states)
    except ExpressionProblem as problem:
        if all(unit.is_over for unit in units):
            return _failed(str(problem), units)
        chosen = None
    if node.entry.loop is not None:
        return judge_rounds(facts, node, units, chosen, judgement)
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
    try:
        chosen = chosen_by_switch(facts, node, judgement.states)
    except ExpressionProblem as problem:
        return _failed(str(problem))
    names = ", ".join(sorted(chosen or ())) or "nothing"
    return EntryState(
        Stage.DONE, JobPhase.COMPLETED, reason=FlowReason.CHOICE_MADE, message=f"chose {names}", chosen=chosen or frozenset()
    )


def _waiting(facts: FlowFacts, node: Node, units: tuple[Unit, ...], judgement: Judgement) -> EntryState:
    states = judgement.states
    if facts.flow.status.state.phase in _ENDED:
        return _wait(FlowReason.FLOW_FAILED, "the flow has ended, nothing is started any more")
    choosers = [states[name] for name in node.choosers if name in states]
    if choosers and not any(state.chosen and node.name in state.chosen for state in choosers):
        if all(state.chosen is not None for state in choosers):
            return _skip(FlowReason.NOT_CHOSEN, f"not chosen by {', '.join(node.choosers)}")
        return _wait(FlowReason.CHOICE_OPEN, f"waits for the choice of {', '.join(node.choosers)}")
    dependencies = judge_dependencies(facts, node, states)
    match dependencies.met:
        case Met.SKIPPED:
            return _skip(FlowReason.TARGETS_SKIPPED, dependencies.message)
        case Met.NEVER:
            return _skip(FlowReason.TARGET_FAILED, dependencies.message)
        case Met.OPEN:
            judgement.probes += dependencies.probes
            judgement.unrecorded |= dependencies.unrecorded
            unknown = any(name not in facts.graph.nodes for name in node.waits)
            return _wait(FlowReason.UNKNOWN_TARGET if unknown else FlowReason.DEPENDENCIES, dependencies.message)
        case Met.YES:
            return _conditional(facts, node, units, judgement)


def _conditional(facts: FlowFacts, node: Node, units: tuple[Unit, ...], judgement: Judgement) -> EntryState:
    """Judge whether an entry runs whose dependencies are satisfied."""
    try:
        holding = condition_holds(facts, node, judgement.states)
    except ExpressionProblem as problem:
        return _failed(f"if.expression: {problem}")
    if holding is None:
        target = node.entry.condition.target if node.entry.condition is not None else ""
        return _wait(FlowReason.DEPENDENCIES, f"waits for the outcome of {target}")
    if not holding:
        return _skip(FlowReason.CONDITION_FALSE, "its condition does not hold", frozenset(node.entry.otherwise))
    if node.entry.switch is not None and facts.template(node.name) is None:
        return _choice(node, judgement, facts)
    if not knows_codes(facts, node, judgement.states):
        return _wait(FlowReason.DEPENDENCIES, "waits for exit codes")
    try:
        chosen = chosen_by_switch(facts, node, judgement.states)
        values = _values(facts, node, judgement.states)
    except ExpressionProblem as problem:
        return _failed(str(problem))
    if node.name in judgement.no_items:
        return _failed(f"for.itemsFrom: {judgement.no_items[node.name]}")
    if node.entry.loop is not None:
        return replace(judge_rounds(facts, node, units, chosen, judgement), values=values)
    return EntryState(Stage.WAITING, units=units, wanted=units, reason=FlowReason.STARTING, chosen=chosen, values=values)


def _values(facts: FlowFacts, node: Node, states: Mapping[str, EntryState]) -> dict[str, Any]:
    """Return the values of the references in the patch of `node`, by their expressions.

    Raises ExpressionProblem: one has no value, or does not fit its place.
    """
    if not node.uses.fills_patch:
        return {}
    variables, values = variables_of(facts, node, states), {}
    for source in node.uses.sources:
        try:
            values[source] = value_of(source, variables)
        except ExpressionProblem as problem:
            raise ExpressionProblem(f"patch: {source}: {problem}") from None
    try:
        substituted(patch_of(node.entry), lambda reference, _: values.get(reference.source))
    except (PatchError, ValueError) as fault:
        raise ExpressionProblem(str(fault)) from None
    return values


def _failed(message: str, units: tuple[Unit, ...] = ()) -> EntryState:
    """Return the state of an entry that failed because an expression has no value. The entry chooses nothing."""
    return EntryState(
        Stage.DONE, JobPhase.FAILED, units, reason=FlowReason.EXPRESSION_FAILED, message=message, chosen=frozenset()
    )


def _wait(reason: FlowReason, message: str) -> EntryState:
    return EntryState(Stage.WAITING, reason=reason, message=message)


def _skip(reason: FlowReason, message: str, chosen: frozenset[str] = frozenset()) -> EntryState:
    return EntryState(Stage.SKIPPED, reason=reason, message=message, chosen=chosen)


def judge_rounds(
    facts: FlowFacts, node: Node, rounds: tuple[Unit, ...], chosen: frozenset[str] | None, judgement: Judgement
) -> EntryState:
    """Judge a loop whose entry may run.

    Rounds start in order, and at most `parallel` run at a time. No round starts after a round failed for good, or once `until`
    holds. A loop without rounds is done at once. If `until` has no value, the loop fails after its running rounds have ended.
    """
    started = tuple(unit for unit in rounds if unit.has_started)
    over = [unit for unit in started if unit.is_over]
    bad = next((unit for unit in over if unit.phase in BAD_ENDS), None)
    problem = ""
    ended = bad is not None or len(started) == len(rounds)
    until = node.entry.loop.until if node.entry.loop is not None else ""
    is_late = bool(until) and node.uses.reads_outputs and any(not unit.is_recorded for unit in over)
    if is_late and not ended:
        judgement.unrecorded = True  # the next round depends on outputs that the status of the flow must have first
        problem = "waits for the outputs of a round to be recorded"
    elif not ended and over and until:
        values = variables_of(facts, node, judgement.states) | round_values(started, facts.exit_codes)
        try:
            ended = holds(until, values, in_loop=True)
        except ExpressionProblem as fault:
            problem = f"for.until: {fault}"
    message = f"{len(over)} of {len(rounds)} rounds are over"
    if problem and len(over) == len(started) and not is_late:
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
        reason=FlowReason.EXPRESSION_FAILED if problem and not is_late else FlowReason.LOOP if started else FlowReason.STARTING,
        message=problem or message,
        chosen=chosen,
    )

"""`if`, `else` and `switch`: which entries of a flow run next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyroclast.api.enums import JobPhase
from pyroclast.lifecycle.flow.expressions import ExpressionProblem, entry_values, holds
from pyroclast.lifecycle.flow.facts import FlowFacts, Node
from pyroclast.lifecycle.flow.units import EntryState, Stage, States, Unit, UnitStage


def condition_holds(facts: FlowFacts, node: Node, states: States) -> bool | None:
    """Whether the `if` of `node` holds; the dependencies of `node` are satisfied. None while the target has not reached a phase
    that decides.

    If `phase` is empty, the target must have completed. An unfinished phase counts only while the target is in that phase.

    Raises ExpressionProblem: the expression has no value.
    """
    condition = node.entry.condition
    if condition is None:
        return True
    if condition.target:
        holding = _is_in_phase(states.get(condition.target), condition.phase or (JobPhase.COMPLETED,))
        if not holding:
            return holding
    if condition.expression:
        if "exitCode" in condition.expression and _any_missing(node.waits, states, facts.exit_codes):
            return None
        return _is_true(condition.expression, facts, node, states)
    return True


def variables_of(facts: FlowFacts, node: Node, states: States) -> dict[str, Any]:
    """Return the variables of the expressions of `node`, except those of `until`: the entries for which `node` waits."""
    seen = {name: states[name] for name in node.waits if name in states}
    return entry_values(seen, facts.exit_codes, facts.flow.spec.parameters)


def _is_true(expression: str, facts: FlowFacts, node: Node, states: States) -> bool:
    try:
        return holds(expression, variables_of(facts, node, states))
    except ExpressionProblem as problem:
        seen = {name: states[name] for name in node.waits if name in states}
        raise ExpressionProblem(f"{problem}{_unknown_codes(expression, seen, facts.exit_codes)}") from None


def chosen_by_switch(facts: FlowFacts, node: Node, states: States) -> frozenset[str] | None:
    """Return the entries that the `switch` of `node` chooses: those of the first case that holds, else the default entries.

    Return None while the switch is not decided.

    Raises ExpressionProblem: the expression of a case has no value.
    """
    exit_codes = facts.exit_codes
    switch = node.entry.switch
    if switch is None:
        return frozenset()
    state = states.get(switch.on)
    if state is None or not state.is_decided:
        return None
    if any(case.exit_code is not None for case in switch.cases) and _any_missing((switch.on,), states, exit_codes):
        return None
    if node.uses.reads_codes and _any_missing(node.waits, states, exit_codes):
        return None
    if state.stage is Stage.DONE:
        code = exit_code_of(state, exit_codes)
        for number, case in enumerate(switch.cases):
            if case.expression:
                try:
                    if _is_true(case.expression, facts, node, states):
                        return frozenset(case.entries)
                except ExpressionProblem as problem:
                    raise ExpressionProblem(f"switch.cases[{number}].expression: {problem}") from None
                continue
            by_phase = case.phase is None or case.phase is state.phase
            by_code = case.exit_code is None or case.exit_code == code
            if by_phase and by_code and not (case.phase is None and case.exit_code is None):
                return frozenset(case.entries)
    return frozenset(switch.default)


def exit_code_of(state: EntryState, exit_codes: Mapping[str, int | None]) -> int | None:
    """Return the exit code of a done entry; None when the exit code is unknown.

    The exit code is 0 when the entry completed, else the exit code of its first Job that did not complete.
    """
    if state.has_completed:
        return 0
    for unit in state.units:
        if unit.is_over_badly:
            return exit_codes.get(unit.name) if unit.recorded_code is None else unit.recorded_code
    return None


def wants_exit_codes(node: Node) -> frozenset[str]:
    """Return the entries whose exit codes the `if`, `switch` or `for` of `node` reads."""
    entry = node.entry
    wanted: set[str] = set()
    if entry.switch is not None and any(case.exit_code is not None for case in entry.switch.cases):
        wanted.add(entry.switch.on)
    if node.uses.reads_codes:
        wanted.update(node.waits)
    if entry.loop is not None and "exitCode" in entry.loop.until:
        wanted.add(node.name)
    return frozenset(wanted)


def knows_codes(facts: FlowFacts, node: Node, states: States) -> bool:
    """Whether the exit codes that the expressions of `node` read were looked up."""
    return not node.uses.reads_codes or not _any_missing(node.waits, states, facts.exit_codes)


def is_missing(unit: Unit, exit_codes: Mapping[str, int | None]) -> bool:
    """Whether the Job of `unit` ended without completing, and its exit code has not been looked up yet."""
    return unit.is_over_badly and unit.name not in exit_codes and unit.recorded_code is None


def _unknown_codes(expression: str, states: States, exit_codes: Mapping[str, int | None]) -> str:
    """Return the end of an error message that names the Jobs with unknown exit codes that `expression` reads; else empty."""
    if "exitCode" not in expression:
        return ""
    bad = [unit for state in states.values() for unit in state.units if unit.is_over_badly]
    unknown = [unit.name for unit in bad if unit.recorded_code is None and exit_codes.get(unit.name) is None]
    return f" (the exit code of {', '.join(unknown)} is not known: the pods are gone)" if unknown else ""


def _any_missing(names: Iterable[str], states: States, exit_codes: Mapping[str, int | None]) -> bool:
    return any(is_missing(unit, exit_codes) for name in names if name in states for unit in states[name].units)


def _is_in_phase(state: EntryState | None, phases: tuple[JobPhase, ...]) -> bool | None:
    if state is None:
        return None
    if state.stage is Stage.SKIPPED:
        return False
    if state.stage is Stage.DONE:
        return state.phase in phases
    at_work = [unit for unit in state.units if unit.stage in (UnitStage.ALIVE, UnitStage.GOING)]
    passing = any(unit.phase in phases and not unit.phase.is_finished for unit in at_work)
    return True if passing else None

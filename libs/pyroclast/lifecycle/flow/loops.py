"""The rounds of a loop: how many run in parallel, when the next starts, and when the loop has ended."""

from __future__ import annotations

from pyroclast.api.enums import FlowReason, JobPhase
from pyroclast.lifecycle.flow.expressions import ExpressionProblem, holds, round_values
from pyroclast.lifecycle.flow.facts import FlowFacts
from pyroclast.lifecycle.flow.graph import Node
from pyroclast.lifecycle.flow.states import EntryState, Stage
from pyroclast.lifecycle.flow.units import BAD_ENDS, Unit, UnitStage


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
    return EntryState(
        Stage.STARTED if started else Stage.WAITING,
        _together(started),
        started,
        tuple(wanted),
        reason=FlowReason.EXPRESSION_FAILED if problem else FlowReason.LOOP if started else FlowReason.STARTING,
        message=problem or message,
        chosen=chosen,
    )


def _together(started: tuple[Unit, ...]) -> JobPhase:
    """Return the phase of a loop that has not ended: Running once a round has run."""
    waiting = (JobPhase.NEW, JobPhase.PENDING)
    return JobPhase.RUNNING if any(unit.phase not in waiting for unit in started) else JobPhase.PENDING

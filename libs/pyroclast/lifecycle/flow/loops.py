"""The rounds of a loop: how many run, when the next begins, when it has ended."""

from __future__ import annotations

from pyroclast.api.enums import FlowReason, JobPhase
from pyroclast.lifecycle.flow.expressions import ExpressionProblem, holds, round_values
from pyroclast.lifecycle.flow.facts import FlowFacts
from pyroclast.lifecycle.flow.graph import Node
from pyroclast.lifecycle.flow.states import EntryState, Stage
from pyroclast.lifecycle.flow.units import BAD_ENDS, Unit, UnitStage

__all__ = ["judge_rounds"]


def judge_rounds(facts: FlowFacts, node: Node, rounds: tuple[Unit, ...], chosen: frozenset[str] | None) -> EntryState:
    """How far a loop is whose entry may run.

    Rounds begin in order, at most `parallel` run at a time. None begins after one that failed for good, or once `until` holds. A
    loop without rounds is done at once. Where `until` has no value, the loop fails when the rounds that run have ended.
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
    """The phase of a loop at work: Running as soon as one round was."""
    waiting = (JobPhase.NEW, JobPhase.PENDING)
    return JobPhase.RUNNING if any(unit.phase not in waiting for unit in started) else JobPhase.PENDING

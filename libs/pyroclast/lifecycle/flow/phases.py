"""The phases of a flow: the next phase, given the states of the entries."""

from __future__ import annotations

from dataclasses import dataclass

from pyroclast.api.enums import FlowPhase, JobPhase
from pyroclast.lifecycle.flow.graph import Graph
from pyroclast.lifecycle.flow.states import EntryState, Stage, States
from pyroclast.lifecycle.flow.units import UnitStage


@dataclass(frozen=True, slots=True)
class Tally:
    """The facts that determine the phase of a flow.

    `known`: whether any Job was created. `moving`: whether an entry is decided, or a Job runs, has ended, or is to be tried
    again. `failed`: whether an entry failed for good and no other entry reads its outcome. `only_terminated`: whether no such
    failure has phase Failed, and another Job runs or has completed. `done`: whether all entries are decided.
    """

    entries: int
    known: bool
    moving: bool
    failed: bool
    only_terminated: bool
    done: bool


def tally(graph: Graph, states: States) -> Tally:
    """Compute the Tally of all entries."""
    fatal = [state.phase for name, state in states.items() if is_fatal(graph, name, state)]
    return Tally(
        entries=len(graph.nodes),
        known=any(state.units for state in states.values() if state.stage is not Stage.WAITING),
        moving=any(_moves(state) for state in states.values()),
        failed=bool(fatal),
        only_terminated=JobPhase.FAILED not in fatal and any(_goes_well(state) for state in states.values()),
        done=all(state.is_decided for state in states.values()),
    )


def is_fatal(graph: Graph, name: str, state: EntryState) -> bool:
    """Whether an entry makes its flow fail: the entry failed for good, and no `if` or `switch` reads its outcome."""
    return state.has_failed and name not in graph.tolerated


def next_phase(phase: FlowPhase, counted: Tally) -> FlowPhase:
    """Return the phase that follows `phase`, one step. The caller calls again until the phase stays the same.

    A flow has no phase until its first Job is created, unless the flow has no entries.
    """
    match phase:
        case FlowPhase.NEW | FlowPhase.PENDING:
            if counted.entries == 0:
                return FlowPhase.PENDING
            if counted.moving and (not counted.failed or counted.only_terminated):
                return FlowPhase.RUNNING  # if a Job is Terminated, the flow fails one step later
            if counted.failed:
                return FlowPhase.FAILED
            return FlowPhase.PENDING if counted.known else phase
        case FlowPhase.RUNNING:
            if counted.failed:
                return FlowPhase.FAILED
            return FlowPhase.SUCCEED if counted.done else FlowPhase.RUNNING
        case FlowPhase.SUCCEED | FlowPhase.FAILED | FlowPhase.TERMINATING:
            return phase


def _goes_well(state: EntryState) -> bool:
    return any(unit.phase in (JobPhase.RUNNING, JobPhase.COMPLETED) for unit in state.units)


def _moves(state: EntryState) -> bool:
    if state.is_decided:
        return True
    return any(_has_moved(unit.stage, unit.phase) for unit in state.units)


def _has_moved(stage: UnitStage, phase: JobPhase) -> bool:
    return stage in (UnitStage.OVER, UnitStage.RETRYING) or phase is JobPhase.RUNNING

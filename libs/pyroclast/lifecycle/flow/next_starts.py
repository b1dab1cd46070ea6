"""Which of the wanted Jobs are created or deleted now, and why the other wanted Jobs wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyroclast.api.enums import FlowReason
from pyroclast.lifecycle.flow.facts import CreateJob, DeleteJob, Effect, FlowFacts, Node
from pyroclast.lifecycle.flow.units import EntryState, States, Unit, UnitStage

RECHECK: Final = 5.0
"""Seconds after which the controller checks again whether the name of a Job is free."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a wanted Job cannot be created now."""

    reason: FlowReason
    message: str


HELP: Final[Mapping[FlowReason, str]] = {
    FlowReason.JOB_NAME_TAKEN: "delete that Job, or name the flow or the entry differently",
    FlowReason.PATCH_INVALID: "correct the patch of the entry",
    FlowReason.JOB_REFUSED: "correct what the message names in the JobTemplate, the patch or the cluster; it is tried again",
}
"""What helps when a Job is refused, by the reason. A flow just waits for a template that does not exist yet."""


def is_blocked(states: States, obstacles: Mapping[str, Obstacle]) -> bool:
    """Whether no Job of the flow is left that goes on by itself, and a Job is refused."""
    units = (unit for state in states.values() for unit in state.units)
    at_work = (UnitStage.ALIVE, UnitStage.GOING, UnitStage.RETRYING)
    is_refused = any(obstacle.reason in HELP for obstacle in obstacles.values())
    return is_refused and not any(unit.stage in at_work and unit.name not in obstacles for unit in units)


@dataclass(slots=True)
class Starts:
    """The effects, the obstacles by name of the Job, and when to decide again (seconds since the epoch).

    `waits_for_status`: an effect is only possible after the status was written.
    """

    effects: list[Effect] = field(default_factory=list)
    obstacles: dict[str, Obstacle] = field(default_factory=dict)
    recheck_at: float | None = None
    waits_for_status: bool = False

    def wait_until(self, when: float) -> None:
        """Request another decision at `when` (seconds since the epoch) or earlier."""
        self.recheck_at = when if self.recheck_at is None else min(self.recheck_at, when)


def plan_starts(facts: FlowFacts, states: States) -> Starts:
    """Plan each wanted Job independently of the others. A suspended flow starts none."""
    starts = Starts()
    if facts.flow.spec.suspend:
        wanted = (unit.name for state in states.values() for unit in state.wanted)
        starts.obstacles |= dict.fromkeys(wanted, Obstacle(FlowReason.SUSPENDED, "the flow is suspended"))
        return starts
    for name, state in states.items():
        for unit in state.wanted:
            _plan(facts, facts.graph.nodes[name], unit, state, starts)
    return starts


def _plan(facts: FlowFacts, node: Node, unit: Unit, state: EntryState, starts: Starts) -> None:
    if unit.stage is UnitStage.RETRYING:
        if unit.retry_at > facts.now:
            starts.wait_until(unit.retry_at)
            return
        if unit.job is not None:
            if unit.known is None or unit.known.state != unit.phase or unit.known.retries < unit.retries:
                starts.waits_for_status = True  # so that the failure is recorded before the Job is deleted
            elif not unit.job.metadata.is_terminating:
                starts.effects.append(DeleteJob(unit.name, unit.job.metadata.uid))
            return
    stranger, refused = facts.job_named(unit.name), facts.refused.get(unit.name)
    if stranger is not None:
        going = ", which is being deleted" if stranger.metadata.is_terminating else ""
        message = f"there is a Job {unit.name} already that does not belong to this flow{going}"
        starts.obstacles[unit.name] = Obstacle(FlowReason.JOB_NAME_TAKEN, message)
        starts.wait_until(facts.now + RECHECK)
    elif refused is not None and refused.next_try > facts.now:
        starts.obstacles[unit.name] = Obstacle(refused.reason, refused.message)
        starts.wait_until(refused.next_try)
    elif (template := facts.template(node.name)) is None:
        message = f"there is no JobTemplate {node.name} in this namespace"
        starts.obstacles[unit.name] = Obstacle(FlowReason.TEMPLATE_NOT_FOUND, message)
    else:
        retry = unit.retries + 1 if unit.stage is UnitStage.RETRYING else unit.retries
        starts.effects.append(CreateJob(unit.name, node.entry, template, retry, unit.item, state.values))

"""What a decision about a flow may take over from the one before: a flow of 500 entries changes in a few at a time.

A cache changes nothing but the time that a decision takes: what rests on other values than before is worked out anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyroclast.api.enums import EntryPhase, FlowReason
from pyroclast.api.records import FlowJobCondition, FlowJobStatus, Job
from pyroclast.lifecycle.flow.graph import Node
from pyroclast.lifecycle.flow.states import EntryState, Stage, States

__all__ = ["Cache", "JobReport"]


@dataclass(frozen=True, slots=True)
class JobReport:
    """What a status says of `job`, as it was when that was worked out."""

    job: Job
    status: FlowJobStatus
    condition: FlowJobCondition


@dataclass(slots=True)
class Cache:
    """Of one flow with one spec: the states of its entries, and what its status says of its Jobs, by name."""

    has_ended: bool = False
    states: States = field(default_factory=dict)
    reports: dict[str, JobReport] = field(default_factory=dict)

    def state_of(
        self,
        node: Node,
        job: Job | None,
        known: FlowJobStatus | None,
        condition: FlowJobCondition | None,
        states: States,
    ) -> EntryState | None:
        """The state of an entry, if it rests on what it rested on before; None: it has to be judged.

        Args:
            node: the entry.
            job: its Job, while it is there.
            known: what the status says of that.
            condition: what the status says of the entry.
            states: of the entries before it.
        """
        old, entry = self.states.get(node.name), node.entry
        if old is None or entry.loop is not None or entry.switch is not None:
            return None
        if job is not None or known is not None:
            unit = old.units[0] if old.units and old.stage in (Stage.STARTED, Stage.DONE) else None
            return old if unit is not None and unit.job is job and unit.known == known else None
        if old.stage is not Stage.WAITING or old.reason not in (FlowReason.DEPENDENCIES, FlowReason.CHOICE_OPEN):
            return None
        if entry.condition is not None or (entry.depends_on is not None and entry.depends_on.probe is not None):
            return None
        if condition is not None and condition.phase != EntryPhase.WAITING:
            return None
        before = self.states
        for name in node.waits:
            if not _looks_alike(states.get(name), before.get(name)):
                return None
        for name in node.choosers:
            if not _looks_alike(states.get(name), before.get(name)):
                return None
        return old

    def report_of(self, job: Job, known: FlowJobStatus | None, exit_codes: Mapping[str, int | None]) -> JobReport | None:
        """The last report of `job`, if the status says it still and nothing is to be added."""
        report = self.reports.get(job.metadata.name)
        if report is None or report.job is not job or report.status != known:
            return None
        return report if exit_codes.get(job.metadata.name) in (None, report.status.exit_code) else None


def _looks_alike(state: EntryState | None, before: EntryState | None) -> bool:
    """Whether an entry that only waits for another to end sees the same of it."""
    if state is before:
        return True
    if state is None or before is None:
        return False
    return state.stage is before.stage and state.phase is before.phase and state.chosen == before.chosen

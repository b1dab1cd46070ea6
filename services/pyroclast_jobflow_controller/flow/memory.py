"""State of each flow that is not in the cluster. All of this state may be lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyroclast.api.records import FlowSpec, Job, JobFlow
from pyroclast.lifecycle.flow import facts
from pyroclast.lifecycle.flow.facts import Graph, ProbeAnswer, ProbeRequest, Refused
from pyroclast.runtime.reconciler import Memories, Memory


@dataclass(slots=True)
class FlowMemory(Memory):
    """The state of one flow that the controller keeps in memory. It may be lost at any time."""

    spec: FlowSpec = field(default_factory=FlowSpec)
    graph: Graph = field(default_factory=lambda: facts.build(FlowSpec()))
    ghosts: dict[str, Job] = field(default_factory=dict)
    """Jobs that had ended when they were deleted, until the status records their end."""
    refused: dict[str, Refused] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)
    """The number of consecutive refusals by Job name."""
    exit_codes: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    """UID and exit code of ended Jobs, by name."""
    answers: dict[ProbeRequest, ProbeAnswer] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    """UIDs of the Jobs for which a termination Command was created."""
    deleted: set[str] = field(default_factory=set)
    """UIDs of the Jobs that this controller deleted, until the watch shows it. They are no ghosts: their end needs no record."""
    written: str = ""
    """The resourceVersion after the last status write. The watch event of that version needs no reconcile."""

    def forget_ghosts(self, told: Mapping[str, Job]) -> bool:
        """Remove the deleted Jobs whose end the status records, or that a new Job replaces. `told` are the Jobs in the status.

        Return whether any were removed. Then the flow needs another decision, because such a Job may have blocked its successor.
        """
        before = len(self.ghosts)
        self.ghosts = {
            name: ghost
            for name, ghost in self.ghosts.items()
            if (job := told.get(name)) is None or (job is not ghost and job.metadata.uid == ghost.metadata.uid)
        }
        return len(self.ghosts) < before

    def take(self, request: ProbeRequest, answer: ProbeAnswer) -> bool:
        """Store the answer of a probe and remove the older answers. Return whether the answer has changed."""
        if self.answers.get(request) == answer:
            return False
        about = request.entry, request.target
        self.answers = {other: old for other, old in self.answers.items() if (other.entry, other.target) != about}
        self.answers[request] = answer
        return True

    def forget_refusals(self) -> None:
        """Forget all refusals, because the flow or a template has changed and every Job may succeed now."""
        self.refused.clear()
        self.refusals.clear()

    def forget_job(self, name: str) -> None:
        """Remove the state of earlier Jobs with the name `name`, after a new Job was created."""
        for memory in (self.refused, self.refusals, self.ghosts, self.exit_codes):
            memory.pop(name, None)


class FlowMemories(Memories[JobFlow, FlowMemory]):
    """The state of all flows, each with the graph of its current spec."""

    def of(self, record: JobFlow) -> FlowMemory:
        """Return the state of the flow, with the graph of its current spec."""
        memory = super().of(record)
        if memory.spec is not record.spec:
            if memory.spec != record.spec:
                memory.graph = facts.build(record.spec)
                memory.forget_refusals()
            memory.spec = record.spec
        return memory

"""What the controller remembers of each flow beside what the cluster shows. All of it may be lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyroclast.api.records import FlowSpec, Job, JobFlow
from pyroclast.lifecycle.flow import graph
from pyroclast.lifecycle.flow.facts import ProbeAnswer, ProbeRequest, Refused
from pyroclast.lifecycle.flow.graph import Graph
from pyroclast.runtime.reconciler import Memories, Memory

__all__ = ["FlowMemories", "FlowMemory"]


@dataclass(slots=True)
class FlowMemory(Memory):
    """Of one flow."""

    spec: FlowSpec = field(default_factory=FlowSpec)
    graph: Graph = field(default_factory=lambda: graph.build(FlowSpec()))
    ghosts: dict[str, Job] = field(default_factory=dict)
    """Jobs that had ended when they were deleted, until the status says so."""
    refused: dict[str, Refused] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)
    """How often in a row the Job of that name was refused."""
    exit_codes: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    """Of Jobs that ended: uid and exit code."""
    answers: dict[ProbeRequest, ProbeAnswer] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    """Uids of Jobs whose termination was asked for."""
    written: str = ""
    """The resourceVersion of our last write of the status: its echo needs no look."""

    def forget_ghosts(self, told: Mapping[str, Job]) -> bool:
        """The status says how the Jobs that were `told` are: those that are gone, and were told or replaced, can be forgotten.

        Returns whether there were any: then it is to be decided again, as one may be in its own way.
        """
        before = len(self.ghosts)
        self.ghosts = {name: ghost for name, ghost in self.ghosts.items() if _is_news(ghost, told.get(name))}
        return len(self.ghosts) < before

    def take(self, request: ProbeRequest, answer: ProbeAnswer) -> bool:
        """Keep the answer of a probe in place of those before it; whether it is another."""
        if self.answers.get(request) == answer:
            return False
        about = request.entry, request.target
        self.answers = {other: old for other, old in self.answers.items() if (other.entry, other.target) != about}
        self.answers[request] = answer
        return True

    def forget_refusals(self) -> None:
        """What Jobs are made of has changed: all may be tried at once."""
        self.refused.clear()
        self.refusals.clear()

    def forget_job(self, name: str) -> None:
        """A Job of that name was made: what is known of its predecessors is out of date."""
        self.refused.pop(name, None)
        self.refusals.pop(name, None)
        self.ghosts.pop(name, None)
        self.exit_codes.pop(name, None)


def _is_news(ghost: Job, told: Job | None) -> bool:
    """Whether the end of a Job came after what was told of its name."""
    return told is None or (told is not ghost and told.metadata.uid == ghost.metadata.uid)


class FlowMemories(Memories[JobFlow, FlowMemory]):
    """The memories of all flows, each with the graph of its current spec."""

    def of(self, record: JobFlow) -> FlowMemory:
        """The memory of the flow, with the graph of its current spec."""
        memory = super().of(record)
        if memory.spec is not record.spec:
            if memory.spec != record.spec:
                memory.graph = graph.build(record.spec)
                memory.forget_refusals()
            memory.spec = record.spec
        return memory

"""What the controller remembers of each flow beside what the cluster shows. All of it may be lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyroclast.api.records import FlowSpec, Job, JobFlow
from pyroclast.api.types import Key
from pyroclast.kube.workqueue.pacing import Pace
from pyroclast.lifecycle.flow import graph
from pyroclast.lifecycle.flow.cache import Cache
from pyroclast.lifecycle.flow.facts import ProbeAnswer, ProbeRequest, Refused
from pyroclast.lifecycle.flow.graph import Graph

__all__ = ["FlowMemory", "Memories"]


@dataclass(slots=True)
class FlowMemory:
    """Of one flow, that very one (`uid`)."""

    uid: str
    pace: Pace
    spec: FlowSpec
    graph: Graph
    ghosts: dict[str, Job] = field(default_factory=dict)
    """Jobs that had ended when they were deleted, until the status says so."""
    refused: dict[str, Refused] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)
    """How often in a row the Job of that name was refused."""
    exit_codes: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    """Of Jobs that ended: uid and exit code."""
    answers: dict[ProbeRequest, ProbeAnswer] = field(default_factory=dict)
    cache: Cache = field(default_factory=Cache)
    """Of the decision before; for this graph alone."""
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


class Memories:
    """The memories of all flows, by key. A flow that is made anew under a name starts with none."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._by_key: dict[Key, FlowMemory] = {}

    def of(self, flow: JobFlow) -> FlowMemory:
        """The memory of `flow`, with the graph of its current spec."""
        memory = self._by_key.get(flow.key)
        if memory is None or memory.uid != flow.metadata.uid:
            memory = FlowMemory(flow.metadata.uid, Pace(self._clock), flow.spec, graph.build(flow.spec))
            self._by_key[flow.key] = memory
        elif memory.spec is not flow.spec:
            if memory.spec != flow.spec:
                memory.graph, memory.cache = graph.build(flow.spec), Cache()
                memory.forget_refusals()
            memory.spec = flow.spec
        return memory

    def known(self, key: Key) -> FlowMemory | None:
        """The memory of the flow of `key`, if there is one."""
        return self._by_key.get(key)

    def forget(self, key: Key) -> None:
        """The flow is gone."""
        self._by_key.pop(key, None)

    def clear(self, selected: Callable[[Key], bool]) -> None:
        """Forget all flows for which `selected` holds."""
        for key in [key for key in self._by_key if selected(key)]:
            del self._by_key[key]

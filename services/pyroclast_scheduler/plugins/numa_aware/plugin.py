"""The extensions of numa-aware: nodes whose topology manager would reject a pod, scores, and the CPUs of placed pods."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

import numpy as np

from pyroclast.api import keys, records
from pyroclast.api.types import NUMATOPOLOGIES
from pyroclast_scheduler.model.fit_errors import Code, Refusal
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.objects import Watch
from pyroclast_scheduler.model.tasks import Task, TaskFacts
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.plugins.numa_aware.book import NumaAllocations
from pyroclast_scheduler.plugins.numa_aware.layouts import NO_CPUS, Inside
from pyroclast_scheduler.plugins.numa_aware.policies import assigned
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions
from pyroclast_scheduler.session.node_books import NodeBook, Refused
from pyroclast_scheduler.session.outcome import Preparation
from pyroclast_scheduler.session.plugin_session import PluginSession

_MEMORY: Final = "numa-aware"
_HIGHEST: Final = 100


@dataclass(slots=True)
class NodeCpus:
    """The structure of a node, and its free CPUs as bits, including reserved ones."""

    row: int
    inside: Inside
    free: int


class Nodes(NodeBook[NodeCpus, tuple[int, ...]]):
    """The free CPUs of nodes; a claim has those of each container. Evicted pods keep theirs until the Numatopology frees them."""

    def __init__(self, session: PluginSession) -> None:
        super().__init__(session)
        self._book: NumaAllocations = session.ports.memory.setdefault(_MEMORY, NumaAllocations())
        self._table = self._book.table(session.objects(records.Numatopology), session.names)
        session.report.warnings += [
            f"plugin numa-aware: Numatopology {name}: {why}" for name, why in sorted(self._book.problems.items())
        ]
        self._concerned: dict[str, Bools | None] = {}
        self._closed: dict[str, list[Refusal]] = {}

    def coupled_refusals(self, task: Task, plan: PlacementPlan) -> list[Refusal] | None:
        """Return the nodes that would reject the pod; None if NUMA nodes do not matter to it."""
        want = self._book.wanted(task.facts)
        if want is None or not self.wants(task.facts):
            return None
        if want.policy not in self._closed:
            self._closed[want.policy] = self._table.closed(want.policy)
        closed = self._closed[want.policy]
        concerned = self._where(want.policy)
        if concerned is None:
            return [*closed] if want.policy else None
        found = self.refusals(task.facts, concerned & plan.mask)
        # never empty: a node that accepts one such pod may reject the next, so pods are placed one at a time
        return [*closed, *found, Refusal(np.zeros_like(concerned), "")]

    def numa_scores(self, job: Job, task: Task, plan: PlacementPlan, candidates: Bools) -> Floats | None:
        """Return scores for pods with a NUMA policy, up to 100 for the fewest NUMA nodes; None for other pods."""
        del job, plan
        want = self._book.wanted(task.facts)
        concerned = None if want is None or not want.policy else self._where(want.policy)
        if concerned is None:
            return None
        spread = self.scores(task.facts, candidates & concerned).astype(np.int64)
        most = int(spread.max(initial=0))
        return np.asarray(_HIGHEST - _HIGHEST * spread // max(most, 1), dtype=np.float64)

    def wants(self, task: TaskFacts) -> bool:
        """Whether a pod has a NUMA policy or exclusive CPUs."""
        want = self._book.wanted(task)
        return want is not None and (bool(want.policy) or want.takes_cpus)

    def kind(self, task: TaskFacts) -> Hashable:
        """Return the NUMA request of the pod."""
        return self._book.wanted(task)

    def state(self, row: int) -> NodeCpus:
        """Return the free CPUs in the Numatopology of the node, without the CPUs of pods that it does not show yet."""
        inside = self._table.by_row[row]
        if inside is None:
            raise Refused("numa info is empty")
        session = self.session
        held = self._book.held(session.names[row], inside, session.snapshot.residents[row], session.ports.now)
        return NodeCpus(row, inside, inside.free & ~held)

    def examine(self, state: NodeCpus, task: TaskFacts) -> float:
        """Return the number of NUMA nodes that the pod would use."""
        want = self._book.wanted(task)
        if want is None:
            return 0.0
        if want.policy and not state.free:
            raise Refused(NO_CPUS, Code.ERROR)
        failed, spread = self._book.examined(state.inside, state.free & ~state.inside.reserved, want.counts)
        if failed is not None:
            raise Refused(f"container {want.names[failed]} cannot be assigned by numa", Code.UNRESOLVABLE)
        return spread

    def choose(self, state: NodeCpus, task: TaskFacts) -> tuple[int, ...] | None:
        """Return the CPUs of each container, as the kubelet allocates them; None if NUMA nodes do not matter to the pod."""
        want = self._book.wanted(task)
        concerned = None if want is None or not want.takes_cpus else self._where(want.policy)
        if want is None or concerned is None or not concerned[state.row]:
            return None
        return assigned(state.inside.policy, state.inside.layout, state.free & ~state.inside.reserved, want.counts)

    def take(self, state: NodeCpus, task: TaskFacts, claim: tuple[int, ...]) -> None:
        """Mark the CPUs of `claim` as used on the node."""
        del task
        state.free &= ~sum(claim)

    def undo(self, state: NodeCpus, task: TaskFacts, claim: tuple[int, ...]) -> None:
        """Mark the CPUs of `claim` as free on the node."""
        del task
        state.free |= sum(claim)

    def preparation(self, task: Task, row: int) -> Preparation | None:
        """Return the annotation with the number of CPUs on each NUMA node that the session assumed."""
        claim, state = self.claim(task.uid), self.of(row)
        if claim is None or state is None:
            return None
        cpus = sum(claim)
        self._book.assign(self.session.names[row], task.uid, cpus)
        layout = state.inside.layout
        room = zip(layout.numa_ids, layout.room(cpus), strict=True)
        decision = {"numa": {str(numa): {"cpu": str(count)} for numa, count in room if count}}
        return Preparation(annotations={keys.TOPOLOGY_DECISION: json.dumps(decision, separators=(",", ":"))})

    def _where(self, policy: str) -> Bools | None:
        """Return the nodes that must be examined, None if there are none."""
        if policy not in self._concerned:
            self._concerned[policy] = self._table.concerned(policy)
        return self._concerned[policy]


class NumaAware:
    """Places pods with exclusive CPUs on nodes that admit them. Argument `weight` (1): of the score for few NUMA nodes."""

    watches = (Watch(NUMATOPOLOGIES, records.Numatopology, is_of_node=True),)

    def __init__(self, arguments: Arguments) -> None:
        self._weight = arguments.integer("weight", 1)

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of this plugin for one session."""
        nodes = Nodes(session)

        def scores(job: Job, task: Task, plan: PlacementPlan, candidates: Bools) -> Floats | None:
            found = nodes.numa_scores(job, task, plan, candidates)
            return None if found is None else found * self._weight

        return Extensions(
            coupled_predicate=nodes.coupled_refusals,
            retry_when=lambda _task, _plan: (),  # nothing depends on other nodes
            batch_node_order=scores if self._weight else None,
            pre_bind=nodes.preparation,
            moved=nodes.moved,
        )

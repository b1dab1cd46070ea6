"""Filters that depend only on the node and on the pods on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from pyroclast.api import records
from pyroclast_scheduler.model.dimensions import PODS, Ints
from pyroclast_scheduler.model.features import tolerates
from pyroclast_scheduler.model.fit_errors import Code, Refusal
from pyroclast_scheduler.model.node_columns import Bools, Rows
from pyroclast_scheduler.model.shapes import Port
from pyroclast_scheduler.model.tasks import TaskStatus
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.statement import Move

_FORBIDDING: Final = frozenset({"NoSchedule", "NoExecute"})
_CLOSED: Final = records.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_ANYWHERE: Final = "0.0.0.0"


class NodeFilter:
    """The filters of nodes as a predicate. `filters`: the names of the filters that are enabled."""

    def __init__(self, session: PluginSession, filters: frozenset[str]) -> None:
        self._session = session
        self._filters = filters
        self._ports: dict[int, Counter[Port]] = {row: ports.copy() for row, ports in session.snapshot.ports.items()}

    def mask(self, plan: PlacementPlan) -> Bools | None:
        """Return the nodes that are feasible by their node objects."""
        refused = [refusal.nodes for refusal in self._stable(plan)]
        return ~np.logical_or.reduce(refused) if refused else None

    def limits(self, plan: PlacementPlan, rows: Rows) -> Ints | None:
        """Return how many more pods each node accepts, by the number of pods and by host ports."""
        columns = self._session.columns
        room: Ints = columns.allocatable[PODS].take(rows)
        room -= columns.pod_count.take(rows)
        if plan.shape.ports and "NodePorts" in self._filters:
            free = np.fromiter((not self._has_conflict(plan, row) for row in rows.tolist()), dtype=np.int64, count=len(rows))
            room = np.minimum(room, free)
        return room

    def refusals(self, plan: PlacementPlan) -> Sequence[Refusal]:
        """Return which nodes are infeasible for the pods of `plan`, and why."""
        columns = self._session.columns
        full = columns.allocatable[PODS] <= columns.pod_count
        found = [Refusal(full, "node(s) pod number exceeded"), *self._stable(plan)]
        if plan.shape.ports and "NodePorts" in self._filters:
            taken = np.fromiter(
                (self._has_conflict(plan, row) for row in range(columns.nodes)), dtype=np.bool_, count=columns.nodes
            )
            found.append(Refusal(taken, "node(s) didn't have free ports for the requested pod ports"))
        return found

    def moved(self, move: Move, sign: int) -> None:
        """Update the used host ports after a placement or an eviction."""
        if not move.plan.shape.ports:
            return
        change = -sign if move.status is TaskStatus.RELEASING else sign
        for row, count in zip(move.nodes.tolist(), move.counts.tolist(), strict=True):
            ports = self._ports.setdefault(row, Counter())
            for port in move.plan.shape.ports:
                ports[port] += change * count

    def _stable(self, plan: PlacementPlan) -> list[Refusal]:
        """Return the refusals that depend on shape and node object alone, in the order of examination."""
        return plan.once(self, lambda: self._find_stable(plan))

    def _find_stable(self, plan: PlacementPlan) -> list[Refusal]:
        features, shape = self._session.features, plan.shape
        found: list[Refusal] = []
        if not any(tolerates(each, _CLOSED) for each in shape.tolerations):
            found.append(Refusal(features.closed(), "node(s) were unschedulable", Code.UNRESOLVABLE))
        terms = shape.node_terms
        if "NodeAffinity" in self._filters and (shape.selector or terms is not None):
            fits = features.selected(shape.selector)
            if terms is not None:
                fits &= features.matching(terms)
            found.append(Refusal(~fits, "node(s) didn't match Pod's node affinity/selector", Code.UNRESOLVABLE))
        if "TaintToleration" in self._filters:
            tainted = features.untolerated(shape.tolerations, _FORBIDDING)
            found.append(Refusal(tainted, "node(s) had untolerated taint(s)", Code.UNRESOLVABLE))
        return found

    def _has_conflict(self, plan: PlacementPlan, row: int) -> bool:
        taken = self._ports.get(row)
        if not taken:
            return False
        return any(
            count > 0 and (port.protocol, port.number) == (wanted.protocol, wanted.number) and _overlap(port.ip, wanted.ip)
            for port, count in taken.items()
            for wanted in plan.shape.ports
        )


def _overlap(a: str, b: str) -> bool:
    return a == b or _ANYWHERE in {a, b}

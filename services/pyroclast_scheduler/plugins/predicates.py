"""Plugin predicates: where a pod may run at all, by the rules of Kubernetes' own scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np

from pyroclast.api import records
from pyroclast_scheduler.framework.arguments import Arguments
from pyroclast_scheduler.framework.jobs import Task
from pyroclast_scheduler.framework.plans import Plan
from pyroclast_scheduler.framework.plugin import Hooks
from pyroclast_scheduler.framework.points import Point
from pyroclast_scheduler.framework.reasons import Code, Refusal
from pyroclast_scheduler.framework.session import Session
from pyroclast_scheduler.framework.statement import Move
from pyroclast_scheduler.model.columns import Bools
from pyroclast_scheduler.model.dimensions import PODS, Ints
from pyroclast_scheduler.model.shapes import Port
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.placement import affinity, spread
from pyroclast_scheduler.placement.features import tolerates
from pyroclast_scheduler.placement.greedy import Rows

__all__ = ["FILTERS", "Predicates"]

FILTERS: Final = (
    "NodeUnschedulable",
    "NodeAffinity",
    "NodePorts",
    "TaintToleration",
    "InterPodAffinity",
    "NodeVolumeLimits",
    "VolumeZone",
    "PodTopologySpread",
    "VolumeBinding",
)
_FORBIDDING: Final = frozenset({"NoSchedule", "NoExecute"})
_CLOSED: Final = records.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_ANYWHERE: Final = "0.0.0.0"
_SWITCHES: Final = {
    "predicate.NodeAffinityEnable": "NodeAffinity",
    "predicate.NodePortsEnable": "NodePorts",
    "predicate.TaintTolerationEnable": "TaintToleration",
    "predicate.PodAffinityEnable": "InterPodAffinity",
    "predicate.NodeVolumeLimitsEnable": "NodeVolumeLimits",
    "predicate.VolumeZoneEnable": "VolumeZone",
    "predicate.PodTopologySpreadEnable": "PodTopologySpread",
    "predicate.VolumeBindingEnable": "VolumeBinding",
}


class Predicates:
    """The switches `predicate.<Name>Enable` turn single filters off."""

    def __init__(self, arguments: Arguments) -> None:
        off = {name for key, name in _SWITCHES.items() if not arguments.boolean(key, default=True)}
        arguments.boolean("predicate.CacheEnable", default=False)
        arguments.known.add("predicate.DynamicResourceAllocationEnable")
        self.filters = tuple(name for name in FILTERS if name not in off)

    def open(self, session: Session) -> Hooks:
        """Register."""
        nodes = _NodeFilter(session, frozenset(self.filters))
        hooks: dict[Point, Any] = {Point.FILTER: nodes, Point.EVENTS: nodes.moved}
        if session.snapshot.is_coupled and {"InterPodAffinity", "PodTopologySpread"} & set(self.filters):
            hooks[Point.COUPLED_FILTER] = lambda task, plan: _coupled(session, task, plan, self.filters)
        return hooks


def _coupled(session: Session, task: Task, plan: Plan, filters: Collection[str]) -> list[Refusal] | None:
    """What depends on where other pods are; None if nothing does."""
    del plan
    facts, company, features = task.facts, session.company, session.features
    found: list[Refusal] = []
    has_affinity = "InterPodAffinity" in filters and affinity.is_concerned(facts, company)
    if has_affinity:
        for refused, reason, code in (
            (affinity.far_from_friends(facts, company, features), "node(s) didn't match pod affinity rules", Code.UNRESOLVABLE),
            (affinity.near_foes(facts, company, features), "node(s) didn't match pod anti-affinity rules", Code.UNSCHEDULABLE),
            (
                affinity.near_those_who_mind(facts, company, features),
                "node(s) didn't satisfy existing pods anti-affinity rules",
                Code.UNSCHEDULABLE,
            ),
        ):
            if refused is not None:
                found.append(Refusal(refused, reason, code))
    crowding = spread.too_crowded(facts, company, features, session.usable) if "PodTopologySpread" in filters else None
    if crowding is not None:
        reason = "node(s) didn't match pod topology spread constraints"
        found.append(Refusal(crowding[0], f"{reason} (missing required label)", Code.UNRESOLVABLE))
        found.append(Refusal(crowding[1], reason))
    return found if has_affinity or crowding is not None else None


class _NodeFilter:
    """Everything that depends on the node and what is on it, but not on pods elsewhere."""

    def __init__(self, session: Session, filters: frozenset[str]) -> None:
        self._session = session
        self._filters = filters
        self._ports: dict[int, Counter[Port]] = {row: ports.copy() for row, ports in session.snapshot.ports.items()}

    def mask(self, plan: Plan) -> Bools | None:
        refused = [refusal.nodes for refusal in self._stable(plan)]
        return ~np.logical_or.reduce(refused) if refused else None

    def limits(self, plan: Plan, rows: Rows) -> Ints | None:
        columns = self._session.columns
        room: Ints = columns.allocatable[PODS, rows] - columns.pod_count[rows]
        if plan.shape.ports and "NodePorts" in self._filters:
            free = np.fromiter((not self._has_conflict(plan, row) for row in rows.tolist()), dtype=np.int64, count=len(rows))
            room = np.minimum(room, free)
        return room

    def refusals(self, plan: Plan) -> Sequence[Refusal]:
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
        """Keep the ports in step with placements and evictions."""
        if not move.plan.shape.ports:
            return
        change = -sign if move.status is TaskStatus.RELEASING else sign
        for row, count in zip(move.nodes.tolist(), move.counts.tolist(), strict=True):
            ports = self._ports.setdefault(row, Counter())
            for port in move.plan.shape.ports:
                ports[port] += change * count

    def _stable(self, plan: Plan) -> list[Refusal]:
        """What depends on shape and node alone, in the order of examination."""
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

    def _has_conflict(self, plan: Plan, row: int) -> bool:
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

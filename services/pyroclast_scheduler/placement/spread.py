"""Topology spread: pods of a kind divided evenly among zones, nodes or other domains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from pyroclast_scheduler.model.columns import Bools, Floats
from pyroclast_scheduler.model.tasks import TaskFacts
from pyroclast_scheduler.placement.company import Company, Term, own_terms
from pyroclast_scheduler.placement.features import NodeFeatures

__all__ = ["evenness", "too_crowded"]

_HOST: Final = "kubernetes.io/hostname"


def too_crowded(task: TaskFacts, company: Company, features: NodeFeatures, usable: Bools) -> tuple[Bools, Bools] | None:
    """Nodes that lack a label which hard constraints need, and nodes whose domain is too full; None without such constraints."""
    constraints = list(_constraints(task, "DoNotSchedule"))
    if not constraints:
        return None
    domains = [features.domains(term.key) for _, term in constraints]
    has_all: Bools = np.logical_and.reduce([each.has for each in domains])
    eligible = usable & has_all & _admitted(task, features)
    crowded: Bools = np.zeros(len(usable), dtype=np.bool_)
    for (constraint, term), each in zip(constraints, domains, strict=True):
        sums = each.sums(company.matching(term, but_leaving=True), eligible)
        present = np.unique(each.codes[eligible])
        lowest = sums[present].min() if len(present) >= int(constraint.get("minDomains") or 1) and len(present) else 0
        skew = sums[each.codes] + term.takes_in(task) - lowest
        crowded |= each.has & (skew > int(constraint.get("maxSkew") or 1))
    return ~has_all, crowded


def evenness(task: TaskFacts, company: Company, features: NodeFeatures, candidates: Bools) -> Floats | None:
    """0 to 100: how much each node would help to spread by the soft constraints; None without any."""
    constraints = list(_constraints(task, "ScheduleAnyway"))
    if not constraints:
        return None
    raw = np.zeros(len(candidates))
    ignored: Bools = np.zeros(len(candidates), dtype=np.bool_)
    for constraint, term in constraints:
        domains = features.domains(term.key)
        ignored |= ~domains.has
        among = candidates & domains.has
        size = int(among.sum()) if term.key == _HOST else len(np.unique(domains.codes[among]))
        counts = domains.sums(company.matching(term, but_leaving=True), _admitted(task, features))[domains.codes]
        raw += counts * np.log(size + 2) + int(constraint.get("maxSkew") or 1) - 1
    rated = candidates & ~ignored
    if not rated.any():
        return None
    raw = np.round(raw)
    low, high = raw[rated].min(), raw[rated].max()
    scores = np.full(len(candidates), 100.0) if high == 0 else np.floor(100 * (high + low - raw) / high)
    return np.where(ignored, 0.0, scores)


def _constraints(task: TaskFacts, when: str) -> Iterator[tuple[Mapping[str, Any], Term]]:
    for constraint in task.shape.spread:
        if constraint.get("whenUnsatisfiable", "DoNotSchedule") == when:
            yield constraint, own_terms(task, [constraint])[0]


def _admitted(task: TaskFacts, features: NodeFeatures) -> Bools:
    """Nodes that the pod's node selector and required node affinity admit: only these are compared."""
    admitted = features.selected(task.shape.selector)
    terms = task.shape.node_terms
    return admitted if terms is None else admitted & features.matching(terms)

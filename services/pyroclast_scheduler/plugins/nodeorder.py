"""Plugin nodeorder: which node is best, by the rules of Kubernetes' own scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from pyroclast_scheduler.framework.arguments import Arguments
from pyroclast_scheduler.framework.jobs import Task
from pyroclast_scheduler.framework.plans import Load, Plan
from pyroclast_scheduler.framework.plugin import Hooks
from pyroclast_scheduler.framework.points import Point
from pyroclast_scheduler.framework.session import Session
from pyroclast_scheduler.model.columns import Bools, Floats
from pyroclast_scheduler.model.dimensions import CPU, MEMORY, Ints
from pyroclast_scheduler.placement import affinity, spread

__all__ = ["NodeOrder"]

_DEFAULTS: Final = {
    "leastrequested": 1,
    "mostrequested": 0,
    "balancedresource": 1,
    "nodeaffinity": 2,
    "podaffinity": 2,
    "tainttoleration": 3,
    "imagelocality": 1,
    "podtopologyspread": 2,
}
_BEST: Final = 100
_GPU: Final = "nvidia.com/gpu"
_SOFT: Final = frozenset({"PreferNoSchedule"})


class NodeOrder:
    """`<sub-score>.weight`; 0 switches a sub-score off."""

    def __init__(self, arguments: Arguments) -> None:
        self._weights = {name: arguments.integer(f"{name}.weight", weight) for name, weight in _DEFAULTS.items()}

    def open(self, session: Session) -> Hooks:
        """Register what weighs something."""
        weights = self._weights
        gpu = session.dimensions.find(_GPU)
        parts = [(name, measure) for name, measure in _TOGETHER.items() if weights[name]]

        def alone(plan: Plan, load: Load) -> Floats:
            capacity = load.allocatable[:2].astype(np.float64)
            safe = np.maximum(capacity, 1.0)
            known = (capacity > 0).sum(axis=0)
            total: Floats = np.zeros(load.used.shape[1:])
            if weights["leastrequested"] or weights["mostrequested"]:
                after = load.non_zero + plan.non_zero[:, None, None]
                if weights["leastrequested"]:
                    total += weights["leastrequested"] * _least(after, capacity, safe, known)
                if weights["mostrequested"]:
                    total += weights["mostrequested"] * _most(after, capacity, safe, known)
            if weights["balancedresource"]:
                total += weights["balancedresource"] * _balanced(plan, load, safe, known, gpu)
            return total

        def together(task: Task, plan: Plan, candidates: Bools) -> Floats | None:
            found = [
                weights[name] * scores
                for name, measure in parts
                if (scores := measure(session, task, plan, candidates)) is not None
            ]
            return np.sum(found, axis=0) if found else None

        return {Point.NODE_ORDER: alone, Point.BATCH_NODE_ORDER: together}


def _least(after: Ints, capacity: Floats, safe: Floats, known: Ints) -> Floats:
    """How much is left, of cpu and memory alike, in hundredths."""
    left = np.floor((capacity - after) * _BEST / safe)
    scores: Floats = np.floor(np.maximum(left, 0.0).sum(axis=0) / np.maximum(known, 1))
    return scores


def _most(after: Ints, capacity: Floats, safe: Floats, known: Ints) -> Floats:
    """How much is taken, of cpu and memory alike, in hundredths."""
    scores: Floats = np.floor(np.floor(np.minimum(after, capacity) * _BEST / safe).sum(axis=0) / np.maximum(known, 1))
    return scores


def _balanced(plan: Plan, load: Load, safe: Floats, known: Ints, gpu: int | None) -> Floats:
    """How much more evenly cpu, memory and GPUs would be taken with the pod than without; 0 for a pod that asks for none."""
    has_gpu = gpu is not None and plan.request[gpu] > 0
    if not plan.request[:2].any() and not has_gpu:
        return np.zeros(load.used.shape[1:])
    rows = [CPU, MEMORY]
    if has_gpu and gpu is not None:
        rows.append(gpu)
        capacity = load.allocatable[rows]
        safe, known = np.maximum(capacity, 1.0), (capacity > 0).sum(axis=0)
    used = load.used[rows]
    has = load.allocatable[rows] > 0
    before = _evenness(used, has, safe, known)
    after = _evenness(used + plan.request[rows, None, None], has, safe, known)
    return 50.0 + np.trunc((50.0 + after - before) / 2)


def _evenness(used: Ints, has: Bools, safe: Floats, known: Ints) -> Floats:
    """100 when all dimensions are taken alike, less by their standard deviation; dimensions that a node lacks do not count."""
    parts = np.where(has, np.minimum(used / safe, 1.0), 0.0)
    if len(parts) == 2:  # half the distance: the root of the square would lose the last bit
        deviation = np.where(known == 2, np.abs(parts[0] - parts[1]) / 2, 0.0)
    else:
        mean = parts.sum(axis=0) / np.maximum(known, 1)
        variance = (np.where(has, parts - mean, 0.0) ** 2).sum(axis=0) / np.maximum(known, 1)
        deviation = np.sqrt(variance)
        pair = known == 2
        if pair.any():
            low, high = np.where(has, parts, np.inf).min(axis=0), parts.max(axis=0)
            deviation = np.where(pair, (high - low) / 2, deviation)
    return np.trunc((1.0 - deviation) * _BEST)


def _node_affinity(session: Session, _task: Task, plan: Plan, candidates: Bools) -> Floats | None:
    """Weights of the preferred terms that a node matches, the best candidate being 100."""
    terms = plan.shape.preferred("nodeAffinity")
    if not terms:
        return None
    raw = plan.once(_node_affinity, lambda: _term_weights(session, terms))
    highest = raw[candidates].max(initial=0.0)
    return np.floor(_BEST * raw / highest) if highest else None


def _term_weights(session: Session, terms: Sequence[Mapping[str, Any]]) -> Floats:
    total = np.zeros(len(session.names))
    for term in terms:
        total += int(term.get("weight") or 0) * session.features.matching([term.get("preference") or {}])
    return total


def _taints(session: Session, _task: Task, plan: Plan, candidates: Bools) -> Floats | None:
    """100 for nodes without soft taints that the pod minds, 0 for the candidate with the most; None if none has any."""
    counts = plan.once(_taints, lambda: session.features.count_untolerated(plan.shape.tolerations, _SOFT))
    highest = counts[candidates].max(initial=0.0)
    return _BEST - np.floor(_BEST * counts / highest) if highest else None


def _pod_affinity(session: Session, task: Task, _plan: Plan, candidates: Bools) -> Floats | None:
    """Whom the pod would rather be near, and who would rather have it near."""
    if not session.snapshot.is_coupled:
        return None
    return affinity.preference(task.facts, session.company, session.features, candidates)


def _spread(session: Session, task: Task, plan: Plan, candidates: Bools) -> Floats | None:
    """How evenly the pod's kind would be spread."""
    if not plan.shape.spread:
        return None
    return spread.evenness(task.facts, session.company, session.features, candidates)


_TOGETHER: Final = {
    "nodeaffinity": _node_affinity,
    "podaffinity": _pod_affinity,
    "tainttoleration": _taints,
    "podtopologyspread": _spread,
}

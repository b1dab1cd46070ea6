"""Plugin nodeorder: which node is best, by the rules of Kubernetes' own scheduler."""

from __future__ import annotations

from typing import Final

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
            total = np.zeros(np.broadcast_shapes(load.used.shape[1:], load.rows.shape))
            if weights["leastrequested"]:
                total += weights["leastrequested"] * _least(plan, load)
            if weights["mostrequested"]:
                total += weights["mostrequested"] * _most(plan, load)
            if weights["balancedresource"]:
                total += weights["balancedresource"] * _balanced(plan, load, gpu)
            return total

        def together(task: Task, plan: Plan, candidates: Bools) -> Floats | None:
            found = [
                weights[name] * scores
                for name, measure in parts
                if (scores := measure(session, task, plan, candidates)) is not None
            ]
            return np.sum(found, axis=0) if found else None

        return {Point.NODE_ORDER: alone, Point.BATCH_NODE_ORDER: together}


def _least(plan: Plan, load: Load) -> Ints:
    """How much is left, of cpu and memory alike, in hundredths."""
    total: Ints = np.zeros_like(load.non_zero[0])
    dimensions: Ints = np.zeros_like(total)
    for i, row in enumerate((CPU, MEMORY)):
        capacity = load.allocatable[row]
        after = load.non_zero[i] + plan.non_zero[i]
        total = total + np.where(after > capacity, 0, (capacity - after) * _BEST // np.maximum(capacity, 1))
        dimensions = dimensions + (capacity > 0)
    return total // np.maximum(dimensions, 1)


def _most(plan: Plan, load: Load) -> Ints:
    """How much is taken, of cpu and memory alike, in hundredths."""
    total: Ints = np.zeros_like(load.non_zero[0])
    dimensions: Ints = np.zeros_like(total)
    for i, row in enumerate((CPU, MEMORY)):
        capacity = load.allocatable[row]
        after = np.minimum(load.non_zero[i] + plan.non_zero[i], capacity)
        total = total + after * _BEST // np.maximum(capacity, 1)
        dimensions = dimensions + (capacity > 0)
    return total // np.maximum(dimensions, 1)


def _balanced(plan: Plan, load: Load, gpu: int | None) -> Ints | Floats:
    """How much more evenly cpu, memory and GPUs would be taken with the pod than without; 0 for a pod that asks for none."""
    rows = [CPU, MEMORY]
    if gpu is not None and plan.request[gpu]:
        rows.append(gpu)
    if not any(plan.request[row] for row in rows):
        return np.zeros(load.used.shape[1:])
    after = _evenness(load, rows, plan.request)
    before = _evenness(load, rows, np.zeros_like(plan.request))
    return 50 + np.trunc((50 + after - before) / 2)


def _evenness(load: Load, rows: list[int], extra: Ints) -> Ints:
    capacity = np.stack(np.broadcast_arrays(*(load.allocatable[row] + 0 * load.used[row] for row in rows)))
    used = np.stack([load.used[row] + extra[row] for row in rows])
    has = capacity > 0
    parts = np.where(has, np.minimum(1.0, used / np.maximum(capacity, 1)), 0.0)
    count = has.sum(axis=0)
    mean = parts.sum(axis=0) / np.maximum(count, 1)
    variance = (np.where(has, parts - mean, 0.0) ** 2).sum(axis=0) / np.maximum(count, 1)
    if len(rows) == 2:  # half the distance, as the original computes it: the root of the square loses the last bit
        deviation = np.where(count == 2, np.abs(parts[0] - parts[1]) / 2, 0.0)
    else:
        deviation = np.where(count > 1, np.sqrt(variance), 0.0)
    scores: Ints = ((1 - deviation) * _BEST).astype(np.int64)
    return scores


def _node_affinity(session: Session, _task: Task, plan: Plan, candidates: Bools) -> Floats | None:
    """Weights of the preferred terms that a node matches, the best candidate being 100."""
    terms = plan.shape.preferred("nodeAffinity")
    if not terms:
        return None
    raw = np.zeros(len(candidates))
    for term in terms:
        raw += int(term.get("weight") or 0) * session.features.matching([term.get("preference") or {}])
    highest = raw[candidates].max(initial=0.0)
    return np.floor(_BEST * raw / highest) if highest else None


def _taints(session: Session, _task: Task, plan: Plan, candidates: Bools) -> Floats | None:
    """100 for nodes without soft taints that the pod minds, 0 for the candidate with the most; None if none has any."""
    counts = session.features.count_untolerated(plan.shape.tolerations, _SOFT)
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

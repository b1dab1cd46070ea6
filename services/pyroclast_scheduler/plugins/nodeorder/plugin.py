"""What nodeorder registers: the sub-scores of Kubernetes' own scheduler, weighed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from pyroclast.api import records
from pyroclast.api.types import NAMESPACES, REPLICA_SETS, SERVICES, STATEFUL_SETS
from pyroclast_scheduler.model.columns import Bools, Floats
from pyroclast_scheduler.model.dimensions import CPU, MEMORY, Ints
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.objects import Watch
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.placement import affinity, spread
from pyroclast_scheduler.placement.plans import Load, Plan
from pyroclast_scheduler.plugins.nodeorder.defaults import DefaultSpread
from pyroclast_scheduler.plugins.nodeorder.images import locality
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.points import Extensions
from pyroclast_scheduler.session.session import Session

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
_Measure = Callable[[Session, Task, Plan, Bools], Floats | None]
_SOFT: Final = frozenset({"PreferNoSchedule"})


class NodeOrder:
    """`<sub-score>.weight`; 0 switches a sub-score off."""

    watches = (
        Watch(NAMESPACES, records.Namespace),
        Watch(SERVICES, records.Service),
        Watch(REPLICA_SETS, records.ReplicaSet),
        Watch(STATEFUL_SETS, records.StatefulSet),
    )

    def __init__(self, arguments: Arguments) -> None:
        self._weights = {name: arguments.integer(f"{name}.weight", weight) for name, weight in _DEFAULTS.items()}

    def open(self, session: Session) -> Extensions:
        """Register what weighs something."""
        weights = self._weights
        gpu = session.dimensions.find(_GPU)
        relative_parts = [(name, measure) for name, measure in _RELATIVE.items() if weights[name]]
        parts: list[tuple[str, _Measure]] = [("podaffinity", _pod_affinity)] if weights["podaffinity"] else []
        if weights["podtopologyspread"]:
            parts.append(("podtopologyspread", partial(_spread, DefaultSpread(session))))

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
            if weights["imagelocality"]:
                images = plan.once(locality, lambda: locality(plan.shape, session.features, session.usable))
                if images is not None:
                    total += weights["imagelocality"] * images[load.rows]
            return total

        def together(_job: Job, task: Task, plan: Plan, candidates: Bools) -> Floats | None:
            found = [
                weights[name] * scores
                for name, measure in parts
                if (scores := measure(session, task, plan, candidates)) is not None
            ]
            return np.sum(found, axis=0) if found else None

        def relative(plan: Plan, candidates: Bools) -> Floats | None:
            measured = [(weights[name], measure(session, plan, candidates)) for name, measure in relative_parts]
            found = [weight * scores for weight, scores in measured if scores is not None]
            return np.sum(found, axis=0) if found else None

        return Extensions(node_order=alone, relative_node_order=relative, batch_node_order=together)


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


def _node_affinity(session: Session, plan: Plan, candidates: Bools) -> Floats | None:
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


def _taints(session: Session, plan: Plan, candidates: Bools) -> Floats | None:
    """100 for nodes without soft taints that the pod minds, 0 for the candidate with the most; None if none has any."""
    counts = plan.once(_taints, lambda: session.features.count_untolerated(plan.shape.tolerations, _SOFT))
    highest = counts[candidates].max(initial=0.0)
    return _BEST - np.floor(_BEST * counts / highest) if highest else None


def _pod_affinity(session: Session, task: Task, _plan: Plan, candidates: Bools) -> Floats | None:
    """Whom the pod would rather be near, and who would rather have it near."""
    if not session.snapshot.is_coupled:
        return None
    return affinity.preference(task.facts, session.term_counts, session.features, candidates)


def _spread(default: DefaultSpread, session: Session, task: Task, plan: Plan, candidates: Bools) -> Floats | None:
    """How evenly the pod's kind would be spread."""
    constraints = () if plan.shape.spread else default.constraints(task.facts)
    if not plan.shape.spread and not constraints:
        return None
    return spread.evenness(task.facts, session.term_counts, session.features, candidates, constraints)


_RELATIVE: Final = {"nodeaffinity": _node_affinity, "tainttoleration": _taints}

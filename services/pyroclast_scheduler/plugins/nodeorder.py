"""Plugin nodeorder: scores of nodes by the rules of kube-scheduler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from pyroclast.api import records
from pyroclast.api.types import NAMESPACES, REPLICA_SETS, SERVICES, STATEFUL_SETS
from pyroclast.resources.selectors import is_empty, matches
from pyroclast_scheduler.model.dimensions import CPU, MEMORY, Ints
from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Floats, Rows
from pyroclast_scheduler.model.objects import Watch
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.tasks import Task, TaskFacts
from pyroclast_scheduler.placement import affinity
from pyroclast_scheduler.placement.plans import Load, PlacementPlan
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions
from pyroclast_scheduler.session.plugin_session import PluginSession

_MIB: Final = 2**20
_LEAST: Final = 23 * _MIB
_MOST: Final = 1000 * _MIB  # per container
_CONSTRAINTS: Final = (("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5))
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
_Measure = Callable[[PluginSession, Task, PlacementPlan, Bools], Floats | None]
_SOFT: Final = frozenset({"PreferNoSchedule"})


def locality(shape: Shape, features: NodeFeatures, usable: Bools) -> Floats | None:
    """Return a score (0 to 100) by image sizes, each times the fraction of nodes with the image; None if no node has any."""
    total = int(usable.sum())
    if not shape.images or not total:
        return None
    found = np.zeros(len(usable))
    for name in shape.images:
        sizes = features.image(_normal(name))
        found += np.trunc(sizes * (np.count_nonzero(sizes[usable]) / total))
    if not found.any():
        return None
    most = _MOST * len(shape.images)
    return np.floor(100 * (np.clip(found, _LEAST, most) - _LEAST) / (most - _LEAST))


def _normal(name: str) -> str:
    """Return the name of an image with its tag."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


class DefaultSpread:
    """The selectors of services and workloads in one session."""

    def __init__(self, session: PluginSession) -> None:
        self._session = session
        self._sets: Mapping[str, Mapping[str, records.ReplicaSet | records.StatefulSet]] = {
            "ReplicaSet": session.objects(records.ReplicaSet),
            "StatefulSet": session.objects(records.StatefulSet),
        }

    def constraints(self, task: TaskFacts) -> Sequence[Mapping[str, Any]]:
        """Return the default soft constraints of a pod; empty if it belongs to no service or workload."""
        meta = task.pod.metadata
        labels: dict[str, str] = {}
        for service in self._session.objects_in(records.Service, task.namespace):
            selector = service.spec.selector
            if selector and matches({"matchLabels": selector}, meta.labels):
                labels |= selector
        expressions: list[Mapping[str, Any]] = []
        owner = meta.controller
        workload = self._sets.get(owner.kind, {}).get(f"{task.namespace}/{owner.name}") if owner is not None else None
        if workload is not None and workload.metadata.uid == (owner.uid if owner is not None else ""):
            own = workload.spec.selector or {}
            labels |= own.get("matchLabels") or {}
            expressions = list(own.get("matchExpressions") or ())
        found = {"matchLabels": labels, "matchExpressions": expressions}
        if is_empty(found):
            return ()
        return [
            {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": found}
            for key, skew in _CONSTRAINTS
        ]


class NodeOrder:
    """The plugin nodeorder. Its arguments are `<sub-score>.weight`; the weight 0 disables a sub-score."""

    watches = (
        Watch(NAMESPACES, records.Namespace),
        Watch(SERVICES, records.Service),
        Watch(REPLICA_SETS, records.ReplicaSet),
        Watch(STATEFUL_SETS, records.StatefulSet),
    )

    def __init__(self, arguments: Arguments) -> None:
        self._weights = {name: arguments.integer(f"{name}.weight", weight) for name, weight in _DEFAULTS.items()}

    def open(self, session: PluginSession) -> Extensions:
        """Return the sub-scores with a weight."""
        weights = self._weights
        gpu = session.dimensions.find(_GPU)
        relative_parts = [(name, measure) for name, measure in _RELATIVE.items() if weights[name]]
        parts: list[tuple[str, _Measure]] = [("podaffinity", _pod_affinity)] if weights["podaffinity"] else []
        if weights["podtopologyspread"]:
            parts.append(("podtopologyspread", partial(_spread, DefaultSpread(session))))

        scale = _Scale(session.columns.allocatable[:2], session.snapshot.is_ready)

        def alone(plan: PlacementPlan, load: Load) -> Floats:
            total: Floats = np.zeros(load.used.shape[:0:-1]).T
            nodes = scale.at(load.rows[:, 0])
            if weights["leastrequested"]:
                total += _weighed(weights["leastrequested"], _least(load.non_zero_after, nodes))
            if weights["mostrequested"]:
                total += _weighed(weights["mostrequested"], _most(load.non_zero_after, nodes))
            if weights["balancedresource"]:
                total += _weighed(weights["balancedresource"], _balanced(plan, load, nodes, gpu))
            if weights["imagelocality"]:
                images = plan.once(locality, lambda: locality(plan.shape, session.features, session.nodes.usable))
                if images is not None:
                    total += weights["imagelocality"] * images[load.rows]
            return total

        def together(_job: Job, task: Task, plan: PlacementPlan, candidates: Bools) -> Floats | None:
            found = [
                weights[name] * scores
                for name, measure in parts
                if (scores := measure(session, task, plan, candidates)) is not None
            ]
            return np.sum(found, axis=0) if found else None

        def relative(plan: PlacementPlan, candidates: Bools) -> Floats | None:
            measured = [(weights[name], measure(session, plan, candidates)) for name, measure in relative_parts]
            found = [weight * scores for weight, scores in measured if scores is not None]
            return np.sum(found, axis=0) if found else None

        return Extensions(node_order=alone, relative_node_order=relative, batch_node_order=together)


class _Nodes(NamedTuple):
    """The cpu and memory of nodes, arrays (dimensions, nodes, 1) and (nodes, 1).

    `whole`: the capacity, infinite if it is missing, so that its ratio is 0. `known`: the number of present dimensions, at least
    1. `half`: 0.5 if both dimensions are present, else 0. If all nodes have both, `known` and `half` are numbers.
    """

    capacity: Floats
    whole: Floats
    known: Floats | float
    half: Floats | float


class _Scale:
    """The values of all nodes that are constant in a session. Scores of nodes that are not ready are not used."""

    def __init__(self, allocatable: Ints, is_ready: Bools) -> None:
        has = allocatable > 0
        self._is_plain = bool((has | ~is_ready).all())
        if self._is_plain:  # the usual case
            self._all: Floats = np.where(has, allocatable, 1.0)
            return
        known = has.sum(axis=0)
        whole = np.where(has, allocatable, np.inf)
        self._all = np.vstack((allocatable, whole, np.maximum(known, 1), np.where(known == len(has), 0.5, 0.0)))

    def at(self, rows: Rows) -> _Nodes:
        found = self._all.take(rows, axis=1)[:, :, None]
        return _Nodes(found, found, 2.0, 0.5) if self._is_plain else _Nodes(found[:2], found[2:4], found[4], found[5])


def _weighed(weight: int, scores: Floats) -> Floats:
    return scores if weight == 1 else weight * scores


def _least(after: Ints, nodes: _Nodes) -> Floats:
    """Return the mean of the free fractions of cpu and memory, in percent."""
    left = nodes.capacity - after
    left *= _BEST
    left /= nodes.whole
    np.maximum(np.floor(left, out=left), 0.0, out=left)
    scores: Floats = (left[0] + left[1]) / nodes.known
    return np.floor(scores, out=scores)


def _most(after: Ints, nodes: _Nodes) -> Floats:
    """Return the mean of the used fractions of cpu and memory, in percent."""
    taken = np.floor(np.minimum(after, nodes.capacity) * _BEST / nodes.whole)
    scores: Floats = np.floor((taken[0] + taken[1]) / nodes.known)
    return scores


def _balanced(plan: PlacementPlan, load: Load, nodes: _Nodes, gpu: int | None) -> Floats:
    """Return how much more evenly cpu, memory and GPUs would be used with the pod than without; equal for best effort."""
    has_gpu = gpu is not None and plan.asks_for(gpu)
    if not has_gpu and not plan.asks_for(CPU) and not plan.asks_for(MEMORY):
        return np.zeros(load.used.shape[1:])
    if has_gpu and gpu is not None:
        rows = [CPU, MEMORY, gpu]
        evenness = _evenness_of_three(load.taken[rows], load.allocatable[rows])
    else:
        evenness = _evenness(load.taken[:2], nodes)
    scores: Floats = evenness[:, 1:] - evenness[:, :-1]
    scores += 50.0
    scores /= 2
    np.trunc(scores, out=scores)
    scores += 50.0
    return scores


def _evenness(used: Ints, nodes: _Nodes) -> Floats:
    """Return 100 less the standard deviation of the used fractions of cpu and memory. A missing dimension does not count."""
    parts = used / nodes.whole
    np.minimum(parts, 1.0, out=parts)
    deviation: Floats = parts[0] - parts[1]  # halved below: the root of a square would lose the last bit
    np.abs(deviation, out=deviation)
    deviation *= nodes.half
    return _hundredths(deviation)


def _evenness_of_three(used: Ints, capacity: Ints) -> Floats:
    """Return the same as `_evenness` for more than two dimensions."""
    has = capacity > 0
    known = has.sum(axis=0)
    parts = np.minimum(used / np.where(has, capacity, np.inf), 1.0)
    mean = parts.sum(axis=0) / np.maximum(known, 1)
    variance = (np.where(has, parts - mean, 0.0) ** 2).sum(axis=0) / np.maximum(known, 1)
    deviation: Floats = np.sqrt(variance)
    pair = known == 2
    if pair.any():
        low, high = np.where(has, parts, np.inf).min(axis=0), parts.max(axis=0)
        deviation = np.where(pair, (high - low) / 2, deviation)
    return _hundredths(deviation)


def _hundredths(deviation: Floats) -> Floats:
    scores: Floats = 1.0 - deviation
    scores *= _BEST
    return np.trunc(scores, out=scores)


def _node_affinity(session: PluginSession, plan: PlacementPlan, candidates: Bools) -> Floats | None:
    """Return the weights of the preferred terms that match a node, scaled to 100 for the best candidate."""
    terms = plan.shape.preferred("nodeAffinity")
    if not terms:
        return None
    raw = plan.once(_node_affinity, lambda: _term_weights(session, terms))
    highest = raw[candidates].max(initial=0.0)
    return np.floor(_BEST * raw / highest) if highest else None


def _term_weights(session: PluginSession, terms: Sequence[Mapping[str, Any]]) -> Floats:
    total = np.zeros(len(session.names))
    for term in terms:
        total += int(term.get("weight") or 0) * session.features.matching([term.get("preference") or {}])
    return total


def _taints(session: PluginSession, plan: PlacementPlan, candidates: Bools) -> Floats | None:
    """Return 100 for nodes without untolerated soft taints, 0 for the candidate with most of them; None if no node has any."""
    counts = plan.once(_taints, lambda: _if_any(session.features.count_untolerated(plan.shape.tolerations, _SOFT)))
    if counts is None:
        return None
    highest = counts[candidates].max(initial=0.0)
    return _BEST - np.floor(_BEST * counts / highest) if highest else None


def _if_any(counts: Floats) -> Floats | None:
    return counts if counts.any() else None


def _pod_affinity(session: PluginSession, task: Task, _plan: PlacementPlan, candidates: Bools) -> Floats | None:
    if not session.snapshot.is_coupled:
        return None
    return affinity.preference(task.facts, session.term_counts, session.features, candidates)


def _spread(default: DefaultSpread, session: PluginSession, task: Task, plan: PlacementPlan, candidates: Bools) -> Floats | None:
    constraints = () if plan.shape.spread else default.constraints(task.facts)
    if not plan.shape.spread and not constraints:
        return None
    return affinity.evenness(task.facts, session.term_counts, session.features, candidates, constraints)


_RELATIVE: Final = {"nodeaffinity": _node_affinity, "tainttoleration": _taints}

"""Plugin network-topology-aware: pods of a gang are placed close together, and full hypernodes are filled first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from pyroclast.api import records
from pyroclast.api.types import HYPER_NODES
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.hypernodes import HyperNode, HyperNodes, job_limit, sub_job_limit
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Columns, Floats
from pyroclast_scheduler.model.objects import Watch
from pyroclast_scheduler.model.subjobs import SubJob
from pyroclast_scheduler.model.tasks import ALLOCATED, Task, TaskStatus
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions, Purpose
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.statement import Move

_PREFIX = "hypernode.binpack"
_BEST = 100.0
_PLACED = ALLOCATED | {TaskStatus.PIPELINED}


@dataclass(frozen=True, slots=True)
class TopologySettings:
    """The arguments of the plugin. `resources`: the weights of resources, including cpu and memory.

    `scores_normal_pods`: whether pods without a topology get scores. `fading`: the weight of a tier relative to that below.
    `most_evict_hyper_nodes`: how many hypernodes are examined for evictions.
    """

    weight: int = 1
    resources: Mapping[str, int] = field(default_factory=lambda: {"cpu": 1, "memory": 1})
    scores_normal_pods: bool = True
    fading: float = 0.8
    most_evict_hyper_nodes: int = 8

    @classmethod
    def of(cls, arguments: Arguments) -> TopologySettings:
        """Return the settings that the arguments of the plugin define."""
        listed = filter(None, map(str.strip, arguments.text(f"{_PREFIX}.resources", "").split(",")))
        weights = {name: arguments.integer(f"{_PREFIX}.resources.{name}", 1, least=0) for name in listed}
        weights["cpu"] = arguments.integer(f"{_PREFIX}.cpu", 1, least=0)
        weights["memory"] = arguments.integer(f"{_PREFIX}.memory", 1, least=0)
        return cls(
            arguments.integer("weight", 1, least=0),
            weights,
            arguments.boolean(f"{_PREFIX}.normal-pod.enable", default=True),
            arguments.number(f"{_PREFIX}.normal-pod.fading", 0.8, least=0),
            arguments.integer("hypernode.gradient.evict.max-hypernodes", 8, least=1),
        )


class Sums:
    """Sums over hypernodes, calculated on first use. Only the used amounts follow changes during the session."""

    def __init__(self, columns: Columns, hyper_nodes: HyperNodes) -> None:
        self._hyper_nodes = hyper_nodes
        self._used = columns.used.copy()
        self._changed: list[int] = []  # rows in the order of their changes
        self._used_sums: dict[str, tuple[int, Ints]] = {}
        self.allocatable = _Summed(columns.allocatable, hyper_nodes)
        self.idle, self.future = _Summed(columns.idle(), hyper_nodes), _Summed(columns.future_idle(), hyper_nodes)

    def used(self, name: str) -> Ints:
        """Return the used amounts of a hypernode in the present state."""
        seen, found = self._used_sums.get(name, (-1, None))
        is_same = seen >= 0 and not self._hyper_nodes[name].nodes[self._changed[seen:]].any()
        if found is None or not is_same:
            found = self._used[:, self._hyper_nodes.rows(name)].sum(axis=1)
        self._used_sums[name] = len(self._changed), found
        return found

    def moved(self, row: int, change: Ints | Floats) -> None:
        """Add `change` to the used amounts of node `row`."""
        self._used[:, row] += change.astype(np.int64)
        self._changed.append(row)


class _Summed(dict[str, Ints]):
    """Sums over the nodes of hypernodes, by name."""

    def __init__(self, amounts: Ints, hyper_nodes: HyperNodes) -> None:
        self._amounts, self._hyper_nodes = amounts, hyper_nodes

    def __missing__(self, name: str) -> Ints:
        total: Ints = self._amounts[:, self._hyper_nodes.rows(name)].sum(axis=1)
        self[name] = total
        return total


def filling(allocatable: Ints, used: Ints, request: Ints, weights: Sequence[tuple[int, int]]) -> float:
    """Return how full a hypernode would be with `request`, 0 to 1, by `weights` (row, weight); 0 if it does not fit."""
    total = whole = 0.0
    for row, weight in weights:
        if request[row] <= 0:
            continue
        after = used[row] + request[row]
        if after > allocatable[row]:
            return 0.0
        whole += weight
        total += weight * after / allocatable[row]
    return total / whole if whole > 0 else 0.0


def closeness(hyper_nodes: HyperNodes, allocated: str, tasks: Mapping[str, int], whole: int) -> Floats:
    """Return how near each node is to the hypernode `allocated`, from 0 to 1. The nearest nodes get more for tasks beside them.

    `allocated` contains all placed tasks. `tasks`: their number in each lowest hypernode. `whole`: the number of all tasks.
    """
    tiers = hyper_nodes.tiers
    span = tiers[-1] - tiers[0]
    scores = np.zeros(len(hyper_nodes.top.nodes))
    beside = np.zeros_like(scores)
    for name, rows in hyper_nodes.lowest_groups.items():
        common = hyper_nodes.common(name, allocated)
        if name == allocated:
            scores[rows] = 1.0
        elif common:
            scores[rows] = (tiers[-1] - hyper_nodes[common].tier) / span if span else 1.0
        beside[rows] = tasks.get(name, 0)
    is_best = scores == scores.max(initial=0.0)
    if is_best.sum() >= 2 and whole:
        scores = np.where(is_best, scores + beside / whole, scores)
    return scores


def normal(hyper_nodes: HyperNodes, sums: Sums, request: Ints, weights: Sequence[tuple[int, int]], fading: float) -> Floats:
    """Return scores for pods without a topology. Nodes of full hypernodes, or of none, get more.

    The weight of a tier is `fading` times that of the tier below it.
    """
    scores = np.zeros(len(hyper_nodes.top.nodes))
    whole = 0.0
    for tier in hyper_nodes.tiers:
        power = fading ** (tier - 1)
        whole += power
        part = np.ones_like(scores)
        for each in hyper_nodes.of_tier(tier):
            part[hyper_nodes.rows(each.name)] = filling(sums.allocatable[each.name], sums.used(each.name), request, weights)
        scores += power * part
    return scores / whole if whole else scores


def search_root(hyper_nodes: HyperNodes, inside: HyperNode, allocated: str, limit: int) -> HyperNode | None:
    """Return where at or below `inside` the search starts; None if no hypernode fits the one that contains pods already."""
    if not allocated:
        return inside
    allowed = [each for each in hyper_nodes.ancestors(allocated) if each.tier <= limit]
    if not allowed:
        return None
    highest = allowed[-1]
    common = hyper_nodes.common(inside.name, highest.name)
    if common == highest.name:
        return inside
    return highest if common == inside.name else None


def gradient(
    hyper_nodes: HyperNodes, root: HyperNode, limit: int, has_room: Callable[[HyperNode], bool]
) -> list[list[HyperNode]]:
    """Return `root` and its descendants up to tier `limit` for which `has_room` is true, by tier, lowest first."""
    by_tier: dict[int, list[HyperNode]] = {}
    level = [root]
    while level:
        for each in level:
            if each.tier <= limit and has_room(each):
                by_tier.setdefault(each.tier, []).append(each)
        level = [hyper_nodes[name] for each in level for name in each.children if name in hyper_nodes]
    return [by_tier[tier] for tier in sorted(by_tier)]


def cut(found: Sequence[Sequence[HyperNode]], most: int) -> list[list[HyperNode]]:
    """Return `most` hypernodes at most, the highest tiers first, and of a tier that exceeds the number the last ones."""
    kept: list[list[HyperNode]] = []
    for tier in reversed(found):
        room = most - sum(map(len, kept))
        if room <= 0:
            break
        kept.append(list(tier[-room:]))
    return kept


class NetworkTopologyAware:
    """The plugin network-topology-aware. For its arguments, see `TopologySettings`."""

    watches = (Watch(HYPER_NODES, records.HyperNode),)

    def __init__(self, arguments: Arguments) -> None:
        self._settings = TopologySettings.of(arguments)

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of this plugin for one session."""
        network = _Network(session, self._settings)
        return Extensions(
            hyper_node_order=network.order,
            hyper_node_gradient=network.gradient,
            batch_node_order=network.scores if len(session.hyper_nodes) > 1 else None,
            moved=network.moved,
        )


class _Network:
    def __init__(self, session: PluginSession, settings: TopologySettings) -> None:
        self._session = session
        self._settings = settings
        self._all = session.hyper_nodes
        found = ((session.dimensions.find(name), weight) for name, weight in settings.resources.items())
        self._weights = [(row, weight) for row, weight in found if row is not None]
        self._sums = Sums(session.columns, self._all)
        self._lowest = np.zeros(len(session.names), dtype=np.intp)
        self._groups = list(self._all.lowest_groups.items())
        for at, (_, rows) in enumerate(self._groups):
            self._lowest[rows] = at

    def gradient(
        self, job: Job, sub_job: SubJob | None, inside: HyperNode, purpose: Purpose
    ) -> Sequence[Sequence[HyperNode]] | None:
        if sub_job is None:
            limit, allocated = job_limit(job, self._all), job.allocated_hyper_node
        else:
            limit, allocated = sub_job_limit(job, sub_job, self._all), sub_job.allocated_hyper_node
        if limit is None:
            return [[inside]]
        root = search_root(self._all, inside, allocated, limit)
        if root is None:
            return None
        need = self._need(job, sub_job)

        def has_room(each: HyperNode) -> bool:
            sums, name = self._sums, each.name
            if allocated:
                return True
            if purpose is Purpose.EVICT:
                return bool((need <= sums.allocatable[name]).all())
            return bool((need <= sums.idle[name]).all() or (need <= sums.future[name]).all())

        found = gradient(self._all, root, limit, has_room)
        return cut(found, self._settings.most_evict_hyper_nodes) if purpose is Purpose.EVICT else found

    def order(self, job: Job, sub_job: SubJob, candidates: Sequence[HyperNode]) -> Floats:
        """Return how full each hypernode would be with the whole sub-job; of the fullest, those with its tasks get more."""
        del job
        request = np.sum([self._session.plan(task.facts.shape).request for task in sub_job.tasks], axis=0)
        sums = self._sums
        scores = np.array(
            [filling(sums.allocatable[each.name], sums.used(each.name), request, self._weights) for each in candidates]
        )
        is_best = scores == scores.max()
        if is_best.sum() >= 2:
            rows = [task.row for task in sub_job.tasks if task.status in _PLACED and task.row >= 0]
            there = np.array([each.nodes[rows].sum() for each in candidates]) / len(sub_job.tasks)
            scores = np.where(is_best, scores + there, scores)
        return scores * (_BEST * self._settings.weight)

    def scores(self, job: Job, task: Task, plan: PlacementPlan, candidates: Bools) -> Floats | None:
        """Return scores by closeness, or for pods without a topology by fullness; None if there is only one lowest hypernode."""
        if len(np.unique(self._lowest[candidates])) < 2:
            return None
        scale = _BEST * self._settings.weight
        is_limited = job.is_divided or job.facts.group.spec.network_topology is not None
        sub_job = job.sub_job_of(task) if is_limited else None
        if sub_job is None or sub_job_limit(job, sub_job, self._all) is None:
            if not self._settings.scores_normal_pods:
                return None
            return normal(self._all, self._sums, plan.request, self._weights, self._settings.fading) * scale
        placed = [each.row for each in sub_job.tasks if each.status in _PLACED and each.row >= 0]
        counts = Counter(self._groups[self._lowest[row]][0] for row in placed)
        allocated = reduce(self._all.common, sorted(counts), sub_job.allocated_hyper_node)
        if not allocated:
            return np.zeros(len(candidates))  # the first pod is free, and later pods follow it
        return closeness(self._all, allocated, counts, len(sub_job.tasks)) * scale

    def moved(self, move: Move, sign: int) -> None:
        if len(self._all) > 1 and move.status is not TaskStatus.PIPELINED:
            each = sign * move.change // len(move.tasks)
            for row, count in zip(move.nodes.tolist(), move.counts.tolist(), strict=True):
                self._sums.moved(row, each * count)

    def _need(self, job: Job, sub_job: SubJob | None) -> Ints | Floats:
        nothing: Ints = np.zeros(len(self._session.dimensions), dtype=np.int64)
        if sub_job is None:
            minimum = job.facts.minimum(self._session.dimensions)
            return nothing if minimum is None else minimum
        waiting = (task.facts.shape for task in sub_job.tasks if task.status is TaskStatus.PENDING)
        total: Ints = np.sum([nothing, *(self._session.plan(shape).request for shape in waiting)], axis=0)
        return total

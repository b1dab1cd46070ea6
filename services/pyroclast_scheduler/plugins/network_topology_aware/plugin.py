"""The extensions of network-topology-aware: the possible hypernodes of a gang, and the scores of hypernodes and nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce

import numpy as np

from pyroclast.api import records
from pyroclast.api.types import HYPER_NODES
from pyroclast_scheduler.model.hypernodes import HyperNode
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.objects import Watch
from pyroclast_scheduler.model.statuses import ALLOCATED, TaskStatus
from pyroclast_scheduler.model.subjobs import SubJob
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.model.topology import job_limit, sub_job_limit
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.plugins.network_topology_aware.gradient import cut, gradient, search_root
from pyroclast_scheduler.plugins.network_topology_aware.scores import Sums, closeness, filling, normal, weights_of
from pyroclast_scheduler.plugins.network_topology_aware.settings import TopologySettings
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions, Purpose
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Move

_BEST = 100.0
_PLACED = ALLOCATED | {TaskStatus.PIPELINED}


class NetworkTopologyAware:
    """The plugin network-topology-aware. For its arguments, see `TopologySettings`."""

    watches = (Watch(HYPER_NODES, records.HyperNode),)

    def __init__(self, arguments: Arguments) -> None:
        self._settings = TopologySettings.of(arguments)

    def open(self, session: Session) -> Extensions:
        """Return the extensions of this plugin for one session."""
        network = _Network(session, self._settings)
        return Extensions(
            hyper_node_order=network.order,
            hyper_node_gradient=network.gradient,
            batch_node_order=network.scores if len(session.hyper_nodes) > 1 else None,
            moved=network.moved,
        )


class _Network:
    """The hypernodes of a session with their used amounts."""

    def __init__(self, session: Session, settings: TopologySettings) -> None:
        self._session = session
        self._settings = settings
        self._all = session.hyper_nodes
        self._weights = weights_of(settings.resources, session.dimensions)
        self._sums = Sums(session.columns, self._all)
        self._lowest = np.zeros(len(session.names), dtype=np.intp)
        self._groups = list(self._all.lowest_groups.items())
        for at, (_, rows) in enumerate(self._groups):
            self._lowest[rows] = at

    def gradient(
        self, job: Job, sub_job: SubJob | None, inside: HyperNode, purpose: Purpose
    ) -> Sequence[Sequence[HyperNode]] | None:
        """Return hypernodes at or below `inside` that may contain the job or sub-job and have room for its request."""
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
        """Return for each hypernode how full it would be with the whole sub-job.

        Of the fullest hypernodes, those with tasks of the sub-job get a higher score.
        """
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
        """Return scores by closeness for pods with a topology, and by fullness of hypernodes for others.

        Return None if all candidates are in the same lowest hypernode.
        """
        if len(np.unique(self._lowest[candidates])) < 2:
            return None
        scale = _BEST * self._settings.weight
        sub_job = job.sub_job_of(task) if self._is_limited(job) else None
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
        """Update the used amounts of the hypernodes after a placement or an eviction."""
        if len(self._all) > 1 and move.status is not TaskStatus.PIPELINED:
            each = sign * move.change // len(move.tasks)
            for row, count in zip(move.nodes.tolist(), move.counts.tolist(), strict=True):
                self._sums.moved(row, each * count)

    def _is_limited(self, job: Job) -> bool:
        return job.is_divided or job.facts.group.spec.network_topology is not None

    def _need(self, job: Job, sub_job: SubJob | None) -> Floats:
        if sub_job is None:
            minimum = job.facts.minimum(self._session.dimensions)
            return np.zeros(len(self._session.dimensions), dtype=np.int64) if minimum is None else minimum
        waiting = [task for task in sub_job.tasks if task.status is TaskStatus.PENDING]
        requests = [self._session.plan(task.facts.shape).request for task in waiting]
        return np.sum(requests, axis=0) if requests else np.zeros(len(self._session.dimensions), dtype=np.int64)

"""Plugin rescheduling: from time to time, pods are evicted from the most used nodes if others have room (action shuffle)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pyroclast_scheduler.model.dimensions import CPU, MEMORY
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Candidate, Extensions
from pyroclast_scheduler.session.plugin_session import PluginSession

_STRATEGY: Final = "lowNodeUtilization"
_LAST: Final = "rescheduling.last"
_TRIED: Final = "rescheduling.tried"
_DEFAULT_THRESHOLD: Final = 100.0
_QOS: Final = {"BestEffort": 0, "Burstable": 1, "Guaranteed": 2}
_DIMENSIONS: Final = ("cpu", "memory")


class Rescheduling:
    """Arguments: `interval` (5m), `metricsPeriod` (10m, the period of the measurements), `strategies`.

    The only strategy is `lowNodeUtilization` with `thresholds` and `targetThresholds`, percentages of `cpu` and `memory` (100).
    """

    def __init__(self, arguments: Arguments) -> None:
        self._interval = arguments.seconds("interval", "5m")
        self._window = arguments.text("metricsPeriod", "10m")
        arguments.known.add("strategies")
        listed = arguments.get("strategies") or [{"name": _STRATEGY}]
        if not isinstance(listed, list) or not all(isinstance(each, Mapping) for each in listed):
            arguments.warnings.append(f"argument strategies: {listed!r} is not a list of names with params; none is used")
            listed = []
        arguments.warnings += [f"strategy {each.get('name')} is unknown" for each in listed if each.get("name") != _STRATEGY]
        chosen = [each.get("params") or {} for each in listed if each.get("name") == _STRATEGY]
        self._thresholds = [
            (_percentages(arguments, params, "thresholds"), _percentages(arguments, params, "targetThresholds"))
            for params in chosen
        ]

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions, none before the interval is over."""
        memory, now = session.ports.memory, session.ports.now
        if now - memory.setdefault(_LAST, now) < self._interval:
            return Extensions()
        memory[_LAST] = now

        def victims(candidates: Sequence[Candidate], /) -> list[Candidate]:
            loads = [_Load.of(session, self._window, *each) for each in self._thresholds]
            tried: _Tried = memory.setdefault(_TRIED, _Tried())
            is_high = np.logical_or.reduce([each.is_high for each in loads] or [np.zeros(len(session.names), dtype=np.bool_)])
            movable = tried.movable(session, candidates, is_high)
            chosen: dict[str, Candidate] = {}
            for load in loads:
                for job, task in _overloading(session, load, movable):
                    chosen[task.uid] = (job, task)
            for job, _ in chosen.values():
                tried.moved.setdefault(job.facts.key, now)
            return list(chosen.values())

        return Extensions(victim_tasks=victims)


@dataclass(slots=True)
class _Tried:
    """The jobs whose pods were evicted in vain, so that evictions end while the demand stays the same.

    A job is in vain if a pod that replaced an evicted one is on a node that is high. None of its pods is evicted again, so that
    at most the pods that were there at first are evicted, each once.

    Attributes:
        moved: when the first pod of a job was evicted, by key of the job.
        in_vain: the keys of the jobs.
        cluster: the nodes and jobs to which both apply.
    """

    moved: dict[str, float] = field(default_factory=dict)
    in_vain: set[str] = field(default_factory=set)
    cluster: tuple[object, ...] = ()

    def movable(self, session: PluginSession, candidates: Sequence[Candidate], is_high: Bools) -> list[Candidate]:
        """Return the candidates of jobs that were not evicted in vain. `is_high`: a mask of the nodes that are high now."""
        cluster = (tuple(session.names), frozenset(session.snapshot.all_jobs))
        if cluster != self.cluster:
            self.cluster = cluster
            self.moved.clear()
            self.in_vain.clear()
        for job, task in candidates:
            since = self.moved.get(job.facts.key)
            if since is not None and task.facts.created >= since and is_high[task.row]:
                self.in_vain.add(job.facts.key)
        return [each for each in candidates if each[0].facts.key not in self.in_vain]


@dataclass(slots=True)
class _Load:
    """The use of nodes in percent by cpu and memory, (2, nodes), the targets, and masks of the nodes that are low and high."""

    usage: Floats
    targets: Floats
    is_low: Bools
    is_high: Bools

    @classmethod
    def of(cls, session: PluginSession, window: str, thresholds: Floats, targets: Floats) -> _Load:
        usage, is_known = _usage(session, window)
        is_low = is_known & session.nodes.usable & (usage < thresholds[:, None]).all(axis=0) & ~session.features.closed()
        return cls(usage, targets, is_low, is_known & ~is_low & (usage > targets[:, None]).any(axis=0))


def _overloading(session: PluginSession, load: _Load, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return pods to evict from the fullest nodes, the least important first, as long as the underused nodes have room."""
    usage, targets, is_high = load.usage, load.targets, load.is_high
    allocatable = session.columns.allocatable[[CPU, MEMORY]].astype(np.float64)
    room = (np.maximum(targets[:, None] - usage, 0) / 100 * allocatable)[:, load.is_low].sum(axis=1)
    chosen: list[Candidate] = []
    for row in sorted(np.flatnonzero(is_high).tolist(), key=lambda row: -usage[:, row].sum()):
        here = [each for each in candidates if each[1].row == row and each[1].facts.is_preemptable]
        here.sort(key=lambda each: _importance(each[1]))
        for job, task in here:
            if (usage[:, row] < targets).all() or (room <= 0).any():
                break
            request = session.plan(task.facts.shape).request[[CPU, MEMORY]]
            chosen.append((job, task))
            room -= request
            usage[:, row] -= request / np.maximum(allocatable[:, row], 1) * 100
    return chosen


def _usage(session: PluginSession, window: str) -> tuple[Floats, Bools]:
    """Return the percentages of cpu and memory in use, (2, nodes), and a mask of the measured nodes."""
    measured = session.ports.usage.usage()
    usage = np.zeros((2, len(session.names)))
    is_known = np.zeros(len(session.names), dtype=np.bool_)
    for row, name in enumerate(session.names):
        found = measured.get(name)
        if found is not None and window in found.cpu and window in found.memory:
            usage[:, row] = found.cpu[window], found.memory[window]
            is_known[row] = True
    return usage, is_known


def _importance(task: Task) -> tuple[float, int, str]:
    pod = task.facts.pod
    priority = -np.inf if pod.spec.priority is None else float(pod.spec.priority)
    return priority, _QOS.get(pod.status.qos_class, 1), task.facts.key


def _percentages(arguments: Arguments, params: object, key: str) -> Floats:
    given = params.get(key) or {} if isinstance(params, Mapping) else params
    values = [given.get(name, _DEFAULT_THRESHOLD) for name in _DIMENSIONS] if isinstance(given, Mapping) else [None]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return np.array(values, dtype=np.float64)
    arguments.warnings.append(f"{_STRATEGY}.{key}: percentages of cpu and memory are wanted, not {given!r}; using 100")
    return np.full(len(_DIMENSIONS), _DEFAULT_THRESHOLD)

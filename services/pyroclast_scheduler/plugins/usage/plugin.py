"""What usage registers: full nodes take nobody, and the one that is used least is the best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from pyroclast.resources import durations
from pyroclast_scheduler.model.columns import Bools, Floats, Rows
from pyroclast_scheduler.model.dimensions import PODS, Ints, amounts_of
from pyroclast_scheduler.model.reasons import Code, Refusal
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import TaskFacts, seconds_of
from pyroclast_scheduler.placement.plans import Load, Plan
from pyroclast_scheduler.plugins.usage.estimator import Estimator
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.points import Extensions
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Move

__all__ = ["Usage"]

_WINDOW: Final = "10m"  # the one over which the original averages
_STALE_SECONDS: Final = 300.0
_DEFAULT_INTERVAL: Final = 30.0
_DEFAULT_THRESHOLD: Final = 80
_CPU_FULL: Final = "the CPU load of the node exceeds the upper limit."
_MEMORY_FULL: Final = "the memory load of the node exceeds the upper limit."
_FRESH: Final = frozenset({TaskStatus.BOUND, TaskStatus.BINDING})


class Usage:
    """Arguments: weights `usage.weight` (5), `cpu.weight` (1), `memory.weight` (1).

    `thresholds` with `cpu` and `mem` (80), in percent; `estimator.*`, see `Estimator`.
    """

    is_timed = True

    def __init__(self, arguments: Arguments) -> None:
        self._weight = arguments.integer("usage.weight", 5, least=0)
        self._weights = (arguments.integer("cpu.weight", 1, least=0), arguments.integer("memory.weight", 1, least=0))
        thresholds = arguments.section("thresholds")
        self._thresholds = (
            thresholds.integer("cpu", _DEFAULT_THRESHOLD, least=0, most=100),
            thresholds.integer("mem", _DEFAULT_THRESHOLD, least=0, most=100),
        )
        self._estimator = Estimator.of(arguments)

    def open(self, session: Session) -> Extensions:
        """Register."""
        nodes = _Nodes(session, self._weights, self._estimator)
        thresholds = _Thresholds(nodes.measured, nodes.is_fresh, self._thresholds)

        def score(plan: Plan, load: Load) -> Floats:
            return nodes.scores(plan, load) * (100 * self._weight)

        return Extensions(predicate=thresholds, node_order=score if self._weight else None, moved=nodes.moved)


class _Thresholds:
    """Nodes that really use more than they should; what was not measured lately is not judged."""

    def __init__(self, measured: Floats, is_fresh: Bools, thresholds: tuple[int, int]) -> None:
        self._cpu = is_fresh & (measured[0] > thresholds[0])
        self._memory = is_fresh & (measured[1] > thresholds[1])

    def mask(self, plan: Plan) -> Bools | None:
        """Nodes below both thresholds."""
        del plan
        below: Bools = ~(self._cpu | self._memory)
        return below

    def limits(self, plan: Plan, rows: Rows) -> Ints | None:
        """It does not count pods."""
        del plan, rows
        return None

    def refusals(self, plan: Plan) -> Sequence[Refusal]:
        """Cpu first."""
        del plan
        return [Refusal(self._cpu, _CPU_FULL, Code.UNRESOLVABLE), Refusal(self._memory, _MEMORY_FULL, Code.UNRESOLVABLE)]


class _Nodes:
    """Measurements, and what pods add that these do not show yet. Arrays (2, nodes): cpu, memory."""

    def __init__(self, session: Session, weights: tuple[int, int], estimator: Estimator) -> None:
        self._session = session
        self._estimator = estimator
        whole = sum(weights)
        self._parts = np.array(weights, dtype=np.float64) / whole if whole else np.zeros(2)
        size = len(session.names)
        self.measured: Floats = np.zeros((2, size))
        self.is_fresh: Bools = np.zeros(size, dtype=np.bool_)
        self._capacity: Floats = np.zeros((2, size))
        self._coming: Floats = np.zeros((2, size))
        self._counted: dict[str, tuple[int, Floats]] = {}
        measured = session.ports.usage.usage()
        for row, (name, node) in enumerate(zip(session.names, session.snapshot.nodes, strict=True)):
            if node is not None:
                has = amounts_of(node.status.capacity)
                self._capacity[:, row] = has.get("cpu", 0), has.get("memory", 0)
            found = measured.get(name)
            if found is not None:
                self.measured[:, row] = found.cpu.get(_WINDOW, 0.0), found.memory.get(_WINDOW, 0.0)
                self.is_fresh[row] = session.ports.now - found.measured <= _STALE_SECONDS
        interval = _interval(session.configuration.metrics.get("interval", ""))
        for job in session.all_jobs().values():
            for task in job.facts.tasks:
                at = session.snapshot.rows.get(task.node)
                if at is not None and _is_unseen(task, session.ports.now - interval):
                    self._count(task, at)

    def scores(self, plan: Plan, load: Load) -> Floats:
        """How free nodes are, 0 to 1, for the first, second, … pod of a shape; 0 for those not measured lately."""
        rows = load.rows[:, 0]
        steps = (load.used[PODS] - self._session.columns.used[PODS, rows, None])[0]
        result = np.zeros((len(rows), len(steps)))
        coming = self._coming[:, rows].copy()
        for step in range(len(steps)):
            used = self._used(coming, rows)
            result[:, step] = np.where(self.is_fresh[rows], self._parts @ (1 - used), 0.0)
            if step + 1 < len(steps) and steps[step + 1] > steps[step]:
                coming += self._estimator.amounts(plan.shape, self._parts @ used)
        return result

    def moved(self, move: Move, sign: int) -> None:
        """Count pods that get a place, and no longer those that go."""
        is_coming = (move.status is not TaskStatus.RELEASING) == (sign > 0)
        for task, row in zip(move.tasks, move.rows.tolist(), strict=True):
            if is_coming:
                self._count(task.facts, row)
            else:
                self._forget(task.uid)

    def _used(self, coming: Floats, rows: Rows) -> Floats:
        capacity = self._capacity[:, rows]
        used: Floats = np.clip(self.measured[:, rows] / 100 + coming / np.maximum(capacity, 1), 0, 1)
        return np.where(capacity > 0, used, 0.0)

    def _count(self, task: TaskFacts, row: int) -> None:
        self._forget(task.uid)
        rows = np.array([row], dtype=np.intp)
        amounts = self._estimator.amounts(task.shape, self._parts @ self._used(self._coming[:, rows], rows))[:, 0]
        self._coming[:, row] += amounts
        self._counted[task.uid] = (row, amounts)

    def _forget(self, uid: str) -> None:
        found = self._counted.pop(uid, None)
        if found is not None:
            row, amounts = found
            self._coming[:, row] -= amounts


def _is_unseen(task: TaskFacts, since: float) -> bool:
    """Whether measurements cannot show the pod yet: it has not started, or only after `since`."""
    if task.status is not TaskStatus.RUNNING:
        return task.status in _FRESH
    started = task.pod.status.start_time
    return started is None or seconds_of(started) > since


def _interval(text: str) -> float:
    try:
        seconds = durations.nanoseconds(text) / 1e9
    except durations.DurationError:
        return _DEFAULT_INTERVAL
    return seconds if seconds > 0 else _DEFAULT_INTERVAL

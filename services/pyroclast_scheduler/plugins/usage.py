"""Plugin usage: nodes above a threshold of measured usage are infeasible, and the least used node gets the highest score.

An estimator adds the usage of a new pod to the node until measurements show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pyroclast.api import records
from pyroclast.api.types import NODES
from pyroclast.resources import durations, quantity
from pyroclast_scheduler.model.dimensions import PODS, Ints, amounts_of
from pyroclast_scheduler.model.fit_errors import Code, Refusal
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.node_columns import Bools, Floats, Rows
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.tasks import TaskFacts, TaskStatus
from pyroclast_scheduler.placement.plans import Load, PlacementPlan
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.statement import Move

_MEBI = 2**20
_MEMORY: Final = "usage"
_WINDOW: Final = "10m"  # the period of Volcano's averages
_STALE_SECONDS: Final = 300.0
_DEFAULT_INTERVAL: Final = 30.0
_DEFAULT_THRESHOLD: Final = 80
_CPU_FULL: Final = "the CPU load of the node exceeds the upper limit."
_MEMORY_FULL: Final = "the memory load of the node exceeds the upper limit."
_FRESH: Final = frozenset({TaskStatus.BOUND, TaskStatus.BINDING})


@dataclass(frozen=True, slots=True)
class Estimator:
    """The fractions of request and limit that a pod is expected to use, and an additional factor for full nodes.

    `burst_ratio`: the used fraction of the difference between limit and request. `risk_threshold`: the load of a node (0 to 1)
    from which `risk_factor` multiplies both fractions. `idle_cpu` (milli-cores), `idle_memory` (bytes): without requests.
    """

    request_ratio: float = 0.7
    burst_ratio: float = 0.0
    risk_threshold: float = 0.6
    risk_factor: float = 1.2
    idle_cpu: float = 250.0
    idle_memory: float = 200.0 * _MEBI

    @classmethod
    def of(cls, arguments: Arguments) -> Estimator:
        """Return the estimator of these arguments. Values out of range are replaced by the defaults, with a warning."""
        return cls(
            arguments.number("estimator.request_ratio", 0.7, least=0, most=1),
            arguments.number("estimator.burst_ratio", 0.0, least=0, most=1),
            arguments.number("estimator.risk_threshold", 0.6, least=0, most=1),
            arguments.number("estimator.risk_factor", 1.2, least=1),
            _best_effort_amount(arguments, "estimator.be_cpu", 1.0, 1000.0, 250.0),
            _best_effort_amount(arguments, "estimator.be_mem", _MEBI, 1.0, 200.0 * _MEBI),
        )

    def amounts(self, shape: Shape, load: Floats) -> Floats:
        """Return the estimated usage of a pod of `shape` on nodes of that `load`: milli-cores and bytes, (2, …) as `load`."""
        risk = np.where(load >= self.risk_threshold, self.risk_factor, 1.0)
        if shape.is_best_effort:
            return np.stack([self.idle_cpu * risk, self.idle_memory * risk])
        return np.stack([self._scaled(shape, name, risk) for name in ("cpu", "memory")])

    def _scaled(self, shape: Shape, name: str, risk: Floats) -> Floats:
        request = shape.request.get(name, 0)
        limit = max(shape.limits.get(name, 0), request)
        return np.clip((request * self.request_ratio + (limit - request) * self.burst_ratio) * risk, 0, limit)


def _best_effort_amount(arguments: Arguments, key: str, unit: float, scale: float, default: float) -> float:
    """Return an argument that is an integer number of `unit`s, or a quantity with `scale` stored units per 1."""
    arguments.known.add(key)
    if key not in arguments:
        return default
    value = arguments[key]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        return value * unit
    try:
        amount = float(quantity.parse(value)) * scale if isinstance(value, str) else -1.0
    except quantity.QuantityError:
        amount = -1.0
    return amount if amount >= 0 else arguments.wrong(key, value, "a quantity of 0 or more", default)


class Usage:
    """Arguments: the weights `usage.weight` (5), `cpu.weight` (1), `memory.weight` (1).

    `thresholds` with `cpu` and `mem` (80), in percent; `estimator.*`, see `Estimator`.
    """

    def __init__(self, arguments: Arguments) -> None:
        self._weight = arguments.integer("usage.weight", 5, least=0)
        self._weights = (arguments.integer("cpu.weight", 1, least=0), arguments.integer("memory.weight", 1, least=0))
        thresholds = arguments.section("thresholds")
        self._thresholds = (
            thresholds.integer("cpu", _DEFAULT_THRESHOLD, least=0, most=100),
            thresholds.integer("mem", _DEFAULT_THRESHOLD, least=0, most=100),
        )
        self._estimator = Estimator.of(arguments)

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of this plugin for one session."""
        nodes = _Nodes(session, self._weights, self._estimator)
        thresholds = _Thresholds(nodes.measured, nodes.is_fresh, self._thresholds)

        def score(plan: PlacementPlan, load: Load) -> Floats:
            return nodes.scores(plan, load) * (100 * self._weight)

        return Extensions(predicate=thresholds, node_order=score if self._weight else None, moved=nodes.moved)


class _Thresholds:
    """The nodes whose usage exceeds a threshold. Nodes without recent measurements are feasible."""

    def __init__(self, measured: Floats, is_fresh: Bools, thresholds: tuple[int, int]) -> None:
        self._cpu = is_fresh & (measured[0] > thresholds[0])
        self._memory = is_fresh & (measured[1] > thresholds[1])

    def mask(self, plan: PlacementPlan) -> Bools | None:
        del plan
        below: Bools = ~(self._cpu | self._memory)
        return below

    def limits(self, plan: PlacementPlan, rows: Rows) -> Ints | None:
        del plan, rows
        return None

    def refusals(self, plan: PlacementPlan) -> Sequence[Refusal]:
        """Return which nodes are above a threshold of usage: first by cpu, then by memory."""
        del plan
        return [Refusal(self._cpu, _CPU_FULL, Code.UNRESOLVABLE), Refusal(self._memory, _MEMORY_FULL, Code.UNRESOLVABLE)]


class _Book:
    """State that is kept between sessions and only calculated again for changes. `faults`: faults of node capacities, by row."""

    is_derived: Final = True

    def __init__(self) -> None:
        self.faults: dict[int, str] = {}
        self._nodes: Sequence[records.Node | None] = ()
        self._capacity: Floats = np.zeros((2, 0))
        self._shown: dict[str, JobFacts] = {}

    def capacity(self, nodes: Sequence[records.Node | None]) -> Floats:
        """Return cpu and memory of each node, (2, nodes). The caller must not change the array."""
        if len(nodes) != len(self._nodes):
            self._nodes, self._capacity, self.faults = (None,) * len(nodes), np.zeros((2, len(nodes))), {}
        for row, (before, node) in enumerate(zip(self._nodes, nodes, strict=True)):
            if node is not before:
                self.faults.pop(row, None)
                amounts, wrong = ((0, 0), "") if node is None else _capacity_of(node)
                self._capacity[:, row] = amounts
                if wrong:
                    self.faults[row] = wrong
        self._nodes = nodes
        return self._capacity

    def unseen(self, jobs: Mapping[str, JobFacts], since: float) -> list[TaskFacts]:
        """Return the pods that measurements cannot show yet. A job without such pods is examined again when it changes."""
        before, self._shown = self._shown, {}
        found: list[TaskFacts] = []
        for key, facts in jobs.items():
            waiting = [] if before.get(key) is facts else [task for task in facts.tasks if _is_unseen(task, since)]
            if waiting:
                found += waiting
            else:
                self._shown[key] = facts
        return found


class _Nodes:
    """The measurements, and the estimated usage of pods that these do not show yet. Arrays (2, nodes): cpu, memory."""

    def __init__(self, session: PluginSession, weights: tuple[int, int], estimator: Estimator) -> None:
        self._session = session
        self._estimator = estimator
        whole = sum(weights)
        self._parts = np.array(weights, dtype=np.float64) / whole if whole else np.zeros(2)
        size = len(session.names)
        self.measured: Floats = np.zeros((2, size))
        self.is_fresh: Bools = np.zeros(size, dtype=np.bool_)
        book: _Book = session.ports.memory.setdefault(_MEMORY, _Book())
        self._capacity = book.capacity(session.snapshot.nodes)
        for row, wrong in book.faults.items():
            node = session.snapshot.nodes[row]
            if node is not None:
                session.fault(NODES, node, wrong)
        self._coming: Floats = np.zeros((2, size))
        self._counted: dict[str, tuple[int, Floats]] = {}
        measured, now = session.usage(), session.now()
        for name, found in measured.items():
            at = session.snapshot.rows.get(name)
            if at is not None:
                self.measured[:, at] = found.cpu.get(_WINDOW, 0.0), found.memory.get(_WINDOW, 0.0)
                self.is_fresh[at] = now - found.measured <= _STALE_SECONDS
        interval = _interval(session.configuration.metrics.get("interval", ""))
        for task in book.unseen(session.snapshot.all_jobs, now - interval):
            at = session.snapshot.rows.get(task.node)
            if at is not None:
                self._count([task], np.array([at], dtype=np.intp))

    def scores(self, plan: PlacementPlan, load: Load) -> Floats:
        """Return the free fraction of nodes (0 to 1) for the first, second, … pod of a shape; 0 without recent measurements."""
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
        for task in move.tasks:
            self._forget(task.uid)
        if (move.status is not TaskStatus.RELEASING) == (sign > 0):
            self._count([task.facts for task in move.tasks], move.rows)

    def _used(self, coming: Floats, rows: Rows) -> Floats:
        capacity = self._capacity[:, rows]
        used: Floats = np.clip(self.measured[:, rows] / 100 + coming / np.maximum(capacity, 1), 0, 1)
        return np.where(capacity > 0, used, 0.0)

    def _count(self, tasks: Sequence[TaskFacts], rows: Rows) -> None:
        """Add pods of one shape, on one node one after another, since each one increases the load for the next."""
        left = np.arange(len(tasks))
        while len(left):
            _, first = np.unique(rows[left], return_index=True)
            turn, left = left[first], np.delete(left, first)
            there = rows[turn]
            amounts = self._estimator.amounts(tasks[0].shape, self._parts @ self._used(self._coming[:, there], there))
            self._coming[:, there] += amounts
            for i, at in enumerate(turn.tolist()):
                self._counted[tasks[at].uid] = (int(there[i]), amounts[:, i])

    def _forget(self, uid: str) -> None:
        found = self._counted.pop(uid, None)
        if found is not None:
            row, amounts = found
            self._coming[:, row] -= amounts


def _is_unseen(task: TaskFacts, since: float) -> bool:
    """Whether measurements cannot show the pod yet: it has not started, or only after `since`."""
    if task.status is not TaskStatus.RUNNING:
        return task.status in _FRESH
    return task.started is None or task.started > since


def _capacity_of(node: records.Node) -> tuple[tuple[int, int], str]:
    """Return cpu and memory of a node, and a message if the capacity is malformed. Then the allocatable amount is used."""
    found: list[int] = []
    wrong: list[str] = []
    for name in ("cpu", "memory"):
        try:
            found.append(_amount(node.status.capacity, name))
        except ValueError as error:
            found.append(_amount(node.status.allocatable, name))
            wrong.append(f"status.capacity: {error}; what is allocatable counts")
    return (found[0], found[1]), "; ".join(wrong)


def _amount(resources: Mapping[str, str | int], name: str) -> int:
    return amounts_of({name: resources[name]}).get(name, 0) if name in resources else 0


def _interval(text: str) -> float:
    seconds = durations.seconds(text) or 0.0
    return seconds if seconds > 0 else _DEFAULT_INTERVAL

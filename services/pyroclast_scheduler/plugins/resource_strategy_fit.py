"""Plugin resource-strategy-fit: each resource has its own strategy, to fill nodes up or to spread pods.

Strategy and weight of a resource are found by its name or by the longest matching prefix with an asterisk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from pyroclast.api import keys
from pyroclast_scheduler.model.dimensions import CPU, MEMORY, Dimensions, Ints
from pyroclast_scheduler.model.fit_errors import Code, Refusal
from pyroclast_scheduler.model.node_columns import Bools, Floats, Rows
from pyroclast_scheduler.placement.plans import Load, PlacementPlan
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions
from pyroclast_scheduler.session.plugin_session import PluginSession

LEAST: Final = "LeastAllocated"
MOST: Final = "MostAllocated"
_DEFAULT_WEIGHT: Final = 10
_BEST: Final = 100.0
_ENDLESS: Final = np.iinfo(np.int64).max // 4
_GIGA_PER_MILLI: Final = 10**6  # from gigabytes per device to bytes per thousandth of a device


class Strategy(NamedTuple):
    """The scoring of one resource. LEAST spreads pods, MOST fills nodes; any other kind scores 0, but its weight counts."""

    kind: str
    weight: float


_DEFAULT: Final = {"cpu": Strategy(LEAST, 1), "memory": Strategy(LEAST, 1)}


def strategies(arguments: Arguments) -> dict[str, Strategy]:
    """Return the argument `resources`, by name or pattern. Invalid entries are left out with a warning."""
    arguments.known.add("resources")
    given = arguments.get("resources")
    if given is None:
        return dict(_DEFAULT)
    if not isinstance(given, Mapping):
        arguments.warnings.append("argument resources: a mapping from names to type and weight is wanted; using cpu and memory")
        return dict(_DEFAULT)
    found: dict[str, Strategy] = {}
    for key, entry in given.items():
        name = str(key)
        if not is_pattern_right(name):
            arguments.warnings.append(f"argument resources: {name!r} may have one asterisk, at its end, after a prefix; left out")
            continue
        found[name] = _strategy(arguments, name, entry if isinstance(entry, Mapping) else {})
    return found


def is_pattern_right(name: str) -> bool:
    """Whether a name has no asterisk, or one asterisk after a prefix."""
    return "*" not in name or (name.count("*") == 1 and name.endswith("*") and len(name) > 1)


def find(resource: str, known: Mapping[str, Strategy]) -> str | None:
    """Return the name or pattern of `known` that matches `resource`, None if there is none."""
    if resource in known:
        return resource
    fitting = [name for name in known if name.endswith("*") and resource.startswith(name[:-1])]
    return max(fitting, key=len, default=None)


def of_pod(marks: Mapping[str, str]) -> dict[str, Strategy] | None:
    """Return the strategies of a pod, which replace the configuration; None if it has none, empty if they are not JSON."""
    kind = marks.get(keys.RESOURCE_STRATEGY_SCORING_TYPE, "")
    if not kind:
        return None
    try:
        weights = msgspec.json.decode(marks.get(keys.RESOURCE_STRATEGY_WEIGHT, ""), type=dict[str, float])
    except msgspec.DecodeError:
        return {}
    return {name: Strategy(kind, weight) for name, weight in weights.items()}


def _strategy(arguments: Arguments, name: str, entry: Mapping[str, Any]) -> Strategy:
    kind, weight = entry.get("type", LEAST), entry.get("weight", 1)
    if kind not in {LEAST, MOST}:
        arguments.warnings.append(f"argument resources.{name}.type: {kind!r} is not {LEAST} or {MOST}; using {LEAST}")
        kind = LEAST
    if not isinstance(weight, int) or isinstance(weight, bool) or weight <= 0:
        arguments.warnings.append(f"argument resources.{name}.weight: {weight!r} is not an integer above 0; using 1")
        weight = 1
    return Strategy(kind, weight)


class ResourceStrategyFit:
    """Arguments: `resourceStrategyFitWeight` (10), `resources` (strategy by resource), `sra`, `proportional`.

    `sra`: `enable`, `resources`, `weight`, `resourceWeight`. Pods avoid nodes with scarce resources that they do not need.
    `proportional`: `enable`, `resources`, `resourceProportion`. A proportion of cpu and memory stays free for each free device.
    """

    def __init__(self, arguments: Arguments) -> None:
        self._weight = arguments.integer("resourceStrategyFitWeight", _DEFAULT_WEIGHT, least=0)
        self._strategies = strategies(arguments)
        scarce = arguments.section("sra")
        weight = scarce.number("weight", 0.0, least=0)
        self._scarce_weight = weight if scarce.boolean("enable", default=False) else 0.0
        weights = scarce.section("resourceWeight")
        self._scarce = {name: weights.number(name, 1.0, least=0) for name in _names(scarce)}
        proportional = arguments.section("proportional")
        self._is_proportional = proportional.boolean("enable", default=False)
        rates = proportional.section("resourceProportion")
        self._rates = {
            name: (rates.number(f"{name}.cpu", 1.0, least=0), rates.number(f"{name}.memory", 1.0, least=0))
            for name in _names(proportional)
        }

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions whose weight is above 0."""

        def score(plan: PlacementPlan, load: Load) -> Floats:
            total = np.zeros(np.broadcast_shapes(load.used.shape[1:], load.rows.shape))
            if self._weight > 0:
                total = total + self._fit(session.dimensions, plan, load) * (_BEST * self._weight)
            if self._scarce_weight > 0:
                total = total + self._keep_free(session.dimensions, plan, load) * (_BEST * self._scarce_weight)
            return total

        has_scores = self._weight > 0 or self._scarce_weight > 0
        return Extensions(
            predicate=_Proportional(session, self._rates) if self._is_proportional else None,
            node_order=score if has_scores else None,
        )

    def _fit(self, dimensions: Dimensions, plan: PlacementPlan, load: Load) -> Floats:
        """Return the weighted mean of the strategies of the resources, from 0 to 1; 0 if the pod does not fit."""
        total = np.zeros(np.broadcast_shapes(load.used.shape[1:], load.rows.shape))
        whole, is_over = 0.0, np.zeros(total.shape, dtype=np.bool_)
        for row, strategy in self._scored(dimensions, plan):
            whole += strategy.weight
            if strategy.weight == 0:
                continue
            allocatable = load.allocatable[row]
            after = load.after[row]
            has = allocatable > 0
            is_over |= has & (after > allocatable)
            part = {MOST: after, LEAST: allocatable - after}.get(strategy.kind)
            if part is not None:
                total += np.where(has, strategy.weight * part / np.maximum(allocatable, 1), 0.0)
        return np.where(is_over, 0.0, total / whole) if whole else total

    def _scored(self, dimensions: Dimensions, plan: PlacementPlan) -> list[tuple[int, Strategy]]:
        """Return the rows of the resources that count for this pod, with their strategies."""
        own = of_pod(plan.shape.marks)
        known = self._strategies if own is None else own
        found = []
        for row in plan.present:
            name = dimensions.names[row]
            match = (name if name in known else None) if own is not None else find(name, known)
            if plan.request[row] > 0 and match is not None:
                found.append((row, known[match]))
        return found

    def _keep_free(self, dimensions: Dimensions, plan: PlacementPlan, load: Load) -> Floats:
        """Return how few scarce resources a node has, from 0 to 1; 0 if it lacks one that the pod requests."""
        shape = np.broadcast_shapes(load.used.shape[1:], load.rows.shape)
        whole = sum(self._scarce.values())
        if not whole:
            return np.zeros(shape)
        has = np.zeros(load.allocatable.shape[1:])
        for name, weight in self._scarce.items():
            row = dimensions.find(name)
            if row is not None:
                has = has + weight * (load.allocatable[row] > 0)
        lacks = (load.allocatable[[row for row in plan.present if plan.request[row] > 0]] <= 0).any(axis=0)
        return np.broadcast_to(np.where(lacks, 0.0, 1 - has / whole), shape)


class _Proportional:
    """The cpu (cores) and memory (10^9 bytes) that must stay free for each free device: `rates`, by resource name."""

    def __init__(self, session: PluginSession, rates: Mapping[str, tuple[float, float]]) -> None:
        self._columns = session.columns
        self._rates = {row: (name, *rate) for name, rate in rates.items() if (row := session.dimensions.find(name)) is not None}

    def mask(self, plan: PlacementPlan) -> Bools | None:
        del plan
        return None

    def limits(self, plan: PlacementPlan, rows: Rows) -> Ints | None:
        """Return how many more pods each node can take and still have enough room for each type of device."""
        if self._is_user(plan):
            return None
        most = np.full(len(rows), _ENDLESS, dtype=np.int64)
        for row in self._rates:
            np.minimum(most, self._copies(plan, row, rows), out=most)
        return most

    def refusals(self, plan: PlacementPlan) -> Sequence[Refusal]:
        """Return the nodes on which one more pod would leave too little room, by type of device."""
        if self._is_user(plan):
            return []
        rows = np.arange(self._columns.nodes)
        return [
            Refusal(self._copies(plan, row, rows) < 1, f"proportional of resource {name} check failed", Code.UNRESOLVABLE)
            for row, (name, _, _) in self._rates.items()
        ]

    def _is_user(self, plan: PlacementPlan) -> bool:
        return any(plan.request[row] > 0 for row in self._rates)

    def _copies(self, plan: PlacementPlan, row: int, rows: Rows) -> Ints:
        _, cores, giga = self._rates[row]
        idle = self._columns.idle(rows)
        most = np.full(len(rows), float(_ENDLESS))
        for resource, kept in ((CPU, idle[row] * cores), (MEMORY, idle[row] * (giga * _GIGA_PER_MILLI))):
            room = idle[resource] - kept
            asked = plan.request[resource]
            most = np.minimum(most, np.floor(room / asked) if asked else np.where(room < 0, 0, _ENDLESS))
        copies: Ints = np.maximum(most, 0).astype(np.int64)
        return copies


def _names(section: Arguments) -> list[str]:
    return [name.strip() for name in section.text("resources", "").split(",") if name.strip()]

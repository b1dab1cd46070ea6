"""Plugin binpack: the fullest node that has room gets the highest score, so that large pods find empty nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from pyroclast_scheduler.model.node_columns import Floats, Rows
from pyroclast_scheduler.placement.plans import Load, PlacementPlan
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions
from pyroclast_scheduler.session.plugin_session import PluginSession

_BEST: Final = 100


class _Asked(NamedTuple):
    """The part of a shape's request that counts.

    `rows`: the dimensions. `weights`: their weights, None if all are 1. `weight`: the sum of the weights. `whole`: the
    allocatable amounts of nodes, infinite where a node has none, so that the dimension adds nothing to the score.
    """

    rows: Rows | slice
    weights: Floats | None
    weight: int
    whole: Floats


class Binpack:
    """The weights of the score and of resources are arguments.

    - `binpack.weight`, `binpack.cpu`, `binpack.memory`: weights (1).
    - `binpack.resources`: a list of further resource names.
    - `binpack.resources.<name>`: the weight of such a resource (1).
    """

    def __init__(self, arguments: Arguments) -> None:
        self._weight = arguments.integer("binpack.weight", 1)
        weights: dict[str, int] = {}
        for name in filter(None, map(str.strip, arguments.text("binpack.resources", "").split(","))):
            weights[name] = arguments.integer(f"binpack.resources.{name}", 1, least=0)
        weights["cpu"] = arguments.integer("binpack.cpu", 1, least=0)
        weights["memory"] = arguments.integer("binpack.memory", 1, least=0)
        self._weights = weights

    def open(self, session: PluginSession) -> Extensions:
        """Return the score, unless its weight is 0."""
        weights = [(row, weight) for name, weight in self._weights.items() if (row := session.dimensions.find(name)) is not None]

        wholes: dict[tuple[int, ...], Floats] = {}

        def asked(plan: PlacementPlan) -> _Asked:
            found = [(row, weight) for row, weight in weights if plan.request[row] > 0]
            rows = tuple(row for row, weight in found if weight)
            if rows not in wholes:
                allocatable = session.columns.allocatable[list(rows)]
                wholes[rows] = np.where(allocatable > 0, allocatable, np.inf)
            parts = np.array([weight for _, weight in found if weight], dtype=np.float64)[:, None, None]
            is_weighed = bool((parts != 1).any())
            weight = max(sum(weight for _, weight in found), 1)
            return _Asked(_range(rows), parts if is_weighed else None, weight, wholes[rows])

        def score(plan: PlacementPlan, load: Load) -> Floats:
            wish = plan.once(Binpack, lambda: asked(plan))
            whole = wish.whole.take(load.rows[:, 0], axis=1)[:, :, None]
            after = load.after[wish.rows]
            is_over = after > whole
            total: Floats = np.add.reduce((after if wish.weights is None else after * wish.weights) / whole)
            total /= wish.weight
            total *= _BEST * self._weight
            if is_over.any():
                total[is_over.any(axis=0)] = 0.0
            return total

        return Extensions(node_order=score) if self._weight else Extensions()


def _range(rows: Sequence[int]) -> Rows | slice:
    """Return consecutive rows as a slice, which is read without a copy, and other rows as an array."""
    if rows and list(rows) == list(range(rows[0], rows[0] + len(rows))):
        return slice(rows[0], rows[0] + len(rows))
    return np.array(rows, dtype=np.intp)

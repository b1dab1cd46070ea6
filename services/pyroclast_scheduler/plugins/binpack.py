"""Plugin binpack: the fullest node that still has room is the best, so that large pods find empty ones."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from pyroclast_scheduler.model.columns import Floats, Rows
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.placement.plans import Load, Plan
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.points import Extensions
from pyroclast_scheduler.session.session import Session

__all__ = ["Binpack"]

_BEST: Final = 100


class _Asked(NamedTuple):
    """What counts of a shape's request, by dimension: rows, amounts and weights of these; `weight` of all that it asks for."""

    rows: Rows
    amounts: Ints
    weights: Ints
    weight: int


class Binpack:
    """Weights `binpack.weight`, `binpack.cpu`, `binpack.memory`, `binpack.resources.<name>` for names in `binpack.resources`."""

    def __init__(self, arguments: Arguments) -> None:
        self._weight = arguments.integer("binpack.weight", 1)
        weights: dict[str, int] = {}
        for name in filter(None, map(str.strip, arguments.text("binpack.resources", "").split(","))):
            weights[name] = arguments.integer(f"binpack.resources.{name}", 1, least=0)
        weights["cpu"] = arguments.integer("binpack.cpu", 1, least=0)
        weights["memory"] = arguments.integer("binpack.memory", 1, least=0)
        self._weights = weights

    def open(self, session: Session) -> Extensions:
        """Register, unless it weighs nothing."""
        weights = [(row, weight) for name, weight in self._weights.items() if (row := session.dimensions.find(name)) is not None]

        def asked(plan: Plan) -> _Asked:
            found = [(row, weight) for row, weight in weights if plan.request[row] > 0]
            rows = np.array([row for row, weight in found if weight], dtype=np.intp)
            parts = np.array([weight for _, weight in found if weight], dtype=np.int64)[:, None, None]
            return _Asked(rows, plan.request[rows, None, None], parts, max(sum(weight for _, weight in found), 1))

        def score(plan: Plan, load: Load) -> Floats:
            wish = plan.once(Binpack, lambda: asked(plan))
            allocatable = load.allocatable[wish.rows]
            whole = np.where(allocatable > 0, allocatable, np.inf)  # what a node lacks is no part of it
            after = load.used[wish.rows] + wish.amounts
            is_full = (after > whole).any(axis=0)
            after *= wish.weights
            total: Floats = (after / whole).sum(axis=0)
            total /= wish.weight
            total *= _BEST * self._weight
            total[is_full] = 0.0
            return total

        return Extensions(node_order=score) if self._weight else Extensions()

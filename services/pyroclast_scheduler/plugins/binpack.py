"""Plugin binpack: the fullest node that still has room is the best, so that large pods find empty ones."""

from __future__ import annotations

from typing import Final

import numpy as np

from pyroclast_scheduler.model.columns import Floats
from pyroclast_scheduler.placement.plans import Load, Plan
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.points import Extensions
from pyroclast_scheduler.session.session import Session

__all__ = ["Binpack"]

_BEST: Final = 100


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

        def score(plan: Plan, load: Load) -> Floats:
            total = np.zeros(np.broadcast_shapes(load.used.shape[1:], load.rows.shape))
            whole = 0
            full = np.zeros(total.shape, dtype=np.bool_)
            for row, weight in weights:
                asked = plan.request[row]
                if asked <= 0:
                    continue
                whole += weight
                if weight == 0:
                    continue
                allocatable = load.allocatable[row]
                after = load.used[row] + asked
                has = allocatable > 0
                full |= has & (after > allocatable)
                total += np.where(has, weight * after / np.maximum(allocatable, 1), 0.0)
            return np.where(full, 0.0, total / max(whole, 1) * (_BEST * self._weight))

        return Extensions(node_order=score) if self._weight else Extensions()

"""How much a pod will use that has just been placed, until measurements show it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyroclast.resources import quantity
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.session.arguments import Arguments

__all__ = ["Estimator"]

_MEBI = 2**20


@dataclass(frozen=True, slots=True)
class Estimator:
    """Parts of request and limit that pods use, and how much more where nodes are full already.

    `request_ratio` of the request and `burst_ratio` of what the limit adds; times `risk_factor` on nodes whose load is
    `risk_threshold` or more (a part of 1). `idle_cpu` (milli-cores) and `idle_memory` (bytes): of pods that ask for nothing.
    """

    request_ratio: float = 0.7
    burst_ratio: float = 0.0
    risk_threshold: float = 0.6
    risk_factor: float = 1.2
    idle_cpu: float = 250.0
    idle_memory: float = 200.0 * _MEBI

    @classmethod
    def of(cls, arguments: Arguments) -> Estimator:
        """The estimator that `arguments` describe; values out of range keep their defaults, with a warning."""
        return cls(
            arguments.number("estimator.request_ratio", 0.7, least=0, most=1),
            arguments.number("estimator.burst_ratio", 0.0, least=0, most=1),
            arguments.number("estimator.risk_threshold", 0.6, least=0, most=1),
            arguments.number("estimator.risk_factor", 1.2, least=1),
            _amount(arguments, "estimator.be_cpu", 1.0, 1000.0, 250.0),
            _amount(arguments, "estimator.be_mem", _MEBI, 1.0, 200.0 * _MEBI),
        )

    def amounts(self, shape: Shape, load: Floats) -> Floats:
        """What a pod of `shape` will use on nodes of that `load`: cpu (milli-cores) and memory (bytes), (2, …) as `load`."""
        risk = np.where(load >= self.risk_threshold, self.risk_factor, 1.0)
        if shape.is_best_effort:
            return np.stack([self.idle_cpu * risk, self.idle_memory * risk])
        return np.stack([self._scaled(shape, name, risk) for name in ("cpu", "memory")])

    def _scaled(self, shape: Shape, name: str, risk: Floats) -> Floats:
        request = shape.request.get(name, 0)
        limit = max(shape.limits.get(name, 0), request)
        return np.clip((request * self.request_ratio + (limit - request) * self.burst_ratio) * risk, 0, limit)


def _amount(arguments: Arguments, key: str, unit: float, scale: float, default: float) -> float:
    """A number of `unit`s, or a quantity, of which one is `scale` stored units."""
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

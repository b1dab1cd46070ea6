"""Estimates the usage of a pod after its placement, until measurements show it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyroclast.resources import quantity
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.session.arguments import Arguments

_MEBI = 2**20


@dataclass(frozen=True, slots=True)
class Estimator:
    """The fractions of request and limit that a pod is expected to use, and an additional factor for full nodes.

    Attributes:
        request_ratio: the used fraction of the request.
        burst_ratio: the used fraction of the difference between limit and request.
        risk_threshold: the load of a node, from 0 to 1, from which `risk_factor` applies.
        risk_factor: a factor for both fractions on such nodes.
        idle_cpu: the milli-cores that a pod without requests uses.
        idle_memory: the bytes that a pod without requests uses.
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
            _amount(arguments, "estimator.be_cpu", 1.0, 1000.0, 250.0),
            _amount(arguments, "estimator.be_mem", _MEBI, 1.0, 200.0 * _MEBI),
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


def _amount(arguments: Arguments, key: str, unit: float, scale: float, default: float) -> float:
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

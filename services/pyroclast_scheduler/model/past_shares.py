"""How past usage weighs in fair shares."""

from __future__ import annotations

from typing import Final

import numpy as np

from pyroclast_scheduler.model import demand, quotas
from pyroclast_scheduler.model.dimensions import Amounts, Dimensions
from pyroclast_scheduler.model.node_columns import Floats

__all__ = ["past_share", "weighed"]

_LEAST: Final = 0.01
"""Of its own weight, what a queue keeps whatever it used: with nothing it would never get anything."""


def past_share(amounts: Amounts, total: Floats, dimensions: Dimensions) -> float:
    """The dominant share of what the cluster has now, of amounts that were held on average."""
    return demand.share(quotas.vector(amounts, dimensions), total)


def weighed(weights: Floats, past: Floats, factor: float) -> Floats:
    """Weights of queues, changed by what they used: w + factor × (w - u), with both as parts of all of them.

    A queue that used its part keeps its weight; who used less gets more. None falls below a hundredth of its own.
    """
    if factor <= 0 or not weights.any() or not past.any():
        return weights
    parts, used = weights / weights.sum(), past / past.sum()
    changed: Floats = np.maximum(parts + factor * (parts - used), _LEAST * parts)
    return changed

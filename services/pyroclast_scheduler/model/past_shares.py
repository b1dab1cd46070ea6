"""The influence of past usage on fair shares."""

from __future__ import annotations

from typing import Final

import numpy as np

from pyroclast_scheduler.model import demand, quotas
from pyroclast_scheduler.model.dimensions import Amounts, Dimensions
from pyroclast_scheduler.model.node_columns import Floats

_LEAST: Final = 0.01
"""The part of its own weight that a queue keeps at least. A queue with weight 0 would never be served."""


def past_share(amounts: Amounts, total: Floats, dimensions: Dimensions) -> float:
    """Return the dominant share of a queue's past average `amounts` in `total`, the present capacity of the cluster."""
    return demand.share(quotas.vector(amounts, dimensions), total)


def weighed(weights: Floats, past: Floats, factor: float) -> Floats:
    """Return the weights of queues adjusted by past usage: w + factor × (w − u).

    The weight w and the usage u of a queue are fractions of the sums over all queues.

    A queue whose usage matches its weight keeps its weight, and a queue that used less gets a higher one. No weight falls below a
    hundredth of its own value.
    """
    if factor <= 0 or not weights.any() or not past.any():
        return weights
    parts, used = weights / weights.sum(), past / past.sum()
    changed: Floats = np.maximum(parts + factor * (parts - used), _LEAST * parts)
    return changed

"""What queues may have and deserve, as vectors: resource lists of their specs over the dimensions of a session."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from pyroclast_scheduler.model.dimensions import CPU, MEMORY, Amounts, Dimensions
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.queues import Queue

__all__ = ["capability", "capability_left", "limits", "vector"]


def vector(amounts: Amounts | None, dimensions: Dimensions) -> Floats:
    """`amounts` as a vector; what nobody has or asks for has no row and is left out."""
    result = np.zeros(len(dimensions))
    for name, amount in (amounts or {}).items():
        row = dimensions.find(name)
        if row is not None and row < len(result):
            result[row] = amount
    return result


def capability(amounts: Amounts | None, dimensions: Dimensions) -> Floats:
    """A queue's capability as a vector: what it does not name, and cpu and memory that are not positive, are unlimited."""
    limit = np.full(len(dimensions), np.inf)
    for name, amount in (amounts or {}).items():
        row = dimensions.find(name)
        if row is not None and row < len(limit):
            limit[row] = np.inf if row in {CPU, MEMORY} and amount <= 0 else amount
    return limit


def capability_left(queue: Queue, dimensions: Dimensions) -> Floats:
    """A queue's capability as a vector, less what other members of a ring of schedulers have placed in it and below it."""
    limit = capability(queue.facts.capability, dimensions)
    return np.maximum(limit - dimensions.sums(queue.elsewhere), 0) if queue.elsewhere else limit


def limits(queues: Iterable[Queue], of: Collection[Queue], total: Floats, dimensions: Dimensions) -> Floats:
    """What each queue of `of` may have, (queues, dimensions): its capability, and what the guarantees of all `queues` leave."""
    promised = sum((vector(queue.facts.guarantee, dimensions) for queue in queues), np.zeros(len(dimensions)))
    rest = np.maximum(total - promised, 0)
    rows = [np.minimum(rest + vector(queue.facts.guarantee, dimensions), capability_left(queue, dimensions)) for queue in of]
    return np.array(rows).reshape(-1, len(dimensions))

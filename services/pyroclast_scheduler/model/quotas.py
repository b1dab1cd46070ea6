"""Amounts that queues may use or deserve, as vectors over the dimensions of a session."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from pyroclast_scheduler.model.dimensions import CPU, MEMORY, Amounts, Dimensions
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.queues import Queue


def vector(amounts: Amounts | None, dimensions: Dimensions) -> Floats:
    """Return `amounts` as a vector. Resources that have no row, as no node has and no queue limits them, are left out."""
    result = np.zeros(len(dimensions))
    for name, amount in (amounts or {}).items():
        row = dimensions.find(name)
        if row is not None and row < len(result):
            result[row] = amount
    return result


def capability(amounts: Amounts | None, dimensions: Dimensions) -> Floats:
    """Return a queue's capability as a vector.

    A resource that the capability does not name is unlimited. So are cpu and memory if their amount is not positive.
    """
    limit = np.full(len(dimensions), np.inf)
    for name, amount in (amounts or {}).items():
        row = dimensions.find(name)
        if row is not None and row < len(limit):
            limit[row] = np.inf if row in {CPU, MEMORY} and amount <= 0 else amount
    return limit


def capability_left(queue: Queue, dimensions: Dimensions) -> Floats:
    """Return a queue's capability as a vector, less the amounts that other members of a ring of schedulers allocated in it."""
    limit = capability(queue.facts.capability, dimensions)
    return np.maximum(limit - dimensions.sums(queue.elsewhere), 0) if queue.elsewhere else limit


def limits(queues: Iterable[Queue], of: Collection[Queue], total: Floats, dimensions: Dimensions) -> Floats:
    """Return the largest amounts that each queue of `of` may use, (queues, dimensions).

    The limit is the capability, and never more than `total` without the guarantees of the other `queues`.
    """
    promised = sum((vector(queue.facts.guarantee, dimensions) for queue in queues), np.zeros(len(dimensions)))
    rest = np.maximum(total - promised, 0)
    rows = [np.minimum(rest + vector(queue.facts.guarantee, dimensions), capability_left(queue, dimensions)) for queue in of]
    return np.array(rows).reshape(-1, len(dimensions))

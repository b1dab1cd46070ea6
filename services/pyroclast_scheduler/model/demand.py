"""Amounts that jobs and queues use, used, may use or still request: the calculations that quota plugins share."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Final

import numpy as np

from pyroclast_scheduler.model.dimensions import PODS, Amounts, Dimensions, Ints
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.queues import Queue

_MANY: Final = int(np.iinfo(np.int32).max)
EPSILON: Final = 0.1  # amounts that differ by less are equal, in every dimension


def reserved(job: Job, dimensions: Dimensions, *, less_allocated: bool) -> Floats:
    """Return the minimum resources that an enqueued job still needs; zeros if the job declares none.

    The requests of pods behind scheduling gates other than the queue's own gate are subtracted. `less_allocated`: whether the
    amounts that are already allocated are subtracted too.
    """
    minimum = job.facts.minimum(dimensions)
    if minimum is None:
        return np.zeros(len(dimensions))
    rest = np.maximum(minimum - job.allocated, 0) if less_allocated else minimum
    return np.maximum(rest - job.facts.behind_gates(dimensions), 0) if job.facts.sums.gated else rest


def short_rows(wanted: Floats | Ints, limit: Floats | Ints, request: Floats | Ints, *, most_pods: float = math.inf) -> list[int]:
    """Return the dimensions that `request` contains and in which `wanted` exceeds `limit`. `most_pods`: the limit of `pods`."""
    over = (request > 0) & (wanted > limit)
    over[PODS] = request[PODS] > 0 and wanted[PODS] > most_pods
    rows: list[int] = np.flatnonzero(over).tolist()
    return rows


def copies_within(limit: Floats, taken: Floats | Ints, request: Ints, *, most_pods: float = math.inf) -> int:
    """Return how many times `request` can be added to `taken` within `limit`, in the dimensions of `request`.

    `most_pods`: the limit of `pods`, whose row in `limit` is not used.
    """
    copies: float = min(_MANY, most_pods - float(taken[PODS]))
    for row, (asked, whole, part) in enumerate(zip(request.tolist(), limit.tolist(), taken.tolist(), strict=True)):
        if asked > 0 and row != PODS:
            copies = min(copies, (whole - part) / asked)
    return max(0, math.floor(copies))


def is_partly_within(wanted: Floats | Ints, limit: Floats | Ints, request: Floats | Ints) -> bool:
    """Whether `wanted` is within `limit` in at least one dimension, other than `pods`, that `request` contains."""
    counted = (request > 0) & ((wanted >= EPSILON) | (limit >= EPSILON))
    counted[PODS] = False
    return bool((wanted < limit + EPSILON)[counted].any())


def share(part: Floats | Ints, whole: Floats | Ints) -> float:
    """Return the dominant share: the largest ratio of `part` to `whole` where `whole` is not 0; 0 for an empty `whole`."""
    parts = [has / of for has, of in zip(part.tolist(), whole.tolist(), strict=True) if of >= EPSILON]
    return max(parts, default=0.0)


_LEAST: Final = 0.01
"""The part of its own weight that a queue keeps at least. A queue with weight 0 would never be served."""


def past_share(amounts: Amounts, total: Floats, dimensions: Dimensions) -> float:
    """Return the dominant share of a queue's past average `amounts` in `total`, the present capacity of the cluster."""
    return share(vector(amounts, dimensions), total)


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


def vector(amounts: Amounts | None, dimensions: Dimensions) -> Floats:
    """Return `amounts` as a vector. Resources that have no row, as no node has and no queue limits them, are left out."""
    result = np.zeros(len(dimensions))
    for name, amount in (amounts or {}).items():
        row = dimensions.find(name)
        if row is not None and row < len(result):
            result[row] = amount
    return result


def capability(amounts: Amounts | None, dimensions: Dimensions) -> Floats:
    """Return a queue's capability as a vector. What it does not name is unlimited. Unlike with Volcano, a written 0 is 0."""
    limit = np.full(len(dimensions), np.inf)
    for name, amount in (amounts or {}).items():
        row = dimensions.find(name)
        if row is not None and row < len(limit):
            limit[row] = amount
    return limit


def capability_left(queue: Queue, dimensions: Dimensions) -> Floats:
    """Return a queue's capability as a vector, less the amounts that other members of a ring of schedulers allocated in it."""
    limit = capability(queue.facts.capability, dimensions)
    return np.maximum(limit - dimensions.sums(queue.elsewhere), 0) if queue.elsewhere else limit


def most_pods(queues: Iterable[Queue], dimensions: Dimensions) -> list[float]:
    """Return how many pods each queue may have; infinite if its capability does not name `pods`, which Volcano never counts."""
    return [float(capability_left(queue, dimensions)[PODS]) for queue in queues]


def limits(queues: Iterable[Queue], of: Collection[Queue], total: Floats, dimensions: Dimensions) -> Floats:
    """Return the largest amounts that each queue of `of` may use, (queues, dimensions).

    The limit is the capability, and never more than `total` without the guarantees of the other `queues`.
    """
    promised = sum((vector(queue.facts.guarantee, dimensions) for queue in queues), np.zeros(len(dimensions)))
    rest = np.maximum(total - promised, 0)
    rows = [np.minimum(rest + vector(queue.facts.guarantee, dimensions), capability_left(queue, dimensions)) for queue in of]
    return np.array(rows).reshape(-1, len(dimensions))

"""Placing k equal pods in one go, exactly as placing them one after another would.

That is: each time the best node, the lowest row on ties. It is exact for two reasons. A greedy loop sees of a node only its
next score, so pods leave the nodes' queues of scores in the order of the running minimum of each queue. And only the k nodes
that score best at first can ever be picked.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.node_columns import Floats, Rows

__all__ = ["NEVER", "greedy"]

NEVER = -np.inf
_FIRST_LOOK = 4096  # copies looked at first, all nodes together; doubled while a node would take more
_FEW = 1024  # values of which sorting all is cheaper than looking for the largest first


def greedy(first: Floats, count: int, copies: Callable[[Rows], Ints], scores: Callable[[Rows, int], Floats]) -> Rows:
    """The rows of the nodes that take `count` equal pods, in order of placement; shorter where there is no room for all.

    Args:
        first: for each node its score for one pod, `NEVER` where none fits.
        count: how many pods.
        copies: for some rows, how many such pods fit on each (at least 1).
        scores: for some rows and a depth d, an array (rows, d): the score of each node for its first, second, … d-th pod.
    """
    if count == 1:
        best = int(first.argmax()) if len(first) else 0
        return np.array([best] if len(first) and first[best] != NEVER else [], dtype=np.intp)
    rows = _best(first, count)
    if len(rows) == 0:
        return rows
    room = np.minimum(copies(rows), count)
    deepest = int(room.max())
    depth = min(max(4, _FIRST_LOOK // len(rows)), deepest)
    grid = scores(rows, depth) if depth > 1 else first[rows][:, None]
    order = np.minimum.accumulate(np.where(np.arange(depth) < room[:, None], grid, NEVER), axis=1)
    while True:
        taken = _ranked(order.ravel(), count) // depth
        if depth == deepest:
            return rows[taken]
        short = np.flatnonzero((np.bincount(taken, minlength=len(rows)) == depth) & (room > depth))
        if not len(short):
            return rows[taken]
        deeper = min(2 * depth, int(room[short].max()))
        wider = np.full((len(rows), deeper), NEVER)
        wider[:, :depth] = order
        more = np.where(np.arange(deeper) < room[short, None], scores(rows[short], deeper), NEVER)
        wider[short] = np.minimum.accumulate(more, axis=1)
        order, depth = wider, deeper


def _ranked(values: Floats, count: int) -> Rows:
    """Positions of the `count` largest values, largest first; of equal ones the first; never one that is `NEVER`."""
    if len(values) > _FEW:
        picked = _best(values, count)
        return picked[np.argsort(-values[picked], kind="stable")]
    picked = np.argsort(-values, kind="stable")[:count]
    return picked if values[picked[-1]] != NEVER else picked[values[picked] != NEVER]


def _best(values: Floats, count: int) -> Rows:
    """Positions of the `count` largest values, ascending by position; of equal ones the first; never one that is `NEVER`."""
    if len(values) > count:
        threshold = _lower_bound(values, count)
        if threshold != NEVER:
            above = np.flatnonzero(values > threshold)
            if len(above) < count:  # so that the bound is the count-th largest itself
                level = np.flatnonzero(values == threshold)
            else:
                few = values[above]
                threshold = _largest(few, count)
                level, above = above[few == threshold], above[few > threshold]
            return np.sort(np.concatenate((above, level[: count - len(above)])))
    return np.flatnonzero(values != NEVER)


def _lower_bound(values: Floats, count: int) -> float:
    """A value no larger than the `count`-th largest, `NEVER` if that is.

    Of as many equal pieces, at least `count` have a maximum that is no less than the count-th largest of these maxima.
    """
    pieces = 4 * count
    size = len(values) // pieces
    if size >= 4:
        bound = _largest(values[: pieces * size].reshape(pieces, size).max(axis=1), count)
        if bound != NEVER:
            return bound
    return _largest(values, count)


def _largest(values: Floats, count: int) -> float:
    """The `count`-th largest of at least so many values."""
    return float(np.partition(values, len(values) - count)[len(values) - count])

"""Placing k equal pods in one go, exactly as placing them one after another would.

That is: each time the best node, the lowest row on ties. Why it is exact: a node's next score is all that a greedy loop sees of
it, so pods leave the nodes' queues of scores in the order of the running minimum of each queue; and only the k nodes that score
best at first can ever be picked.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pyroclast_scheduler.model.columns import Floats, Rows
from pyroclast_scheduler.model.dimensions import Ints

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
    depth = min(max(4, _FIRST_LOOK // len(rows)), int(room.max()))
    grid = scores(rows, depth) if depth > 1 else first[rows][:, None]
    order = np.minimum.accumulate(np.where(np.arange(depth) < room[:, None], grid, NEVER), axis=1)
    while True:
        taken = _ranked(order.ravel(), count) // depth
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


def _near_the_top(values: Floats, count: int) -> Rows:
    """Positions, ascending, of few values with the `count` largest and all that equal them among them.

    Of as many equal pieces, at least `count` have a maximum that is no less than the count-th largest of these maxima.
    """
    pieces = 4 * count
    size = len(values) // pieces
    if size < 4:
        return np.arange(len(values))
    tops = values[: pieces * size].reshape(pieces, size).max(axis=1)
    return np.flatnonzero(values >= np.partition(tops, pieces - count)[pieces - count])


def _best(values: Floats, count: int) -> Rows:
    """Positions of the `count` largest values, ascending by position; of equal ones the first; never one that is `NEVER`."""
    if len(values) > count:
        level = np.flatnonzero(values == values.max())
        if len(level) >= count and values[level[0]] != NEVER:
            return level[:count]
        rows = _near_the_top(values, count)
        few = values[rows]
        threshold = np.partition(few, len(few) - count)[len(few) - count]
        if threshold != NEVER:
            above = rows[few > threshold]
            level = rows[few == threshold][: count - len(above)]
            return np.sort(np.concatenate((above, level)))
    return np.flatnonzero(values != NEVER)

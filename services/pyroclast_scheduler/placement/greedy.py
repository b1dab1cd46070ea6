"""Places k equal pods at once, with the same result as placing them one after another.

Each pod is placed on the node with the best score, and on the lowest row among equal scores. The result is exact for two reasons.
A greedy loop only sees the next score of each node, so pods are placed in the order of the running minimum of each node's scores.
And only the k nodes with the best first scores can be chosen.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.node_columns import Floats, Rows

NEVER = -np.inf
_FIRST_LOOK = 4096  # scores calculated at first over all nodes; doubled while a node accepts more pods
_FEW = 1024  # up to this number, sorting all values is cheaper than selecting the largest first


def greedy(first: Floats, count: int, copies: Callable[[Rows], Ints], scores: Callable[[Rows, int], Floats]) -> Rows:
    """Return the rows of the nodes for `count` equal pods in order of placement; fewer if there is no room for all.

    Args:
        first: the score of each node for one pod, `NEVER` for a node without room.
        count: the number of pods.
        copies: returns for some rows how many such pods fit on each (at least 1).
        scores: returns for some rows and a depth d an array (rows, d): the score of each node for its first to d-th pod.
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
    """Return the positions of the `count` largest values, largest first, without values that are `NEVER`.

    Of equal values, the first ones are returned.
    """
    if len(values) > _FEW:
        picked = _best(values, count)
        return picked[np.argsort(-values[picked], kind="stable")]
    picked = np.argsort(-values, kind="stable")[:count]
    return picked if values[picked[-1]] != NEVER else picked[values[picked] != NEVER]


def _best(values: Floats, count: int) -> Rows:
    """Return the positions of the `count` largest values in ascending order, without values that are `NEVER`.

    Of equal values, the first ones are returned.
    """
    if len(values) > count:
        threshold = _lower_bound(values, count)
        if threshold != NEVER:
            above = np.flatnonzero(values > threshold)
            if len(above) < count:  # then the bound is the count-th largest value
                level = np.flatnonzero(values == threshold)
            else:
                few = values[above]
                threshold = _largest(few, count)
                level, above = above[few == threshold], above[few > threshold]
            return np.sort(np.concatenate((above, level[: count - len(above)])))
    return np.flatnonzero(values != NEVER)


def _lower_bound(values: Floats, count: int) -> float:
    """Return a value that is at most the `count`-th largest; `NEVER` if that one is `NEVER`.

    Proof: if the values are divided into equal pieces, at least `count` pieces have a maximum of at least the count-th largest
    maximum.
    """
    pieces = 4 * count
    size = len(values) // pieces
    if size >= 4:
        bound = _largest(values[: pieces * size].reshape(pieces, size).max(axis=1), count)
        if bound != NEVER:
            return bound
    return _largest(values, count)


def _largest(values: Floats, count: int) -> float:
    """Return the `count`-th largest of at least `count` values."""
    return float(np.partition(values, len(values) - count)[len(values) - count])

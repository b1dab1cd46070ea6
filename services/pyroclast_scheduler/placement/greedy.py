"""Placing k equal pods in one go, exactly as placing them one after another would.

That is: each time the best node, the lowest row on ties. Why it is exact: a node's next score is all that a greedy loop sees of
it, so pods leave the nodes' queues of scores in the order of the running minimum of each queue; and only the k nodes that score
best at first can ever be picked.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pyroclast_scheduler.model.columns import Floats
from pyroclast_scheduler.model.dimensions import Ints

__all__ = ["NEVER", "Rows", "greedy"]

Rows = npt.NDArray[np.intp]
NEVER = -np.inf
_FIRST_LOOK = 4096  # copies looked at first, all nodes together; doubled while a node would take more


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
    while True:
        grid = scores(rows, depth) if depth > 1 else first[rows][:, None]
        order = np.minimum.accumulate(np.where(np.arange(depth) < room[:, None], grid, NEVER), axis=1)
        picked = _best(order.ravel(), count)
        taken = np.bincount(picked // depth, minlength=len(rows))
        if depth == deepest or not ((taken == depth) & (room > depth)).any():
            ranked = picked[np.argsort(-order.ravel()[picked], kind="stable")]
            return rows[ranked // depth]
        depth = min(2 * depth, deepest)


def _best(values: Floats, count: int) -> Rows:
    """Positions of the `count` largest values, ascending by position; of equal ones the first; never one that is `NEVER`."""
    if len(values) > count:
        threshold = np.partition(values, len(values) - count)[len(values) - count]
        if threshold != NEVER:
            above = np.flatnonzero(values > threshold)
            level = np.flatnonzero(values == threshold)[: count - len(above)]
            return np.sort(np.concatenate((above, level)))
    return np.flatnonzero(values != NEVER)

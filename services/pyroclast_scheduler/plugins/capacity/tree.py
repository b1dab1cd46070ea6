"""Queues as rows: their limits and deserved amounts, without hierarchy (flat) or as a tree below the queue `root`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pyroclast_scheduler.model import demand
from pyroclast_scheduler.model.dimensions import CPU, MEMORY, Dimensions
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.queues import Queue

ROOT = "root"


@dataclass(frozen=True, slots=True)
class Tree:
    """The queues as arrays over (queues, dimensions), in the order of `rows`.

    `names`: whether a queue names the dimension as deserved; for cpu and memory only if the amount is above 0. `limit`: infinite
    without a limit. `ancestors`: from the parent to the root; empty in a flat tree. `outside`: why a queue accepts no jobs.
    """

    rows: Mapping[str, int]
    guarantee: Floats
    deserved: Floats
    names: Bools
    limit: Floats
    ancestors: tuple[tuple[int, ...], ...]
    outside: Mapping[int, str]

    def path(self, row: int) -> tuple[int, ...]:
        """Return the row of the queue and the rows of all its ancestors."""
        return (row, *self.ancestors[row])

    def inside(self, name: str) -> int | None:
        """Return the row of the queue `name`; None if it does not exist or accepts no jobs."""
        row = self.rows.get(name)
        return None if row in self.outside else row

    def near(self, row: int, levels: int) -> tuple[int, ...]:
        """Return the nearest `levels` ancestors, without the root."""
        return self.ancestors[row][:-1][:levels]

    def common(self, row: int, other: int) -> int:
        """Return the number of common ancestors of two queues, counted from the root."""
        above, beside = self.ancestors[row][::-1], self.ancestors[other][::-1]
        pairs = zip(above, beside, strict=False)
        return next((count for count, (one, two) in enumerate(pairs) if one != two), min(len(above), len(beside)))


def flat(queues: Mapping[str, Queue], total: Floats, dimensions: Dimensions) -> Tree:
    """Return all queues side by side; parents are ignored."""
    limit = demand.limits(queues.values(), queues.values(), total, dimensions)
    guarantee, deserved, names = _amounts(queues, dimensions)
    is_there = (total > 0) | (guarantee > 0).any(axis=0)  # a resource that no node has limits no share
    deserved = np.maximum(np.where(is_there, np.minimum(deserved, limit), deserved), guarantee)
    return Tree(
        {name: row for row, name in enumerate(queues)},
        guarantee,
        deserved,
        _counted(names, deserved),
        limit,
        ((),) * len(queues),
        {},
    )


def hierarchical(queues: Mapping[str, Queue], total: Floats, dimensions: Dimensions) -> Tree | None:
    """Return the tree below the root; None if the root does not exist.

    A queue may use the limit of its parent less the guarantees of its siblings, at most its own capability. A resource that the
    capability does not name has the limit of the parent. A root without a capability has no limit.
    """
    if ROOT not in queues:
        return None
    rows = {name: row for row, name in enumerate(queues)}
    guarantee, deserved, names = _amounts(queues, dimensions)
    deserved = np.maximum(deserved, guarantee)
    children: dict[int, list[int]] = {}
    for name, queue in queues.items():
        if name != ROOT:
            children.setdefault(rows.get(queue.facts.parent or ROOT, -1), []).append(rows[name])
    root = rows[ROOT]
    below = children.get(root, [])
    guarantee[root], deserved[root] = guarantee[below].sum(axis=0), deserved[below].sum(axis=0)
    names[root] = names[below].any(axis=0)
    caps = np.array([demand.capability_left(queue, dimensions) for queue in queues.values()])
    is_offered = total > 0
    is_offered[[CPU, MEMORY]] = True
    caps[root] = np.where(is_offered, caps[root], 0)
    limit = np.zeros_like(caps)
    limit[root] = caps[root]
    ancestors: list[tuple[int, ...]] = [()] * len(queues)
    reached = {root}
    for parent, row in _downwards(root, children):
        reached.add(row)
        ancestors[row] = (parent, *ancestors[parent])
        caps[row] = np.where(np.isinf(caps[row]), caps[parent], caps[row])
        rest = np.maximum(limit[parent] - guarantee[children[parent]].sum(axis=0), 0)
        limit[row] = np.minimum(rest + guarantee[row], caps[row])
    outside: dict[int, str] = {}
    for name, row in rows.items():
        if row not in reached:
            outside[row] = f"queue {name} has no way up to {ROOT}: see its parent {queues[name].facts.parent}"
        elif row in children:
            outside[row] = f"queue {name} has children: jobs go into the queues below it"
    return Tree(rows, guarantee, deserved, _counted(names, deserved), limit, tuple(ancestors), outside)


def _downwards(root: int, children: Mapping[int, list[int]]) -> Iterator[tuple[int, int]]:
    """Yield pairs of parent and child, every parent before its children."""
    level = [root]
    while level:
        pairs = [(parent, child) for parent in level for child in children.get(parent, ())]
        yield from pairs
        level = [child for _, child in pairs]


def _amounts(queues: Mapping[str, Queue], dimensions: Dimensions) -> tuple[Floats, Floats, Bools]:
    """Return the guarantees, the deserved amounts, and a mask of the named dimensions."""
    shape = (len(queues), len(dimensions))
    guarantee, deserved = np.zeros(shape), np.zeros(shape)
    names = np.zeros(shape, dtype=np.bool_)
    for row, queue in enumerate(queues.values()):
        guarantee[row] = demand.vector(queue.facts.guarantee, dimensions)
        deserved[row] = demand.vector(queue.facts.deserved, dimensions)
        for name in (*(queue.facts.deserved or ()), *queue.facts.guarantee):
            at = dimensions.find(name)
            if at is not None and at < shape[1]:
                names[row, at] = True
    return guarantee, deserved, names


def _counted(names: Bools, deserved: Floats) -> Bools:
    """Return the named dimensions that count: cpu and memory only if the deserved amount is above 0."""
    counted: Bools = names.copy()
    counted[:, [CPU, MEMORY]] = deserved[:, [CPU, MEMORY]] >= demand.EPSILON
    return counted

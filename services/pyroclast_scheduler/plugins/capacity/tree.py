"""Queues as rows: their limits and what they deserve, side by side (flat) or in a tree below the queue `root`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pyroclast_scheduler.model import demand, quotas
from pyroclast_scheduler.model.dimensions import CPU, MEMORY, Dimensions
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.queues import Queue

__all__ = ["ROOT", "Tree", "flat", "hierarchical"]

ROOT = "root"


@dataclass(frozen=True, slots=True)
class Tree:
    """Arrays over (queues, dimensions) in the order of `rows`.

    `guarantee`, `deserved`, `limit` (inf: none). `names`: what a queue deserves by name, cpu and memory only where that is more
    than nothing. `ancestors`: of each queue its parent, the parent of that, and so on up to the root; empty in a flat tree.
    `outside`: why no job of a queue can be placed, for queues that are not where jobs may be.
    """

    rows: Mapping[str, int]
    guarantee: Floats
    deserved: Floats
    names: Bools
    limit: Floats
    ancestors: tuple[tuple[int, ...], ...]
    outside: Mapping[int, str]

    def path(self, row: int) -> tuple[int, ...]:
        """The queue itself and all queues above it."""
        return (row, *self.ancestors[row])

    def near(self, row: int, levels: int) -> tuple[int, ...]:
        """The nearest `levels` queues above, without the root."""
        return self.ancestors[row][:-1][:levels]

    def common(self, row: int, other: int) -> int:
        """How many queues above both are the same, counted from the root."""
        above, beside = self.ancestors[row][::-1], self.ancestors[other][::-1]
        pairs = zip(above, beside, strict=False)
        return next((count for count, (one, two) in enumerate(pairs) if one != two), min(len(above), len(beside)))


def flat(queues: Mapping[str, Queue], total: Floats, dimensions: Dimensions) -> Tree:
    """Every queue for itself: parents are not looked at."""
    limit = quotas.limits(queues.values(), queues.values(), total, dimensions)
    guarantee, deserved, names = _amounts(queues, dimensions)
    is_there = (total > 0) | (guarantee > 0).any(axis=0)  # what no node has any more limits nobody's share
    deserved = np.maximum(np.where(is_there, np.minimum(deserved, limit), deserved), guarantee)
    return Tree(_rows(queues), guarantee, deserved, _counted(names, deserved), limit, ((),) * len(queues), {})


def hierarchical(queues: Mapping[str, Queue], total: Floats, dimensions: Dimensions) -> Tree | None:
    """The tree below the root; None while there is no root.

    Limits go down the tree: a queue has what its parent has and the guarantees of its siblings leave, at most its capability,
    where what a capability does not name is as in the parent. The root without a capability has no limit.
    """
    if ROOT not in queues:
        return None
    rows = _rows(queues)
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
    caps = np.array([quotas.capability_left(queue, dimensions) for queue in queues.values()])
    caps[root] = np.where((total > 0) | _is_basic(dimensions), caps[root], 0)
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
    """Parent and child, every parent before its children."""
    level = [root]
    while level:
        pairs = [(parent, child) for parent in level for child in children.get(parent, ())]
        yield from pairs
        level = [child for _, child in pairs]


def _is_basic(dimensions: Dimensions) -> Bools:
    basic = np.zeros(len(dimensions), dtype=np.bool_)
    basic[[CPU, MEMORY]] = True
    return basic


def _amounts(queues: Mapping[str, Queue], dimensions: Dimensions) -> tuple[Floats, Floats, Bools]:
    """Guarantees, deserved amounts, and which of the latter are named."""
    shape = (len(queues), len(dimensions))
    guarantee, deserved = np.zeros(shape), np.zeros(shape)
    names = np.zeros(shape, dtype=np.bool_)
    for row, queue in enumerate(queues.values()):
        guarantee[row] = quotas.vector(queue.facts.guarantee, dimensions)
        deserved[row] = quotas.vector(queue.facts.deserved, dimensions)
        for name in (*(queue.facts.deserved or ()), *queue.facts.guarantee):
            at = dimensions.find(name)
            if at is not None and at < shape[1]:
                names[row, at] = True
    return guarantee, deserved, names


def _rows(queues: Mapping[str, Queue]) -> dict[str, int]:
    return {name: row for row, name in enumerate(queues)}


def _counted(names: Bools, deserved: Floats) -> Bools:
    """Of the amounts that are named those that count: of cpu and memory only more than nothing."""
    counted: Bools = names.copy()
    counted[:, [CPU, MEMORY]] = deserved[:, [CPU, MEMORY]] >= demand.EPSILON
    return counted

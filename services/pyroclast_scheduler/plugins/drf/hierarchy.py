"""Hierarchical dominant resource fairness: the shares of branches of a tree of queues, whose leaves are jobs.

Source: the rules of `docs/design/hdrf.md` of Volcano, as its code applies them. The amounts of a branch are the sum over its
children. Each child is scaled down to the smallest dominant share of the unsaturated children. A saturated child therefore does
not hold back the branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from pyroclast.api import keys
from pyroclast_scheduler.model import demand
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.queues import QueueFacts

_ROOT: Final = "root"


class Leaf(NamedTuple):
    """A job: its queue, its allocated amounts and its total request, in stored units."""

    key: str
    queue: str
    allocated: Floats
    request: Floats


def path_of(queue: QueueFacts) -> list[tuple[str, float]]:
    """Return the branch of a queue below the root as names with weights, by its annotations. A malformed weight counts as 1."""
    annotations = queue.record.metadata.annotations
    path = [name for name in annotations.get(keys.HIERARCHY, "").split("/") if name]
    weights = annotations.get(keys.HIERARCHY_WEIGHTS, "").split("/")
    named = [(name, _weight(weights[at]) if at < len(weights) else 1.0) for at, name in enumerate(path)]
    return named[1:] if named and named[0][0] == _ROOT else named


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 1.0
    return weight if weight >= 1 else 1.0  # NaN becomes 1 too


@dataclass(slots=True)
class _Branch:
    """An inner node of the tree. `leaves`: rows of the arrays of jobs."""

    weight: float = 1.0
    children: dict[str, _Branch] = field(default_factory=dict)
    leaves: list[int] = field(default_factory=list)
    allocated: Floats = field(default_factory=lambda: np.zeros(0))
    share: float = 0.0
    is_saturated: bool = True


class Hierarchy:
    """The tree of `queues` with `leaves`. `total`: the amounts of the cluster as a vector in stored units."""

    def __init__(self, queues: Iterable[QueueFacts], leaves: Sequence[Leaf], total: Floats) -> None:
        self._total = total
        self._root = _Branch()
        self._paths: dict[str, list[_Branch]] = {}
        for queue in queues:
            path = [self._root]
            for name, weight in path_of(queue):
                path.append(path[-1].children.setdefault(name, _Branch(weight)))
            self._paths[queue.name] = path
        self._rows = {leaf.key: row for row, leaf in enumerate(leaves)}
        shape = (len(leaves), len(total))
        self._allocated = np.array([leaf.allocated for leaf in leaves], dtype=np.float64).reshape(shape)
        self._request = np.array([leaf.request for leaf in leaves], dtype=np.float64).reshape(shape)
        for row, leaf in enumerate(leaves):
            self._paths[leaf.queue][-1].leaves.append(row)
        self._is_current = False

    def add(self, job: str, change: Floats | Ints) -> None:
        """Add `change` to the allocated amounts of `job`."""
        self._allocated[self._rows[job]] += change
        self._is_current = False

    def compare(self, left: str, right: str) -> int:
        """Return a negative number if queue `left` is served first, and a positive one for queue `right`.

        Return 0 if the tree does not decide.
        """
        self._update()
        for one, other in zip(self._paths[left], self._paths[right], strict=False):
            if one.is_saturated != other.is_saturated:
                return 1 if one.is_saturated else -1
            mine, theirs = one.share / one.weight, other.share / other.weight
            if mine != theirs:
                return -1 if mine < theirs else 1
        return 0

    def _update(self) -> None:
        if self._is_current:
            return
        allocated, request, total = self._allocated, self._request, self._total
        is_demanding = allocated.sum(axis=0) < total
        has = allocated >= demand.EPSILON
        is_full = (request > 0) & (allocated >= request)
        is_stuck = ~is_demanding & (request != 0)
        saturated = (has & (is_full | is_stuck)).any(axis=1)
        known = total >= demand.EPSILON
        shares = (allocated[:, known] / total[known]).max(axis=1, initial=0.0)
        self._fold(self._root, allocated, shares, saturated)
        self._is_current = True

    def _fold(self, branch: _Branch, allocated: Floats, shares: Floats, saturated: Bools) -> None:
        """Calculate a branch after its children."""
        for child in branch.children.values():
            self._fold(child, allocated, shares, saturated)
        below = list(branch.children.values())
        amounts = np.concatenate([allocated[branch.leaves], *(child.allocated[None] for child in below)])
        child_shares = np.concatenate([shares[branch.leaves], [child.share for child in below]])
        is_saturated = np.concatenate(
            [saturated[branch.leaves], np.array([child.is_saturated for child in below], dtype=np.bool_)]
        )
        counted = child_shares > 0
        least = min(1.0, child_shares[counted & ~is_saturated].min(initial=1.0))
        scale = np.where(is_saturated[counted], 1.0, least / child_shares[counted])
        branch.allocated = (amounts[counted] * scale[:, None]).sum(axis=0)
        branch.share = demand.share(branch.allocated, self._total)
        branch.is_saturated = bool(is_saturated.all())

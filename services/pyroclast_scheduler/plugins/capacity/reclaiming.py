"""Who loses pods to another queue: one decision after another, each on what the earlier ones leave."""

from __future__ import annotations

from pyroclast_scheduler.model import demand
from pyroclast_scheduler.model.dimensions import PODS, Ints
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.plugins.capacity.tree import Tree

__all__ = ["Reclaiming"]


class Reclaiming:
    """Victims for a pod of the queue in row `mine` that asks for `request`; None: for a gang, whose pods differ.

    Args:
        tree: the queues.
        allocated: what each has now, (queues, dimensions).
        levels: how many queues above a victim's queue must have more than they deserve too.
        mine: the row of the queue that reclaims.
        request: vector of what the pod asks for.
    """

    def __init__(self, tree: Tree, allocated: Floats, levels: int, mine: int, request: Ints | None) -> None:
        self._tree = tree
        self._left: dict[int, Floats] = {}
        self._allocated = allocated
        self._levels = levels
        self._mine = mine
        self._wants = None if request is None else _without_pods(request >= demand.EPSILON)
        self._is_borrower = request is not None and not (tree.deserved[mine] >= demand.EPSILON)[request >= demand.EPSILON].any()

    def takes(self, row: int, request: Ints) -> bool:
        """Whether a pod of the queue in `row` that asks for `request` goes; if so, its queue has so much less from now on."""
        named = request >= demand.EPSILON
        if self._wants is not None and not (self._wants & named).any():
            return False  # its place would not help
        guarantee = self._tree.guarantee[row]
        if not (guarantee < self._has(row) - request + demand.EPSILON)[guarantee > 0].all():
            return False
        if self._is_lent(row, named):
            if self._is_borrower and self._is_related(row):
                return False  # both only borrow from the same
        elif not self._exceeds(row, request):
            return False
        above = self._guardians(row)
        if not all(self._is_lent(each, named) or self._exceeds(each, request) for each in above):
            return False
        for each in (row, *above):
            self._left[each] = self._has(each) - request
        return True

    def _has(self, row: int) -> Floats:
        left: Floats = self._left.get(row, self._allocated[row])
        return left

    def _is_lent(self, row: int, named: Bools) -> bool:
        """Whether the queue deserves none of the resources that are named."""
        return not (self._tree.deserved[row] >= demand.EPSILON)[named].any()

    def _is_related(self, row: int) -> bool:
        near = self._tree.near
        return bool(set(near(row, self._levels)) & set(near(self._mine, self._levels)))

    def _exceeds(self, row: int, request: Ints) -> bool:
        """Whether the queue has more than it deserves of a resource that is asked for."""
        counted = (request > 0) & self._tree.names[row]
        counted[PODS] = False
        return bool((self._has(row) > self._tree.deserved[row])[counted].any())

    def _guardians(self, row: int) -> tuple[int, ...]:
        """The queues above, level by level, that are not above the reclaiming queue at the same distance."""
        theirs, own = self._tree.near(row, self._levels), self._tree.near(self._mine, self._levels)
        return tuple(each for level, each in enumerate(theirs) if level >= len(own) or own[level] != each)


def _without_pods(named: Bools) -> Bools:
    result: Bools = named.copy()
    result[PODS] = False
    return result

"""The victims of reclaim: candidates are judged one after another, each on the amounts that earlier victims leave."""

from __future__ import annotations

from pyroclast_scheduler.model import demand
from pyroclast_scheduler.model.dimensions import PODS, Ints
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.plugins.capacity.tree import Tree


class Reclaiming:
    """The choice of victims for a pod of the queue in row `mine`. `request`: None for a gang, whose pods differ.

    `levels`: how many ancestors of a victim's queue must exceed their deserved amounts too.
    """

    def __init__(self, tree: Tree, allocated: Floats, levels: int, mine: int, request: Ints | None) -> None:
        self._tree = tree
        self._left: dict[int, Floats] = {}
        self._allocated = allocated
        self._levels = levels
        self._mine = mine
        self._wants: Bools | None = None
        if request is not None:
            self._wants = request >= demand.EPSILON
            self._wants[PODS] = False
        self._is_borrower = request is not None and self._is_lent(mine, request >= demand.EPSILON)

    def takes(self, row: int, request: Ints) -> bool:
        """Whether a pod of the queue in `row` with `request` is a victim. If so, its request is subtracted from its queue."""
        named = request >= demand.EPSILON
        if self._wants is not None and not (self._wants & named).any():
            return False  # its eviction would not help
        guarantee = self._tree.guarantee[row]
        if not (guarantee < self._has(row) - request + demand.EPSILON)[guarantee > 0].all():
            return False
        if self._is_lent(row, named):
            near = (set(self._tree.near(each, self._levels)) for each in (row, self._mine))
            if self._is_borrower and set.intersection(*near):
                return False  # both queues only borrow from the same ancestor
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
        """Whether the queue deserves none of the resources in `named`."""
        return not (self._tree.deserved[row] >= demand.EPSILON)[named].any()

    def _exceeds(self, row: int, request: Ints) -> bool:
        """Whether the queue has more than its deserved amount of a requested resource."""
        counted = (request > 0) & self._tree.names[row]
        counted[PODS] = False
        return bool((self._has(row) > self._tree.deserved[row])[counted].any())

    def _guardians(self, row: int) -> tuple[int, ...]:
        """Return the ancestors of the victim's queue that are not ancestors of the reclaiming queue at the same level."""
        theirs, own = self._tree.near(row, self._levels), self._tree.near(self._mine, self._levels)
        return tuple(each for level, each in enumerate(theirs) if level >= len(own) or own[level] != each)

"""Hypernodes: domains of the network in tiers, as masks and arrays over the rows of nodes. Lower tiers are closer together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from pyroclast_scheduler.model.node_columns import Bools, Rows

TOP: Final = "<cluster-top-hypernode>"


@dataclass(frozen=True, slots=True, eq=False)
class HyperNode:
    """One domain of the network. `parent`: empty only for the root.

    `nodes`: a mask of the nodes below the hypernode, at any depth.
    """

    name: str
    tier: int
    nodes: Bools
    parent: str = ""
    children: tuple[str, ...] = ()


class HyperNodes(Mapping[str, HyperNode]):
    """All hypernodes by name, with a root above the hypernodes without a parent.

    The root contains all nodes and is one tier above all other hypernodes.

    `tier_names`: the numbers of tiers by name. `is_ready`: False while the HyperNode objects contradict each other. Jobs that
    require a network topology wait while it is False.
    """

    def __init__(
        self,
        nodes: int,
        found: Iterable[HyperNode] = (),
        *,
        tier_names: Mapping[str, int] | None = None,
        is_ready: bool = True,
    ) -> None:
        listed = {each.name: each for each in found}
        roots = [each for each in listed.values() if each.parent not in listed]
        tier = max((each.tier for each in listed.values()), default=0) + 1
        everything = np.ones(nodes, dtype=np.bool_)
        self.top = HyperNode(TOP, max(tier, 1), everything, children=tuple(sorted(each.name for each in roots)))
        for each in roots:
            listed[each.name] = HyperNode(each.name, each.tier, each.nodes, TOP, each.children)
        self._all: dict[str, HyperNode] = listed | {TOP: self.top}
        self._codes: dict[int, npt.NDArray[np.int32]] = {}
        self._rows: dict[str, Rows] = {}
        self.tier_names = dict(tier_names or {})
        self.is_ready = is_ready

    def __getitem__(self, name: str) -> HyperNode:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @cached_property
    def tiers(self) -> list[int]:
        """The tiers that occur, lowest first. Callers must not change the list."""
        return sorted(self._by_tier)

    def of_tier(self, tier: int) -> list[HyperNode]:
        """Return the hypernodes of one tier, sorted by name. The caller must not change the list."""
        return self._by_tier.get(tier, [])

    @cached_property
    def _by_tier(self) -> dict[int, list[HyperNode]]:
        found: dict[int, list[HyperNode]] = {}
        for each in sorted(self._all.values(), key=lambda each: each.name):
            found.setdefault(each.tier, []).append(each)
        return found

    def rows(self, name: str) -> Rows:
        """Return the rows of the nodes below a hypernode. The caller must not change the array."""
        found = self._rows.get(name)
        if found is None:
            found = self._rows[name] = np.flatnonzero(self._all[name].nodes)
        return found

    @cached_property
    def lowest_groups(self) -> dict[str, Rows]:
        """The rows of nodes by the lowest hypernode that contains each node. Callers must not change the arrays."""
        left = np.ones(len(self.top.nodes), dtype=np.bool_)
        found: dict[str, Rows] = {}
        for tier in self.tiers:
            whole = [(each.name, self.rows(each.name)) for each in self.of_tier(tier)]
            found.update((name, rows[left[rows]]) for name, rows in whole)
            for _, rows in whole:
                left[rows] = False
        return found

    def codes(self, tier: int) -> npt.NDArray[np.int32]:
        """Return for each node the position in `of_tier(tier)` of the hypernode that contains the node, −1 if none does.

        The caller must not change the array.
        """
        column = self._codes.get(tier)
        if column is None:
            column = self._codes[tier] = np.full(len(self.top.nodes), -1, dtype=np.int32)
            for code, each in enumerate(self.of_tier(tier)):
                column[each.nodes] = code
        return column

    def ancestors(self, name: str) -> list[HyperNode]:
        """Return the hypernode `name` and its ancestors, up to the root; empty if the hypernode does not exist."""
        found: list[HyperNode] = []
        each = self._all.get(name)
        while each is not None and each not in found:
            found.append(each)
            each = self._all.get(each.parent)
        return found

    def common(self, one: str, other: str) -> str:
        """Return the lowest hypernode that contains both hypernodes. If one name is empty, return the other.

        Return an empty name if the two have no common ancestor.
        """
        if not one or not other:
            return one or other
        above = {each.name for each in self.ancestors(one)}
        return next((each.name for each in self.ancestors(other) if each.name in above), "")

    def lowest(self, row: int) -> str:
        """Return the hypernode of the lowest tier that contains the node at `row`."""
        return min((each for each in self._all.values() if each.nodes[row]), key=lambda each: (each.tier, each.name)).name

"""A group of pods as a tree of parts. Each part is a gang of its own, with a minimum, a topology and an eviction rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec


class GroupClaim(NamedTuple):
    """A claim of a group: the name by which pods refer to the claim, and the name of the claim or of its template."""

    name: str
    claim: str
    template: str


class GroupPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a group. A leaf part has pods; every other part has further parts, its children.

    Attributes:
        name: the name that tasks and explanations use for the part; unique in the group.
        minimum: how many pods of a leaf part must be allocated, or how many children must be ready, before the part
            can start.
        parts: the children of this part; empty for a leaf part.
        topology_key: the key of a node label. All nodes of the part must have the same value of this label.
            These nodes must also have one value of the label of the parent part.
        evicts_whole: whether the pods of the part are evicted all together or not at all.
        claims: the ResourceClaims that belong to the part and not to its pods.
        consumer: the object for which `claims` are reserved, as a reference in the status of a claim.
    """

    name: str
    minimum: int = 1
    parts: tuple[GroupPart, ...] = ()
    topology_key: str = ""
    evicts_whole: bool = False
    claims: tuple[GroupClaim, ...] = ()
    consumer: Mapping[str, str] = {}

    def paths(self, above: tuple[GroupPart, ...] = ()) -> Iterator[tuple[GroupPart, ...]]:
        """Yield for each leaf part the path from this part down to the leaf part."""
        path = (*above, self)
        if not self.parts:
            yield path
        for part in self.parts:
            yield from part.paths(path)

    def is_ready(self, test: Callable[[str], bool]) -> bool:
        """Whether enough children are ready. For a leaf part, `test` is called with the name of the part, and decides."""
        if not self.parts:
            return test(self.name)
        return sum(part.is_ready(test) for part in self.parts) >= self.minimum

    def cheapest(self, cost: Callable[[GroupPart], int]) -> list[GroupPart]:
        """Return the leaf parts that satisfy all minimums at the lowest total `cost`."""
        if not self.parts:
            return [self]
        found = sorted((part.cheapest(cost) for part in self.parts), key=lambda each: sum(map(cost, each)))
        return [part for each in found[: self.minimum] for part in each]

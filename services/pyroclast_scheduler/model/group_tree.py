"""A group as a tree of parts. Each part is a gang of its own, with a minimum, a topology and an eviction rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

__all__ = ["GroupClaim", "GroupPart"]


class GroupClaim(NamedTuple):
    """A claim of a group: the name by which pods refer to the claim, and the name of the claim or of its template."""

    name: str
    claim: str
    template: str


class GroupPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a group: it has either members or further parts.

    Attributes:
        name: the name that tasks and explanations use for the part; unique in the group.
        minimum: how many of its members, or of its parts, must be allocated before the part can start.
        parts: the parts below this part; empty if it has members itself.
        topology_key: a label; all nodes of the part have the same value of it, within the domain of the parent part.
        evicts_whole: whether either all pods of the part are evicted or none.
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
        """Yield for each part with members the path from this part down to that part."""
        path = (*above, self)
        if not self.parts:
            yield path
        for part in self.parts:
            yield from part.paths(path)

    def is_ready(self, test: Callable[[str], bool]) -> bool:
        """Whether enough parts are ready. `test` decides, by name, whether a part with members is ready."""
        if not self.parts:
            return test(self.name)
        return sum(part.is_ready(test) for part in self.parts) >= self.minimum

    def cheapest(self, cost: Callable[[GroupPart], int]) -> list[GroupPart]:
        """Return the cheapest selection of parts with members that satisfies all minimums."""
        if not self.parts:
            return [self]
        found = sorted((part.cheapest(cost) for part in self.parts), key=lambda each: sum(map(cost, each)))
        return [part for each in found[: self.minimum] for part in each]

"""A group as a tree of parts: each part starts whole or not at all, with a minimum, a topology and evictions of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

__all__ = ["GroupClaim", "GroupPart"]


class GroupClaim(NamedTuple):
    """What pods call a claim that is their group's: its name among theirs, and that of the claim or of its template."""

    name: str
    claim: str
    template: str


class GroupPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part: of members, or of further parts.

    Attributes:
        name: by which a task says that it belongs there, and what explanations call it; unique in the group.
        minimum: how many of its members, or of its parts, must have a place for it to start.
        parts: what it is divided into; empty where it has members itself.
        topology_key: all of it goes to nodes with one value of this label, inside the domain of the part above it.
        evicts_whole: either all of its pods are evicted or none.
        claims: claims on devices that are its own, not those of its pods; `consumer`: for whom these are reserved.
    """

    name: str
    minimum: int = 1
    parts: tuple[GroupPart, ...] = ()
    topology_key: str = ""
    evicts_whole: bool = False
    claims: tuple[GroupClaim, ...] = ()
    consumer: Mapping[str, str] = {}

    def paths(self, above: tuple[GroupPart, ...] = ()) -> Iterator[tuple[GroupPart, ...]]:
        """For each part that has members, all that it belongs to: this one first, itself last."""
        path = (*above, self)
        if not self.parts:
            yield path
        for part in self.parts:
            yield from part.paths(path)

    def is_ready(self, test: Callable[[str], bool]) -> bool:
        """Whether enough of it is; `test` tells it of a part with members, by name."""
        if not self.parts:
            return test(self.name)
        return sum(part.is_ready(test) for part in self.parts) >= self.minimum

    def cheapest(self, cost: Callable[[GroupPart], int]) -> list[GroupPart]:
        """The parts with members that must start at least, where those go first that cost least."""
        if not self.parts:
            return [self]
        found = sorted((part.cheapest(cost) for part in self.parts), key=lambda each: sum(map(cost, each)))
        return [part for each in found[: self.minimum] for part in each]

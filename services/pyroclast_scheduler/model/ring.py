"""The hash ring of a StatefulSet of schedulers: which of them a pod, a PodGroup or a node belongs to.

Points and texts are Volcano's, so that members of both agree while one replaces the other.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final

from pyroclast.api import keys, records

__all__ = ["Ring", "ring_key", "ring_of"]

_POINTS: Final = 20
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})


class Ring:
    """Members `<base>-0` … `<base>-(size−1)`, of which `member` is us."""

    def __init__(self, member: str, size: int) -> None:
        self.member = member
        base = member.rpartition("-")[0]
        members = [f"{base}-{i}" for i in range(size)]
        points = {zlib.crc32(f"{i}{name}".encode()): name for name in members for i in range(_POINTS)}
        self._places = sorted(points)
        self._owners = [points[place] for place in self._places]

    @property
    def index(self) -> int:
        """The number of our member."""
        return int(self.member.rpartition("-")[2])

    def owner(self, key: str) -> str:
        """The member that `key` maps to: the owner of the next point on the ring, which wraps round."""
        at = bisect_right(self._places, zlib.crc32(key.encode()))
        return self._owners[at % len(self._owners)]

    def is_mine(self, key: str) -> bool:
        """Whether `key` maps to us."""
        return self.owner(key) == self.member


def ring_of(environment: Mapping[str, str]) -> Ring | None:
    """The ring that the variables of the environment describe, None if there is only one scheduler.

    Raises:
        ValueError: we are not among the members.
    """
    if environment.get("MULTI_SCHEDULER_ENABLE", "") not in _TRUE:
        return None
    text = environment.get("SCHEDULER_NUM", "")
    size = int(text) if text.isdecimal() and int(text) else 1
    member = environment.get("SCHEDULER_POD_NAME", "")
    _, dash, index = member.rpartition("-")
    if not dash or not index.isdecimal() or int(index) >= size:
        raise ValueError(f"SCHEDULER_POD_NAME is {member!r}, which is no NAME-0 … NAME-{size - 1} (SCHEDULER_NUM is {text!r})")
    return Ring(member, size)


def ring_key(meta: records.Meta) -> str:
    """What decides to whom a pod or PodGroup belongs: its first owner, so that a Job goes as a whole, else itself.

    A pod without an owner that names a PodGroup made by its user follows that PodGroup, or the gang would be torn apart.
    """
    if meta.owner_references:
        return meta.owner_references[0].name
    group = meta.annotations.get(keys.GROUP_NAME, "")
    return group if group and group != f"podgroup-{meta.uid}" else meta.name

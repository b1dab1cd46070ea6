"""The hash ring of a StatefulSet of schedulers, which maps each pod, PodGroup and node to one member.

The points on the ring and the hashed texts are those of Volcano. Members of both systems therefore agree during a migration.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final

from pyroclast.api import keys, records

_POINTS: Final = 20
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})


class Ring:
    """The ring of the members `<base>-0` … `<base>-(size−1)`. `member`: the name of this scheduler."""

    def __init__(self, member: str, size: int) -> None:
        self.member = member
        base = member.rpartition("-")[0]
        members = [f"{base}-{i}" for i in range(size)]
        points = {zlib.crc32(f"{i}{name}".encode()): name for name in members for i in range(_POINTS)}
        self._places = sorted(points)
        self._owners = [points[place] for place in self._places]

    @property
    def index(self) -> int:
        """The ordinal of this scheduler."""
        return int(self.member.rpartition("-")[2])

    def owner(self, key: str) -> str:
        """Return the member that owns `key`: the member of the next point on the ring."""
        at = bisect_right(self._places, zlib.crc32(key.encode()))
        return self._owners[at % len(self._owners)]

    def is_mine(self, key: str) -> bool:
        """Whether this scheduler owns `key`."""
        return self.owner(key) == self.member


def ring_of(environment: Mapping[str, str]) -> Ring | None:
    """Return the ring that the environment variables describe, None if there is only one scheduler.

    Raises:
        ValueError: this scheduler is not one of the members.
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
    """Return the name that decides which member owns a pod or PodGroup: that of its first owner, else its own.

    The owner is used so that all pods of a Job have one member. A pod without an owner uses the name of its PodGroup, unless that
    PodGroup was made for this pod alone. Otherwise several members would share one gang.
    """
    if meta.owner_references:
        return meta.owner_references[0].name
    group = meta.annotations.get(keys.GROUP_NAME, "")
    return group if group and group != f"podgroup-{meta.uid}" else meta.name

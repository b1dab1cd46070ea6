"""How several schedulers divide the cluster: by a hash ring over pods and nodes, or by NodeShards. Pure.

The points on the ring and the hashed texts are those of Volcano. Members of both systems therefore agree during a migration.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Collection, Mapping
from typing import Final

from pyroclast.api import keys, records
from pyroclast.resources.go_flags import parse_bool


class ShardTable:
    """All NodeShards. `name`: the name of this scheduler's NodeShard.

    `nodes`: the nodes that this scheduler may use. The NodeShard of this scheduler desires these nodes, and no other one uses
    them. While the NodeShard of this scheduler does not exist, `nodes` keeps its last value.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: frozenset[str] = frozenset()
        self._shards: dict[str, records.NodeShard] = {}

    @property
    def own(self) -> records.NodeShard | None:
        """The NodeShard of this scheduler, None if it does not exist."""
        return self._shards.get(self.name)

    def changed(self, old: records.NodeShard | None, new: records.NodeShard | None) -> None:
        """Handle that a NodeShard was created, changed or deleted."""
        if old is not None:
            self._shards.pop(old.metadata.name, None)
        if new is not None:
            self._shards[new.metadata.name] = new
        own = self.own
        if own is not None:
            others = [shard for name, shard in self._shards.items() if name != self.name]
            free = frozenset(own.spec.nodes_desired).difference(*(shard.status.nodes_in_use for shard in others))
            used = set(own.status.nodes_in_use)
            # the first NodeShard by name gets a node that several desire and none uses: else all would use and then leave it
            first = [shard.spec.nodes_desired for shard in others if shard.metadata.name < self.name]
            self.nodes = free - {node for desired in first for node in desired if node not in used}

    def claimed(self) -> frozenset[str]:
        """Return those of `nodes` that the status of this scheduler's NodeShard lists, so that no other scheduler uses them."""
        own = self.own
        return self.nodes if own is None else self.nodes.intersection(own.status.nodes_in_use)

    def status(self, busy: Collection[str] = ()) -> dict[str, list[str]]:
        """Return the changes to the status of this scheduler's NodeShard; empty if it is up to date.

        `busy`: nodes that stay in use until a bind is finished.
        """
        own = self.own
        if own is None:
            return {}
        desired, said = frozenset(own.spec.nodes_desired), own.status
        used = self.nodes | frozenset(busy).intersection(said.nodes_in_use)
        found = (used, used - desired, desired - used)
        if found == (frozenset(said.nodes_in_use), frozenset(said.nodes_to_remove), frozenset(said.nodes_to_add)):
            return {}
        names = ("nodesInUse", "nodesToRemove", "nodesToAdd")
        return {name: sorted(nodes) for name, nodes in zip(names, found, strict=True)}


_POINTS: Final = 20


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
    if not parse_bool(environment.get("MULTI_SCHEDULER_ENABLE", "")):
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

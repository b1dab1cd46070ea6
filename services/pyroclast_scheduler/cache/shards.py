"""NodeShards as the watch tells them, and which nodes are ours by them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pyroclast.api import records

__all__ = ["ShardTable", "free_of"]


def free_of(desired: Iterable[str], used: Iterable[Collection[str]]) -> frozenset[str]:
    """The desired nodes that no other scheduler says it uses."""
    return frozenset(desired).difference(*used)


class ShardTable:
    """All NodeShards; `name` is that of ours.

    `nodes` are those that we may use: desired, and in use by no other. Where ours is missing the last ones stand.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: frozenset[str] = frozenset()
        self._shards: dict[str, records.NodeShard] = {}

    @property
    def own(self) -> records.NodeShard | None:
        """Our NodeShard, None while there is none."""
        return self._shards.get(self.name)

    def changed(self, old: records.NodeShard | None, new: records.NodeShard | None) -> None:
        """A NodeShard came, changed, or went."""
        if old is not None:
            self._shards.pop(old.metadata.name, None)
        if new is not None:
            self._shards[new.metadata.name] = new
        own = self.own
        if own is not None:
            others = [shard for name, shard in self._shards.items() if name != self.name]
            free = free_of(own.spec.nodes_desired, [shard.status.nodes_in_use for shard in others])
            used = set(own.status.nodes_in_use)
            # what several should use and nobody does goes to the first by name: else all take it, see each other, and leave it
            first = [shard.spec.nodes_desired for shard in others if shard.metadata.name < self.name]
            self.nodes = free - {node for desired in first for node in desired if node not in used}

    def claimed(self) -> frozenset[str]:
        """Those of our nodes of which our status says that we use them, so that no other takes them."""
        own = self.own
        return self.nodes if own is None else self.nodes.intersection(own.status.nodes_in_use)

    def status(self, busy: Collection[str] = ()) -> dict[str, list[str]]:
        """What our status should say and does not; empty if it does. `busy`: nodes that are in use until a bind has landed."""
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

"""The NodeShards by the watch, and the nodes that they assign to this scheduler."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pyroclast.api import records


def free_of(desired: Iterable[str], used: Iterable[Collection[str]]) -> frozenset[str]:
    """Return the desired nodes that no other scheduler reports as used."""
    return frozenset(desired).difference(*used)


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
            free = free_of(own.spec.nodes_desired, [shard.status.nodes_in_use for shard in others])
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

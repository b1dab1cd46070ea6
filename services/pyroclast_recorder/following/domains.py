"""The lowest HyperNode of each node, which is the network domain of the pods on the node."""

from __future__ import annotations

from collections.abc import Mapping

from pyroclast.api.enums import MemberType
from pyroclast.api.records import HyperNode
from pyroclast.lifecycle.hypernodes.members import member_names
from pyroclast_recorder.database.batches import Cursor


class Domains:
    """A `Sink` that remembers all HyperNodes, whose stream begins with a list. `NodeSink` reports the labels of nodes."""

    def __init__(self) -> None:
        self._hyper_nodes: dict[str, HyperNode] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        self._found: dict[str, str | None] = {}

    def of(self, node: str | None) -> str | None:
        """Return the name of the lowest HyperNode with `node` as a member; the first by name if several have the same tier.

        None when no HyperNode has this member.
        """
        if not node or not self._hyper_nodes:
            return None
        if node not in self._found:
            labels = {node: self._labels.get(node, {})}
            around = (each for each in self._hyper_nodes.values() if _has(each, labels))
            lowest = min(around, key=lambda each: (each.spec.tier, each.metadata.name), default=None)
            self._found[node] = None if lowest is None else lowest.metadata.name
        return self._found[node]

    def note(self, node: str, labels: Mapping[str, str]) -> None:
        """Remember the labels of a node, because HyperNodes select members by label."""
        if self._labels.get(node) != labels:
            self._labels[node] = labels
            self._found.pop(node, None)

    async def take(self, record: HyperNode, version: int, now: int, *, is_deleted: bool) -> None:  # noqa: ARG002 - a Sink
        """Handle an added, updated or deleted HyperNode."""
        name = record.metadata.name
        known = self._hyper_nodes.pop(name, None)
        if not is_deleted:
            self._hyper_nodes[name] = record
        if is_deleted or known is None or known.spec != record.spec:
            self._found.clear()

    async def take_list(self, uids: set[str], since: int | None, began: int, now: int) -> None:  # noqa: ARG002 - a Sink
        """Handle a complete list: forget HyperNodes that are not in the list."""
        self._hyper_nodes = {name: each for name, each in self._hyper_nodes.items() if each.metadata.uid in uids}
        self._found.clear()

    async def tell_gap(self, cursor: Cursor, now: int, why: str) -> None:
        """Do nothing: the next list has all HyperNodes, so a gap loses nothing."""

    async def move(self, cursor: Cursor) -> None:
        """Do nothing: the next recording replica lists all HyperNodes, so no cursor is stored."""


def _has(hyper_node: HyperNode, node: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether a HyperNode selects a node. `node`: the labels of the node, by its name."""
    members = tuple(each for each in hyper_node.spec.members if each.type is MemberType.NODE)
    spec = type(hyper_node.spec)(tier=hyper_node.spec.tier, members=members)
    return not node.keys().isdisjoint(member_names(HyperNode(metadata=hyper_node.metadata, spec=spec), node))

"""Which HyperNode each node is in: the part of the network that a pod runs in."""

from __future__ import annotations

from collections.abc import Mapping

from pyroclast.api.enums import MemberType
from pyroclast.api.records import HyperNode
from pyroclast.lifecycle.hypernodes.members import member_names
from pyroclast_recorder.database.batches import Cursor

__all__ = ["Domains"]


class Domains:
    """A `Sink` of HyperNodes, all of which it knows: their stream begins with a list. Labels are noted as nodes are seen."""

    def __init__(self) -> None:
        self._hyper_nodes: dict[str, HyperNode] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        self._found: dict[str, str | None] = {}

    def of(self, node: str | None) -> str | None:
        """The lowest HyperNode that has a node as its member; the first by name, if there are several."""
        if not node or not self._hyper_nodes:
            return None
        if node not in self._found:
            labels = {node: self._labels.get(node, {})}
            around = (each for each in self._hyper_nodes.values() if _has(each, labels))
            lowest = min(around, key=lambda each: (each.spec.tier, each.metadata.name), default=None)
            self._found[node] = None if lowest is None else lowest.metadata.name
        return self._found[node]

    def note(self, node: str, labels: Mapping[str, str]) -> None:
        """Remember the labels of a node, by which HyperNodes select it."""
        if self._labels.get(node) != labels:
            self._labels[node] = labels
            self._found.pop(node, None)

    async def take(self, record: HyperNode, version: int, now: int, *, is_deleted: bool) -> None:  # noqa: ARG002 - a Sink
        """A HyperNode was seen."""
        name = record.metadata.name
        known = self._hyper_nodes.pop(name, None)
        if not is_deleted:
            self._hyper_nodes[name] = record
        if is_deleted or known is None or known.spec != record.spec:
            self._found.clear()

    async def take_list(self, uids: set[str], since: int | None, began: int, now: int) -> None:  # noqa: ARG002 - a Sink
        """The list is complete: HyperNodes that are not in it have gone."""
        self._hyper_nodes = {name: each for name, each in self._hyper_nodes.items() if each.metadata.uid in uids}
        self._found.clear()

    async def tell_gap(self, cursor: Cursor, now: int, why: str) -> None:
        """Nothing is lost: what HyperNodes there are is listed anew."""

    async def move(self, cursor: Cursor) -> None:
        """Where it ends needs no row: the next who records lists all HyperNodes."""


def _has(hyper_node: HyperNode, node: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether a node, with its labels by its name, is a member."""
    members = tuple(each for each in hyper_node.spec.members if each.type is MemberType.NODE)
    spec = type(hyper_node.spec)(tier=hyper_node.spec.tier, members=members)
    return not node.keys().isdisjoint(member_names(HyperNode(metadata=hyper_node.metadata, spec=spec), node))

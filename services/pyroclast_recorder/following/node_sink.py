"""The sink of nodes, which makes a row whenever the allocatable resources or the state of a node change, and their domains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from pyroclast.api.enums import MemberType
from pyroclast.api.records import HyperNode
from pyroclast.api.records.nodes import Node
from pyroclast.lifecycle.hypernodes.discovered import member_names
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import node_states
from pyroclast_recorder.facts.units import clipped, read_amounts
from pyroclast_recorder.following.sinks import KindSink, Seen
from pyroclast_recorder.following.stream import ListedSink
from pyroclast_recorder.following.writer import RowTaker


class Domains(ListedSink):
    """A `Sink` of HyperNodes. `NodeSink` reports the labels of nodes."""

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

    async def take_list(self, uids: set[str], since: int | None, began: int, now: int, version: int | None = None) -> None:  # noqa: ARG002 - a Sink
        """Handle a complete list: forget HyperNodes that are not in the list."""
        self._hyper_nodes = {name: each for name, each in self._hyper_nodes.items() if each.metadata.uid in uids}
        self._found.clear()


def _has(hyper_node: HyperNode, node: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether a HyperNode selects a node. `node`: the labels of the node, by its name."""
    members = tuple(each for each in hyper_node.spec.members if each.type is MemberType.NODE)
    spec = type(hyper_node.spec)(tier=hyper_node.spec.tier, members=members)
    return not node.keys().isdisjoint(member_names(HyperNode(metadata=hyper_node.metadata, spec=spec), node))


GONE = "{}"
"""The allocatable resources of a deleted node, as JSON."""


def node_facts(node: Node, *, is_deleted: bool) -> dict[str, Any]:
    """Return the columns of the state of a node. A node that is not ready or is cordoned counts as down."""
    if is_deleted:
        return {"name": clipped(node.metadata.name, 253), "allocatable": GONE, "is_down": 0}
    amounts = read_amounts(node.status.allocatable)
    amounts.pop("pods", None)
    is_ready = any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
    allocatable = orjson.dumps(amounts, option=orjson.OPT_SORT_KEYS).decode()
    return {
        "name": clipped(node.metadata.name, 253),
        "allocatable": allocatable,
        "is_down": int(not is_ready or node.spec.unschedulable),
    }


class NodeSink(KindSink[Node]):
    """A `Sink` of nodes. Most events of nodes are heartbeats, which make no rows."""

    def __init__(self, database: Database, writer: RowTaker, domains: Domains, on_gap: Callable[[str, float], None]) -> None:
        super().__init__(database, writer, self._rows_of, None, on_gap)
        self._domains = domains
        self._last: dict[str, dict[str, Any]] = {}

    def _rows_of(self, node: Node, now: int, *, is_deleted: bool) -> Seen:
        self._domains.note(node.metadata.name, node.metadata.labels)
        uid, facts = node.metadata.uid, node_facts(node, is_deleted=is_deleted)
        if self._last.get(uid) != facts:
            self._last[uid] = facts
            yield node_states, None, {"uid": uid, "at": now, **facts}

    async def take_list(self, uids: set[str], since: int | None, began: int, now: int, version: int | None = None) -> None:  # noqa: ARG002 - a Sink
        """Handle a complete list: record the deletion of nodes that are not in the list."""
        await self._writer.flushed()
        for row in await self._database.newest(node_states, node_states.c.allocatable != GONE):
            if (uid := row["uid"]) not in uids:
                self._last.pop(uid, None)
                gone = {"uid": uid, "at": now, "name": row["name"], "allocatable": GONE, "is_down": 0}
                await self._writer.add(node_states, 0, gone)

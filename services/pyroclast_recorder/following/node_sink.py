"""The sink of nodes, which makes a row whenever the allocatable resources or the state of a node change."""

from __future__ import annotations

from typing import Any

from pyroclast.api.records.nodes import Node
from pyroclast_recorder.database.batches import Cursor
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import gaps, node_states
from pyroclast_recorder.facts.nodes import GONE, node_facts
from pyroclast_recorder.following.domains import Domains
from pyroclast_recorder.following.writer import RowTaker


class NodeSink:
    """A `Sink` of nodes. Most events of nodes are heartbeats, which make no rows.

    Args:
        database: the source of the recorded nodes.
        writer: receives the rows.
        domains: receives the labels of each node.
    """

    def __init__(self, database: Database, writer: RowTaker, domains: Domains) -> None:
        self._database, self._writer, self._domains = database, writer, domains
        self._last: dict[str, dict[str, Any]] = {}

    async def take(self, record: Node, version: int, now: int, *, is_deleted: bool) -> None:
        """Handle an added, updated or deleted node."""
        self._domains.note(record.metadata.name, record.metadata.labels)
        uid, facts = record.metadata.uid, node_facts(record, is_deleted=is_deleted)
        if self._last.get(uid) == facts:
            return
        self._last[uid] = facts
        await self._writer.add(node_states, version, {"uid": uid, "at": now, **facts})

    async def take_list(self, uids: set[str], since: int | None, began: int, now: int) -> None:  # noqa: ARG002 - a Sink
        """Handle a complete list: record the deletion of nodes that are not in the list."""
        await self._writer.flushed()
        for uid, name in (await self._database.nodes_there()).items():
            if uid not in uids:
                self._last.pop(uid, None)
                gone = {"uid": uid, "at": now, "name": name, "allocatable": GONE, "is_down": 0}
                await self._writer.add(node_states, 0, gone)

    async def tell_gap(self, cursor: Cursor, now: int, why: str) -> None:
        """Record a gap: the events between `cursor` and `now` are lost."""
        await self._writer.add(gaps, 0, {"kind": cursor.kind, "since": cursor.at, "until": now, "why": why})

    async def move(self, cursor: Cursor) -> None:
        """Set the position up to which the rows include all events."""
        self._writer.move(cursor)

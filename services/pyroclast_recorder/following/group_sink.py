"""The sink of PodGroups, which makes rows of their Jobs, and a row whenever the reserved nodes of a PodGroup change."""

from __future__ import annotations

from pyroclast.api.records.groups import PodGroup
from pyroclast_recorder.database.tables import reservations
from pyroclast_recorder.facts.reservations import NO_NODES, kept_nodes
from pyroclast_recorder.following.sinks import KindSink


class GroupSink(KindSink[PodGroup]):
    """A `Sink` of PodGroups."""

    _kept: dict[str, str] | None = None
    """The reserved nodes of each PodGroup as JSON, by uid; None before the database was read."""

    async def take(self, record: PodGroup, version: int, now: int, *, is_deleted: bool) -> None:
        """Handle an added, updated or deleted PodGroup."""
        await super().take(record, version, now, is_deleted=is_deleted)
        await self._keep(record.metadata.uid, version, now, kept_nodes(record, is_deleted=is_deleted))

    async def take_list(self, uids: set[str], since: int | None, began: int, now: int) -> None:
        """Handle a complete list: PodGroups that are not in the list have no reserved nodes."""
        await super().take_list(uids, since, began, now)
        for uid in (await self._known()).keys() - uids:
            await self._keep(uid, 0, now, NO_NODES)

    async def _keep(self, uid: str, version: int, now: int, nodes: str) -> None:
        known = await self._known()
        if known.get(uid, NO_NODES) == nodes:
            return
        if nodes == NO_NODES:
            del known[uid]
        else:
            known[uid] = nodes
        await self._writer.add(reservations, version, {"uid": uid, "at": now, "nodes": nodes})

    async def _known(self) -> dict[str, str]:
        if self._kept is None:
            self._kept = await self._database.reservations_there()
        return self._kept

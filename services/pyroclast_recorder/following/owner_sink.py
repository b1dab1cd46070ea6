"""The sink of flows, CronJobs, HyperJobs and native Jobs."""

from __future__ import annotations

from collections.abc import Callable

from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import owners
from pyroclast_recorder.facts.owners import Owner, owner_facts
from pyroclast_recorder.following.sinks import KindSink, Seen
from pyroclast_recorder.following.writer import RowTaker


class OwnerSink(KindSink[Owner]):
    """A `Sink` of one kind of owners of Jobs.

    Args:
        database: the source of the recorded owners.
        writer: receives the rows.
        kind: the name of the kind.
        is_kept: returns whether an object makes a row; None when each object does.
        on_gap: called with the kind and the seconds of a gap in the events.
        more: returns further rows of an object; None without further rows.
    """

    def __init__(
        self,
        database: Database,
        writer: RowTaker,
        kind: str,
        on_gap: Callable[[str, float], None],
        *,
        more: Callable[..., Seen] | None = None,
        is_kept: Callable[[Owner], bool] | None = None,
    ) -> None:
        def rows(owner: Owner, now: int, *, is_deleted: bool) -> Seen:
            if is_kept is not None and not is_kept(owner):
                return
            yield owners, None, owner_facts(owner, now, is_deleted=is_deleted)
            if more is not None:
                yield from more(owner, now, is_deleted=is_deleted)

        super().__init__(database, writer, rows, None, on_gap)
        self._owner_kind = kind

    async def take_list(self, uids: set[str], since: int | None, began: int, now: int) -> None:  # noqa: ARG002 - a Sink
        """Handle a complete list: record the deletion of owners that are not in the list."""
        await self._writer.flushed()
        for uid in await self._database.owners_there(self._owner_kind):
            if uid not in uids:
                await self._writer.add(owners, 0, {"uid": uid, "removed": now})

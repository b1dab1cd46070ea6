"""Takes what is seen of flows, CronJobs, HyperJobs, and Jobs of Kubernetes itself."""

from __future__ import annotations

from collections.abc import Callable

from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import owners
from pyroclast_recorder.facts.owners import Owner, owner_facts
from pyroclast_recorder.following.sinks import KindSink, Seen
from pyroclast_recorder.following.writer import RowTaker

__all__ = ["OwnerSink"]


class OwnerSink(KindSink[Owner]):
    """A `Sink` of one kind of what makes Jobs.

    Args:
        database: asked which of the kind there were.
        writer: takes the rows.
        kind: which it is.
        is_kept: whether an object makes a row; None: each does.
        on_gap: told the kind and the seconds of what could not be seen.
        more: further rows of an object, where somebody wants them.
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
        """The list is complete: those that are not in it have gone."""
        await self._writer.flushed()
        for uid in await self._database.owners_there(self._owner_kind):
            if uid not in uids:
                await self._writer.add(owners, 0, {"uid": uid, "removed": now})

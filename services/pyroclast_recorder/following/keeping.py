"""The rows of the last ten minutes of one kind, in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from sqlalchemy import Table

from pyroclast.api.records.meta import Record
from pyroclast_recorder.database.batches import Batch, Cursor
from pyroclast_recorder.database.tables import Row
from pyroclast_recorder.following.stream import Sink
from pyroclast_recorder.following.writer import RowTaker

__all__ = ["Keeper", "StandbySink"]

T = TypeVar("T", bound=Record)

KEPT_SECONDS: Final = 600
LOT_SECONDS: Final = 120
"""Rows go in lots of so many seconds."""

MOST_ROWS: Final = 50_000
"""Of one kind. Rows of the same object and moment are one."""

CLOCKS_SECONDS: Final = 5
"""So much two replicas may differ in what they take for the time of the API server."""


class Keeper:
    """Keeps the rows of one kind in memory, in the place of a `Writer`.

    Args:
        cluster: whose rows.
        now: seconds by the clock of the API server.
        cursor: where in the history its stream begins; None where that begins with a list.
    """

    def __init__(self, cluster: str, now: Callable[[], float], cursor: Cursor | None) -> None:
        self._cluster, self._now = cluster, now
        self._lots: deque[tuple[int, Batch]] = deque()
        self.cursor = cursor
        self.since: int | None = cursor.at if cursor else None

    async def add(self, table: Table, version: int, row: Row) -> None:
        """Keep a row."""
        now = int(self._now())
        if not self._lots or now - self._lots[-1][0] >= LOT_SECONDS:
            self._lots.append((now, Batch(self._cluster)))
        self._lots[-1][1].add(table, version, row)
        while self._lots[0][0] <= now - KEPT_SECONDS - LOT_SECONDS or self._rows() > MOST_ROWS:
            self._lots.popleft()
            self.since = (self._lots[0][0] if self._lots else now) + CLOCKS_SECONDS
            if not self._lots:
                break

    def move(self, cursor: Cursor) -> None:
        """Note how far the rows reach."""
        self.cursor = cursor

    async def flushed(self) -> None:
        """Nothing waits to be kept."""

    def begin(self, since: int | None) -> None:
        """Nothing is missing since a time, when a list was asked for; None: all that was kept is of no use."""
        if since is None:
            self._lots.clear()
        self.since = None if since is None else since + CLOCKS_SECONDS

    def reaches(self, cursor: Cursor) -> bool:
        """Whether nothing is missing between `cursor` and where these rows end."""
        if self.cursor is None or self.since is None:
            return False
        return self.cursor.epoch == cursor.epoch and self.since <= cursor.at

    async def hand_over(self, to: RowTaker) -> None:
        """Give all rows to a writer."""
        while self._lots:
            _, batch = self._lots.popleft()
            for table, rows in batch.rows.items():
                for row in rows.values():
                    await to.add(table, row["version"], row)

    def _rows(self) -> int:
        return sum(len(batch) for _, batch in self._lots)


class StandbySink(Generic[T]):
    """A `Sink` that has another make rows for a keeper; of lists, which tell only what is there, it keeps the rows."""

    def __init__(self, sink: Sink[T], keeper: Keeper) -> None:
        self._sink, self._keeper = sink, keeper

    async def take(self, record: T, version: int, now: int, *, is_deleted: bool) -> None:
        """An object was seen."""
        await self._sink.take(record, version, now, is_deleted=is_deleted)

    async def take_list(self, uids: set[str], since: int | None, began: int, now: int) -> None:  # noqa: ARG002 - a Sink
        """From when the list was asked for nothing is missing."""
        self._keeper.begin(began)

    async def tell_gap(self, cursor: Cursor, now: int, why: str) -> None:  # noqa: ARG002 - a Sink
        """What was kept ends before the gap, and is of no use behind it."""
        self._keeper.begin(None)

    async def move(self, cursor: Cursor) -> None:
        """All that was taken reaches to the cursor."""
        self._keeper.move(cursor)

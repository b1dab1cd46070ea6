"""The rows of one kind from the last ten minutes, in the memory of a standby replica."""

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

T = TypeVar("T", bound=Record)

KEPT_SECONDS: Final = 600
LOT_SECONDS: Final = 120
"""The seconds that one lot of rows covers. Old rows are dropped one lot at a time."""

MOST_ROWS: Final = 50_000
"""The most rows of one kind in memory. Rows with the same key are merged into one."""

CLOCKS_SECONDS: Final = 5
"""The seconds by which the clocks of two replicas may differ."""


class Keeper:
    """Keeps the recent rows of one kind in memory, in place of a `Writer`.

    Args:
        cluster: the cluster of the rows.
        now: returns the time in seconds by the clock of the API server.
        cursor: the position at which the stream begins; None when the stream begins with a list.
    """

    def __init__(self, cluster: str, now: Callable[[], float], cursor: Cursor | None) -> None:
        self._cluster, self._now = cluster, now
        self._lots: deque[tuple[int, Batch]] = deque()
        self.cursor = cursor
        self.since: int | None = cursor.at if cursor else None

    async def add(self, table: Table, version: int, row: Row) -> None:
        """Add a row, and drop rows that are too old."""
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
        """Set the position up to which the rows include all events."""
        self.cursor = cursor

    async def flushed(self) -> None:
        """Do nothing: each row is in memory at once."""

    def begin(self, since: int | None) -> None:
        """Set the time since which the rows are complete, for example the time of a list request.

        None: drop all rows, because they are useless.
        """
        if since is None:
            self._lots.clear()
        self.since = None if since is None else since + CLOCKS_SECONDS

    def reaches(self, cursor: Cursor) -> bool:
        """Whether the rows include all events between `cursor` and the cursor of this keeper."""
        if self.cursor is None or self.since is None:
            return False
        return self.cursor.epoch == cursor.epoch and self.since <= cursor.at

    async def hand_over(self, to: RowTaker) -> None:
        """Move all rows to a writer."""
        while self._lots:
            _, batch = self._lots.popleft()
            for table, rows in batch.rows.items():
                for row in rows.values():
                    await to.add(table, row["version"], row)

    def _rows(self) -> int:
        return sum(len(batch) for _, batch in self._lots)


class StandbySink(Generic[T]):
    """A `Sink` that passes objects to another sink, whose rows a keeper stores.

    After a list, only the rows of the listed objects are stored; deletions are not derived from the list.
    """

    def __init__(self, sink: Sink[T], keeper: Keeper) -> None:
        self._sink, self._keeper = sink, keeper

    async def take(self, record: T, version: int, now: int, *, is_deleted: bool) -> None:
        """Handle an added, updated or deleted object."""
        await self._sink.take(record, version, now, is_deleted=is_deleted)

    async def take_list(self, uids: set[str], since: int | None, began: int, now: int) -> None:  # noqa: ARG002 - a Sink
        """Handle a complete list: the rows are complete since the time `began` of the list request."""
        self._keeper.begin(began)

    async def tell_gap(self, cursor: Cursor, now: int, why: str) -> None:  # noqa: ARG002 - a Sink
        """Handle a gap: drop the rows from before the gap, which are useless after it."""
        self._keeper.begin(None)

    async def move(self, cursor: Cursor) -> None:
        """Set the position up to which the rows include all events."""
        self._keeper.move(cursor)

"""What is written in one transaction: rows, merged as they come, and how far in the API server's history they reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import Table

from pyroclast_recorder.database.merging import key_of, merged
from pyroclast_recorder.database.tables import Row

__all__ = ["Batch", "Cursor"]


class Cursor(NamedTuple):
    """Where in the API server's history the rows of a kind end.

    Attributes:
        kind: plural and group.
        resource_version: of the last event; empty where the list must be read anew.
        at: when that was, in seconds by the clock of the API server.
        epoch: how often its history was seen to go back, as after a restore.
    """

    kind: str
    resource_version: str
    at: int
    epoch: int


class Batch:
    """Rows by table and key, and cursors by kind."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.rows: dict[Table, dict[tuple[Any, ...], dict[str, Any]]] = {}
        self.cursors: dict[str, Cursor] = {}

    def __len__(self) -> int:
        return sum(map(len, self.rows.values())) + len(self.cursors)

    def add(self, table: Table, version: int, row: Row) -> None:
        """Add a row that was read at a version."""
        whole = {**dict.fromkeys(table.columns.keys()), **row, "cluster": self.cluster, "version": version}
        rows = self.rows.setdefault(table, {})
        key = key_of(table, whole)
        rows[key] = merged(table, rows[key], whole) if key in rows else whole

    def move(self, cursor: Cursor) -> None:
        """What was added so far reaches to `cursor`."""
        self.cursors[cursor.kind] = cursor

    def parts(self) -> Iterator[Batch]:
        """Batches of one row each, at last one with the cursors."""
        for table, rows in self.rows.items():
            for key, row in rows.items():
                part = Batch(self.cluster)
                part.rows[table] = {key: row}
                yield part
        last = Batch(self.cluster)
        last.cursors = self.cursors
        yield last

    def described(self) -> list[str]:
        """Tables and keys of the rows, for the log."""
        return [f"{table.name} {'/'.join(map(str, key[1:]))}" for table, rows in self.rows.items() for key in rows]

    def cursor_rows(self) -> list[dict[str, Any]]:
        """The rows of `cursors`."""
        return [{"cluster": self.cluster, **cursor._asdict()} for cursor in self.cursors.values()]

    def take_up(self, other: Batch) -> None:
        """Add what a later batch has."""
        for table, rows in other.rows.items():
            for row in rows.values():
                self.add(table, row["version"], row)
        self.cursors |= other.cursors

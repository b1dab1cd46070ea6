"""The content of one transaction: rows, merged as they are added, and cursors into the history of the API server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import Column, ColumnElement, FromClause, Table, and_, case, func, null, or_
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.base import ReadOnlyColumnCollection
from sqlalchemy.sql.elements import KeyedColumnElement

from pyroclast.api.enums import PodPhase
from pyroclast_recorder.database.tables import Merge, Row, merge_of
from pyroclast_recorder.past_states import OF_STATE, joined, seen_state

Insert: TypeAlias = postgresql.Insert | sqlite.Insert
Columns: TypeAlias = ReadOnlyColumnCollection[str, KeyedColumnElement[Any]]

ENDED: Final = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


def key_of(table: Table, row: Row) -> tuple[Any, ...]:
    """Return the primary key of a row."""
    return tuple(row[column.name] for column in table.primary_key)


def merged(table: Table, one: Row, other: Row) -> dict[str, Any]:
    """Return the merge of two rows with the same key. A column without a value is None."""
    late = other if _version(other) > _version(one) else one
    found: dict[str, Any] = {}
    for column in table.columns:
        name = column.name
        match merge_of(column):
            case _ if column.primary_key:
                found[name] = one[name]
            case Merge.LATEST:
                found[name] = late.get(name)
            case Merge.STATES:
                found[name] = joined(one.get(name), other.get(name))
            case Merge.REMOVED:
                found[name] = _removed(one, other)
            case Merge.RELEASED:
                ends = [each[name] for each in (one, other) if each.get(name) is not None and _has_ended(each)]
                found[name] = min(ends, default=_removed(one, other))
            case how:
                values = [each for each in (one.get(name), other.get(name)) if each is not None]
                found[name] = (min if how is Merge.FIRST else max)(values, default=None)
    return found


def _has_ended(row: Row) -> bool:
    """Whether a pod reported its end itself. Rows of the schema before `gone` do not tell, and count as that."""
    return row.get("gone") is None or row.get("phase") in ENDED


def _removed(one: Row, other: Row) -> int | None:
    """Return the time since which the object of two rows is gone; None while it is there."""
    gone = max((row["gone"] for row in (one, other) if row.get("gone") is not None), default=None)
    if gone is not None and gone < max(_version(one), _version(other)):
        return None
    claims = [row["removed"] for row in (one, other) if row.get("gone") == gone and row.get("removed") is not None]
    return min(claims, default=None)


def upsert(table: Table, dialect: str) -> Insert:
    """Return the statement that inserts a row or merges it into the existing row. The SQL is the same for each database.

    The statement replaces past states: read the existing row and join them before. `table`: a table with the column `version`.
    `dialect`: `postgresql` or `sqlite`.
    """
    insert = insert_into(table, dialect)
    new = insert.excluded
    is_later = new.version > table.c.version
    changes = {column.name: _joined(column, new, is_later) for column in table.columns if not column.primary_key}
    return insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=changes)


def replace(table: Table, dialect: str) -> Insert:
    """Return the statement that inserts a row or replaces the existing row. `dialect`: `postgresql` or `sqlite`."""
    insert = insert_into(table, dialect)
    changes = {column.name: insert.excluded[column.name] for column in table.columns if not column.primary_key}
    keys = list(table.primary_key)
    if not changes:
        return insert.on_conflict_do_nothing(index_elements=keys)
    return insert.on_conflict_do_update(index_elements=keys, set_=changes)


def addition(table: Table, dialect: str, sums: Iterable[str]) -> Insert:
    """Return the statement that inserts a row, or adds its columns `sums` to the existing row."""
    insert = insert_into(table, dialect)
    changes = {name: table.c[name] + insert.excluded[name] for name in sums}
    return insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=changes)


def insert_into(table: Table, dialect: str) -> Insert:
    """Return the statement that inserts rows. `dialect`: `postgresql` or `sqlite`."""
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)


def _joined(old: Column[Any], excluded: Columns, is_later: ColumnElement[bool]) -> ColumnElement[Any]:
    """Return the merge of a column as SQL; see `merged`. `excluded`: the columns of the new row."""
    new = excluded[old.name]
    match merge_of(old):
        case Merge.LATEST:
            return case((is_later, new), else_=old)
        case Merge.STATES:
            return case((new.is_(None), old), else_=new)
        case Merge.FIRST:
            return _first(old, new)
        case Merge.REMOVED:
            return _removed_as_sql(old.table, excluded, is_later)
        case Merge.RELEASED:
            ends = (
                case((or_(row["gone"].is_(None), *(row["phase"] == each for each in sorted(ENDED))), row[old.name]), else_=null())
                for row in (old.table.c, excluded)
            )
            return func.coalesce(_first(*ends), _removed_as_sql(old.table, excluded, is_later))
    return case((old.is_(None), new), (new > old, new), else_=old)


def _first(old: ColumnElement[Any], new: ColumnElement[Any]) -> ColumnElement[Any]:
    return case((old.is_(None), new), (new < old, new), else_=old)


def _removed_as_sql(table: FromClause, new: Columns, is_later: ColumnElement[bool]) -> ColumnElement[Any]:
    one, other = (func.coalesce(row["gone"], -1) for row in (table.c, new))
    version = case((is_later, new["version"]), else_=table.c.version)
    return case(
        (and_(or_(table.c.gone.is_not(None), new["gone"].is_not(None)), one < version, other < version), null()),
        (other > one, new["removed"]),
        (one > other, table.c.removed),
        else_=_first(table.c.removed, new["removed"]),
    )


def _version(row: Row) -> int:
    return int(row["version"])


class Cursor(NamedTuple):
    """The position in the history of the API server up to which the objects of a kind have rows.

    Attributes:
        kind: the plural and the group of the kind.
        resource_version: the resourceVersion of the last event; empty when the list must be read again.
        at: the time of the last event, in seconds by the clock of the API server.
        epoch: the number of times that the history went back, as after a restore of the API server.
    """

    kind: str
    resource_version: str
    at: int
    epoch: int


class Batch:
    """The rows of one transaction, by table and key, and the cursors, by kind."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.rows: dict[Table, dict[tuple[Any, ...], dict[str, Any]]] = {}
        self.cursors: dict[str, Cursor] = {}

    def __len__(self) -> int:
        return sum(map(len, self.rows.values())) + len(self.cursors)

    def add(self, table: Table, version: int, row: Row) -> None:
        """Add a row, merged with an earlier row of the same key. `version`: the version of the object when it was read.

        The value `seen` of a row, which is no column, is the time at which the object was seen.
        """
        whole = {**dict.fromkeys(table.columns.keys()), **row, "cluster": self.cluster, "version": version}
        seen = whole.pop("seen", None)
        if whole.get("removed") is not None and whole["gone"] is None and version:
            whole["gone"] = version
        if table in OF_STATE and whole["states"] is None:
            whole["states"] = seen_state(table, version, seen, whole)
        rows = self.rows.setdefault(table, {})
        key = key_of(table, whole)
        rows[key] = merged(table, rows[key], whole) if key in rows else whole

    def move(self, cursor: Cursor) -> None:
        """Set the cursor of a kind: the rows so far include all events up to `cursor`."""
        self.cursors[cursor.kind] = cursor

    def parts(self) -> Iterator[Batch]:
        """Yield a batch for each row, and at last a batch with the cursors."""
        for table, rows in self.rows.items():
            for key, row in rows.items():
                part = Batch(self.cluster)
                part.rows[table] = {key: row}
                yield part
        last = Batch(self.cluster)
        last.cursors = self.cursors
        yield last

    def described(self) -> list[str]:
        """Return the table and the key of each row, for the log."""
        return [f"{table.name} {'/'.join(map(str, key[1:]))}" for table, rows in self.rows.items() for key in rows]

    def cursor_rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table `cursors`."""
        return [{"cluster": self.cluster, **cursor._asdict()} for cursor in self.cursors.values()]

    def take_up(self, other: Batch) -> None:
        """Add the rows and the cursors of a later batch."""
        for table, rows in other.rows.items():
            for row in rows.values():
                self.add(table, row["version"], row)
        self.cursors |= other.cursors

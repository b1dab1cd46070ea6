"""The merge of rows with the same key, as a pure function and as the equivalent SQL statement."""

from __future__ import annotations

from typing import Any, TypeAlias

from sqlalchemy import Column, ColumnElement, Table, case
from sqlalchemy.dialects import postgresql, sqlite

from pyroclast_recorder.database.tables import Merge, Row, merge_of

Insert: TypeAlias = postgresql.Insert | sqlite.Insert


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
            case how:
                values = [each for each in (one.get(name), other.get(name)) if each is not None]
                found[name] = (min if how is Merge.FIRST else max)(values, default=None)
    return found


def upsert(table: Table, dialect: str) -> Insert:
    """Return the statement that inserts a row or merges it into the existing row. The SQL is the same for each database.

    Args:
        table: a table with the column `version`.
        dialect: `postgresql` or `sqlite`.
    """
    insert = _insert(table, dialect)
    new = insert.excluded
    is_later = new.version > table.c.version
    changes = {column.name: _joined(column, new[column.name], is_later) for column in table.columns if not column.primary_key}
    return insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=changes)


def replace(table: Table, dialect: str) -> Insert:
    """Return the statement that inserts a row or replaces the existing row.

    Args:
        table: any table.
        dialect: `postgresql` or `sqlite`.
    """
    insert = _insert(table, dialect)
    changes = {column.name: insert.excluded[column.name] for column in table.columns if not column.primary_key}
    keys = list(table.primary_key)
    if not changes:
        return insert.on_conflict_do_nothing(index_elements=keys)
    return insert.on_conflict_do_update(index_elements=keys, set_=changes)


def _insert(table: Table, dialect: str) -> Insert:
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)


def _joined(old: Column[Any], new: ColumnElement[Any], is_later: ColumnElement[bool]) -> ColumnElement[Any]:
    match merge_of(old):
        case Merge.LATEST:
            return case((is_later, new), else_=old)
        case Merge.FIRST:
            return case((old.is_(None), new), (new < old, new), else_=old)
    return case((old.is_(None), new), (new > old, new), else_=old)


def _version(row: Row) -> int:
    return int(row["version"])

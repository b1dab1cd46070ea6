"""The past states of a pod or a Job: what it asked for and to whom that is charged, by the time at which this was seen. Pure.

A state is kept as it was seen, with the version of the object, and is never changed. So the intervals between states do not
depend on the order in which events arrive, nor on their repetition. The first state is valid from the beginning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import Table

from pyroclast_recorder.database.tables import Row, jobs, pods

OF_STATE: Final[Mapping[Table, tuple[str, ...]]] = {
    pods: ("requests", "queue"),
    jobs: ("queue", "submitted_by", "owner_kind", "owner_name"),
}
"""The columns of a state in each table with past states."""

KEPT: Final = 16
MOST: Final = 64
"""The number of states of an object above which equal neighbours are joined, and the most states that are kept.

Up to `KEPT` states are exact in any order of arrival. Above it, they are exact in the order of the watch. An object with more
than `MOST` different states keeps the first half and the last half of this number.
"""


class _Seen(NamedTuple):
    """A state, the version of the object, and the time at which it was seen; None before the time is known."""

    version: int
    at: int | None
    values: tuple[Any, ...]


class State(NamedTuple):
    """The values of the columns `OF_STATE` from the time `since` until the next state."""

    since: int
    values: tuple[Any, ...]


def seen_state(table: Table, version: int, at: int | None, row: Row) -> str | None:
    """Return the column `states` of a row that was read from its object; None for other rows. `at`: None when not known."""
    if table not in OF_STATE or row.get("namespace") is None or row.get("kind") is not None:
        return None
    return _written([_Seen(version, at, _values(table, row))])


def joined(one: str | None, other: str | None) -> str | None:
    """Return the states of two rows of one object. A version has one state, since the first time at which it was seen."""
    if one is None or other is None or one == other:
        return other if one is None else one
    found: dict[int, _Seen] = {}
    for each in sorted((*_read(one), *_read(other)), key=lambda seen: (seen.version, seen.at is None, seen.at)):
        found.setdefault(each.version, each)
    return _written(_reduced(list(found.values())))


def continued(table: Table, row: Row, before: Row | None, now: int) -> str | None:
    """Return the states of a row joined with those of the stored row `before`. States without a time were seen at `now`.

    A row from before this column was there has one state, which is valid from the beginning.
    """
    if row["states"] is None:
        return None if before is None else before["states"]
    dated = _written([each if each.at is not None else each._replace(at=now) for each in _read(row["states"])])
    if before is None:
        return dated
    return joined(dated, before["states"] or seen_state(table, before["version"], 0, before))


def states_of(table: Table, row: Row) -> tuple[State, ...]:
    """Return the states of an object, the first since 0. The times do not decrease, also when a clock went back."""
    text = row.get("states")
    return (State(0, _values(table, row)),) if text is None else _timeline(text)


@lru_cache(4096)
def _timeline(text: str) -> tuple[State, ...]:
    found: list[State] = []
    for each in _read(text):
        if not found:
            found.append(State(0, each.values))
        elif each.values != found[-1].values:
            found.append(State(max(found[-1].since, each.at or 0), each.values))
    return tuple(found)


def _values(table: Table, row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in OF_STATE[table])


def _reduced(seen: Sequence[_Seen]) -> list[_Seen]:
    """Return the first and the last state of each run of equal states if there are many, and the most that are kept."""
    if len(seen) <= KEPT:
        return list(seen)
    values = [each.values for each in seen]
    edges = [
        each for at, each in enumerate(seen) if not 0 < at < len(seen) - 1 or not values[at - 1] == values[at] == values[at + 1]
    ]
    return edges if len(edges) <= MOST else [*edges[: MOST // 2], *edges[-MOST // 2 :]]


def _written(seen: Sequence[_Seen]) -> str:
    """Return states as JSON, in which a state with the values of the one before has no values."""
    parts: list[list[Any]] = []
    before: tuple[Any, ...] | None = None
    for each in seen:
        parts.append([each.version, each.at, *(() if each.values == before else each.values)])
        before = each.values
    return orjson.dumps(parts).decode()


def _read(text: str) -> list[_Seen]:
    found: list[_Seen] = []
    for version, at, *values in orjson.loads(text):
        found.append(_Seen(version, at, tuple(values) if values else found[-1].values))
    return found

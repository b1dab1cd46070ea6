"""Pods on nodes by namespace and by the labels that selectors name: where such pods are, without looking at all others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import compress
from operator import is_not
from typing import Any, Final

from pyroclast_scheduler.model.tasks import TaskFacts

__all__ = ["LabelIndex", "Residents", "RowIndex", "changed_rows", "named_values"]

Residents = Sequence[Sequence[TaskFacts]]
"""The pods on each node. Where they change there is another sequence."""

_MOST_KEYS: Final = 64  # labels that are indexed; those asked for longest ago go first


def named_values(selector: Mapping[str, Any] | None) -> list[tuple[str, frozenset[str]]]:
    """Labels with the values of which a pod must have one to match `selector`."""
    known = selector or {}
    found = [(key, frozenset({value})) for key, value in (known.get("matchLabels") or {}).items()]
    expressions = (each for each in known.get("matchExpressions") or () if each.get("operator") == "In")
    return found + [(each.get("key", ""), frozenset(each.get("values") or ())) for each in expressions]


def changed_rows(seen: Residents, residents: Residents) -> list[int]:
    """The rows whose residents are others than before."""
    if seen is residents:
        return []
    changed = compress(range(len(residents)), map(is_not, seen, residents))
    return [*changed, *range(len(seen), len(residents))]


class RowIndex:
    """By namespace and `key` of pods, how many such pods each node has that has any. Pods whose key is None are left out.

    Goes from session to session: only nodes whose pods changed are read again.
    """

    def __init__(self, key: Callable[[TaskFacts], str | None]) -> None:
        self._key = key
        self._seen: Residents = ()
        self._rows: dict[str, dict[str, dict[int, int]]] = {}

    def of(self, residents: Residents) -> Mapping[str, Mapping[str, Mapping[int, int]]]:
        """The index when nodes have these residents. Not to be changed."""
        for row in changed_rows(self._seen, residents):
            for tasks, sign in ((self._seen[row] if row < len(self._seen) else (), -1), (residents[row], 1)):
                for task in tasks:
                    key = self._key(task)
                    if key is not None:
                        self._count(task.namespace, key, row, sign)
        self._seen = residents
        return self._rows

    def _count(self, namespace: str, key: str, row: int, sign: int) -> None:
        keys = self._rows.setdefault(namespace, {})
        rows = keys.setdefault(key, {})
        count = rows.get(row, 0) + sign
        if count:
            rows[row] = count
            return
        del rows[row]
        if not rows:
            del keys[key]
        if not keys:
            del self._rows[namespace]


class LabelIndex:
    """Indexes by the values of the labels that were asked for last."""

    def __init__(self) -> None:
        self._keys: dict[str, RowIndex] = {}

    def rows(
        self, selector: Mapping[str, Any] | None, namespaces: frozenset[str] | None, residents: Residents
    ) -> Collection[int] | None:
        """Nodes outside of which no pod of `namespaces` (None: all) matches `selector`; None where it names no values."""
        found: Collection[int] | None = None
        for key, values in named_values(selector):
            index = self._of(key, residents)
            by_value = (index.get(namespace, {}) for namespace in (index if namespaces is None else namespaces))
            rows: Collection[int] = set().union(*(each.get(value, ()) for each in by_value for value in values))
            if found is None or len(rows) < len(found):
                found = rows
        return found

    def _of(self, key: str, residents: Residents) -> Mapping[str, Mapping[str, Mapping[int, int]]]:
        known = self._keys.pop(key, None) or RowIndex(lambda task: task.pod.metadata.labels.get(key))
        self._keys[key] = known
        if len(self._keys) > _MOST_KEYS:
            del self._keys[next(iter(self._keys))]
        return known.of(residents)

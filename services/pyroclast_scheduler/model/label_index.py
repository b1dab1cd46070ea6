"""An index of the pods on nodes by namespace and label value, so that a selector finds its nodes without reading all pods."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import compress
from operator import is_not
from typing import Any, Final

from pyroclast_scheduler.model.tasks import TaskFacts

Residents = Sequence[Sequence[TaskFacts]]
"""The pods on each node. When the pods of a node change, the node gets a new sequence object."""

_MOST_KEYS: Final = 64  # labels that are indexed; the least recently used ones are dropped first


def named_values(selector: Mapping[str, Any] | None) -> list[tuple[str, frozenset[str]]]:
    """Return for each label that `selector` names with values: the values of which a matching pod must have one."""
    known = selector or {}
    found = [(key, frozenset({value})) for key, value in (known.get("matchLabels") or {}).items()]
    expressions = (each for each in known.get("matchExpressions") or () if each.get("operator") == "In")
    return found + [(each.get("key", ""), frozenset(each.get("values") or ())) for each in expressions]


def changed_rows(seen: Residents, residents: Residents) -> list[int]:
    """Return the rows whose pods differ between `seen` and `residents`."""
    if seen is residents:
        return []
    changed = compress(range(len(residents)), map(is_not, seen, residents))
    return [*changed, *range(len(seen), len(residents))]


class RowIndex:
    """For each namespace and `key` of a pod, the number of such pods per node. Pods whose key is None are left out.

    The index is kept from session to session, and only nodes whose pods changed are read again.
    """

    def __init__(self, key: Callable[[TaskFacts], str | None]) -> None:
        self._key = key
        self._seen: Residents = ()
        self._rows: dict[str, dict[str, dict[int, int]]] = {}

    def of(self, residents: Residents) -> Mapping[str, Mapping[str, Mapping[int, int]]]:
        """Return the index for `residents`, by namespace, key and row. The caller must not change the index."""
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
    """Indexes of pods by label value, for the most recently used labels."""

    def __init__(self) -> None:
        self._keys: dict[str, RowIndex] = {}

    def rows(
        self, selector: Mapping[str, Any] | None, namespaces: frozenset[str] | None, residents: Residents
    ) -> Collection[int] | None:
        """Return rows that include every node with a pod of `namespaces` (None: all) that matches `selector`.

        Return None if the selector names no label values.
        """
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

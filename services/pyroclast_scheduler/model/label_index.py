"""Pods on nodes by the values of labels that selectors name: where pods of one value are, without looking at all others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyroclast_scheduler.model.tasks import TaskFacts

__all__ = ["LabelIndex", "Residents", "changed_rows", "named_values"]

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
    known = len(seen)
    return [row for row, tasks in enumerate(residents) if row >= known or tasks is not seen[row]]


@dataclass(slots=True)
class _Values:
    """By value of one label, how many pods with it each node has that has any, as the nodes had these residents."""

    seen: Residents = ()
    rows: dict[str, dict[int, int]] = field(default_factory=dict)

    def refresh(self, key: str, residents: Residents) -> None:
        for row in changed_rows(self.seen, residents):
            for tasks, sign in ((self.seen[row] if row < len(self.seen) else (), -1), (residents[row], 1)):
                for task in tasks:
                    value = task.pod.metadata.labels.get(key)
                    if value is not None:
                        self._count(value, row, sign)
        self.seen = residents

    def _count(self, value: str, row: int, sign: int) -> None:
        rows = self.rows.setdefault(value, {})
        count = rows.get(row, 0) + sign
        if count:
            rows[row] = count
            return
        del rows[row]
        if not rows:
            del self.rows[value]


class LabelIndex:
    """Goes from session to session: only nodes whose pods changed are read again."""

    def __init__(self) -> None:
        self._keys: dict[str, _Values] = {}

    def rows(self, selector: Mapping[str, Any] | None, residents: Residents) -> Collection[int] | None:
        """Nodes outside of which no pod matches `selector`; None where it names no values."""
        found: Collection[int] | None = None
        for key, values in named_values(selector):
            index = self._of(key, residents)
            rows: Collection[int] = set().union(*(index.get(value, ()) for value in values))
            if found is None or len(rows) < len(found):
                found = rows
        return found

    def _of(self, key: str, residents: Residents) -> Mapping[str, Mapping[int, int]]:
        known = self._keys.pop(key, None) or _Values()
        known.refresh(key, residents)
        self._keys[key] = known
        if len(self._keys) > _MOST_KEYS:
            del self._keys[next(iter(self._keys))]
        return known.rows

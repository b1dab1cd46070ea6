"""Pods on nodes as columns and as an index by label, so that sums and selectors take no loop over all pods in Python."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from operator import is_not
from typing import Any, Final

import numpy as np

from pyroclast_scheduler.model.dimensions import Dimensions, Ints
from pyroclast_scheduler.model.node_columns import Bools, Rows
from pyroclast_scheduler.model.tasks import EVICTABLE, TaskFacts

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


class PodColumns:
    """The nodes, jobs and requests of the pods of jobs that are bound or running, kept from session to session.

    Only nodes whose pods changed are read again. Entries of pods and numbers of jobs that have gone are used again.
    """

    def __init__(self) -> None:
        self._clear(())

    def _clear(self, names: Sequence[str]) -> None:
        self._names = names  # of the dimensions
        self._seen: Residents = ()
        self._entries: list[list[int]] = []  # by row
        self._free: list[int] = []
        self._rows: Rows = np.zeros(0, dtype=np.intp)
        self._jobs: Ints = np.zeros(0, dtype=np.int64)  # the number of the job, 0 for an entry without a pod
        self._amounts: Ints = np.zeros((len(names), 0), dtype=np.int64)
        self._numbers: dict[str, int] = {}  # by key of the job
        self._counts = [0]  # pods by number of the job
        self._keys = [""]
        self._free_numbers: list[int] = []

    def update(self, residents: Residents, dimensions: Dimensions) -> None:
        """Read the pods of the nodes that changed since the last update."""
        if self._names != dimensions.names:
            self._clear(dimensions.names)
        changed = changed_rows(self._seen, residents)
        self._entries += ([] for _ in range(len(residents) - len(self._entries)))
        self._remove([entry for row in changed for entry in self._entries[row]])
        pods = {row: [task for task in residents[row] if task.job and task.status in EVICTABLE] for row in changed}
        entries = self._added([(row, task) for row, tasks in pods.items() for task in tasks], dimensions)
        for row, tasks in pods.items():
            self._entries[row] = [next(entries) for _ in tasks]
        self._seen = residents

    @property
    def jobs(self) -> Collection[str]:
        """The keys of the jobs with such pods."""
        return self._numbers.keys()

    def requests(self, jobs: Iterable[str]) -> Ints:
        """Return the sum of the requests of the pods of `jobs` on each node, (dimensions, nodes)."""
        chosen: Bools = np.zeros(len(self._counts), dtype=np.bool_)
        chosen[[self._numbers[key] for key in jobs]] = True
        entries = np.flatnonzero(chosen[self._jobs])
        rows, found = self._rows[entries], np.zeros((len(self._names), len(self._seen)), dtype=np.int64)
        for total, amounts in zip(found, self._amounts, strict=True):
            np.add.at(total, rows, amounts[entries])  # eight times as fast as one call for all dimensions
        return found

    def _remove(self, entries: list[int]) -> None:
        for number in self._jobs[entries].tolist():
            self._counts[number] -= 1
            if not self._counts[number]:
                del self._numbers[self._keys[number]]
                self._free_numbers.append(number)
        self._jobs[entries] = 0
        self._free += entries

    def _added(self, pods: Sequence[tuple[int, TaskFacts]], dimensions: Dimensions) -> Iterator[int]:
        """Write an entry for each of `pods`, given with its row. Return the entries."""
        missing = len(pods) - len(self._free)
        if missing > 0:
            size, more = len(self._rows), max(missing, len(self._rows) // 2)
            self._rows, self._jobs = np.pad(self._rows, (0, more)), np.pad(self._jobs, (0, more))
            self._amounts = np.pad(self._amounts, ((0, 0), (0, more)))
            self._free += range(size, size + more)
        entries = [self._free.pop() for _ in pods]
        if pods:
            shapes = {id(task.shape): task.shape for _, task in pods}
            vectors = np.stack([dimensions.vector(shape.request) for shape in shapes.values()], axis=1)
            position = {key: i for i, key in enumerate(shapes)}
            self._rows[entries] = [row for row, _ in pods]
            self._jobs[entries] = [self._number(task.job) for _, task in pods]
            self._amounts[:, entries] = vectors[:, [position[id(task.shape)] for _, task in pods]]
        return iter(entries)

    def _number(self, job: str) -> int:
        """Return the number of a job that gets a pod."""
        number = self._numbers.get(job)
        if number is None:
            if self._free_numbers:
                number = self._free_numbers.pop()
                self._keys[number] = job
            else:
                number = len(self._keys)
                self._keys.append(job)
                self._counts.append(0)
            self._numbers[job] = number
        self._counts[number] += 1
        return number

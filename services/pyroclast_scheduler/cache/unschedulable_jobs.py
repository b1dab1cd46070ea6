"""Jobs that no session could place, and an index from each trigger to the jobs that it may help: they cost nothing until then."""

from __future__ import annotations

from collections.abc import Collection, ItemsView, KeysView, Sequence
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from pyroclast_scheduler.cache.wait_queue import Line
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.retry_conditions import Pause, Rest, Trigger

__all__ = ["JobOrClass", "UnschedulableJobs"]

JobOrClass: TypeAlias = "str | bytes"
"""A job by its key, or all unschedulable jobs of one equivalence class by its digest."""

T = TypeVar("T")


class UnschedulableJobs:
    """Unschedulable jobs by key. Those that are found stay until they are discarded, also while others are looked for.

    What was last found out of one holds for all of its kind.
    """

    def __init__(self) -> None:
        self._rests: dict[str, Rest] = {}
        self._lines: dict[bytes, Line] = {}
        self._said: dict[JobOrClass, Rest] = {}
        self._index: dict[type[Any], dict[Any, dict[JobOrClass, None]]] = {}
        self._period = 0

    def __len__(self) -> int:
        return len(self._rests)

    def add(self, rest: Rest) -> Collection[str]:
        """Remember a job that waits for something. The others of its kind, if they say something else."""
        key, who = rest.facts.key, rest.facts.key if rest.kind is None else rest.kind
        self.discard(key)
        self._rests[key] = rest
        said = self._said.get(who)
        if said is not None:
            self._forget(who, said)
        self._keep(who, rest)
        if rest.kind is None:
            return ()
        line = self._lines.setdefault(rest.kind, Line())
        others = () if said is None or said.reason == rest.reason else line.members
        line.add(rest.facts)
        return others

    def discard(self, key: str) -> None:
        """The job is no longer at rest."""
        rest = self._rests.pop(key, None)
        if rest is None:
            return
        if rest.kind is None:
            self._forget(key, rest)
            return
        line = self._lines[rest.kind]
        line.discard(key)
        if not len(line):
            del self._lines[rest.kind]
            self._forget(rest.kind, self._said[rest.kind])

    @property
    def jobs(self) -> Sequence[str]:
        """The keys of all jobs at rest."""
        return list(self._rests)

    @property
    def all(self) -> KeysView[JobOrClass]:
        """All of them."""
        return self._said.keys()

    def of(self, trigger: Trigger) -> Collection[JobOrClass]:
        """Those that wait for it."""
        return self._index.get(type(trigger), {}).get(trigger, ())

    def by(self, sort: type[T]) -> ItemsView[T, Collection[JobOrClass]]:
        """The triggers of one sort with those that wait for each."""
        return self._index.get(sort, {}).items()

    def due(self) -> Sequence[JobOrClass]:
        """A schedule period begins: those of which time alone may have changed what plugins say."""
        self._period += 1
        return [who for pause, whose in self.by(Pause) if self._period % pause.periods == 0 for who in whose]

    def line(self, kind: bytes) -> Sequence[JobFacts]:
        """Those of one kind, oldest first, among jobs that rested once."""
        line = self._lines.get(kind)
        return () if line is None else line.order

    def oldest(self, parts: int) -> list[str]:
        """Those that have waited longest, one of so many, at least one where there are any."""
        return list(islice(self._rests, -(-len(self._rests) // parts)))

    def _keep(self, who: JobOrClass, rest: Rest) -> None:
        self._said[who] = rest
        for trigger in rest.triggers:
            self._index.setdefault(type(trigger), {}).setdefault(trigger, {})[who] = None

    def _forget(self, who: JobOrClass, rest: Rest) -> None:
        del self._said[who]
        for trigger in rest.triggers:
            triggers = self._index[type(trigger)]
            del triggers[trigger][who]
            if not triggers[trigger]:
                del triggers[trigger]

"""Kubernetes' own PodGroups in the cache: as sources of groups, with the Jobs and Namespaces that name queues for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Protocol

import msgspec

from pyroclast.api import records
from pyroclast.api.types import JOBS, NATIVE_POD_GROUPS, ResourceType
from pyroclast_scheduler.cache.changes import same_but_version
from pyroclast_scheduler.cache.group_readers import native
from pyroclast_scheduler.cache.group_readers.queue_sources import QueueSources, job_of
from pyroclast_scheduler.cache.jobs import Entry, JobTable
from pyroclast_scheduler.cache.objects import is_older
from pyroclast_scheduler.model.groups import Group
from pyroclast_scheduler.model.tasks import native_key

__all__ = ["NativeGroups"]


class Described(Protocol):
    """Told that what describes a group is another object, or says something else."""

    def __call__(self, key: str, *, has_gone: bool) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """One PodGroup, see `Source`."""

    record: records.NativePodGroup
    kind: ResourceType
    groups: NativeGroups

    @property
    def uid(self) -> str:
        return self.record.metadata.uid

    def read(self, entry: Entry) -> tuple[Group | None, bool]:
        members = native.Members(
            tuple(entry.tasks.values()), sorted(set(entry.strangers.values())), self.groups.now() - entry.joined
        )
        found = native.read(
            self.record,
            members,
            kind=self.kind,
            names=self.groups.names,
            queues=self.groups.queues,
            fixed_queue="" if entry.group is None else entry.group.spec.queue,
        )
        return (None, False) if found is None else found


class NativeGroups:
    """Feeds them to the table of jobs, and says through `described` that a session should look at them.

    `names`: those of our scheduler; `now`: seconds of a clock that never goes back.
    """

    def __init__(self, jobs: JobTable, names: Collection[str], now: Callable[[], float], described: Described) -> None:
        self.queues = QueueSources()
        self.names = names
        self.now = now
        self._jobs = jobs
        self._described = described
        self._sources: dict[str, _Source] = {}
        self._of_job: dict[str, set[str]] = {}
        self._of_namespace: dict[str, set[str]] = {}
        self._of_gang: dict[str, _Source] = {}

    def group_changed(
        self, old: records.NativePodGroup | None, new: records.NativePodGroup | None, kind: ResourceType = NATIVE_POD_GROUPS
    ) -> None:
        """A PodGroup, served as `kind`, came, changed, or went."""
        record = new or old
        if record is None:
            return
        key = native_key(record.metadata.namespace, record.metadata.name)
        before = self._sources.get(key)
        if new is not None and before is not None and is_older(new, before.record):
            return
        if before is not None:
            self._index(key, before, is_there=False)
        self._mirror(before, new, kind)
        if new is None:
            if before is not None:
                self._jobs.describe(key, None)
                self._described(key, has_gone=True)
            return
        source = self._sources[key] = _Source(new, kind, self)
        self._index(key, source, is_there=True)
        if before is not None and _reads_alike(before.record, new):
            self._jobs.rewrite(key, source, new.metadata, new.status.conditions)
            return
        self._jobs.describe(key, source)
        self._described(key, has_gone=before is not None and before.uid != source.uid)

    def job_changed(self, old: records.ObjectRecord | None, new: records.ObjectRecord | None) -> None:
        """A batch/v1 Job, which may name the queue of a group, came, changed, or went."""
        uid = self.queues.job_changed(*(None if each is None else each.metadata for each in (old, new)))
        if uid:
            self._reread(self._of_job.get(uid, set()) | self._of_job.get("", set()))

    def namespace_changed(self, old: records.Namespace | None, new: records.Namespace | None) -> None:
        """A Namespace, which may name the queue of its groups, came, changed, or went."""
        name = self.queues.namespace_changed(*(None if each is None else each.metadata for each in (old, new)))
        self._reread(self._of_namespace.get(name, set()))

    def mirrors(self, key: str) -> bool:
        """Whether there is one that a Job made to show the gang of our PodGroup `key`."""
        return key in self._of_gang

    def mirror(self, key: str, group: Group) -> Group | None:
        """`group`, which our PodGroup `key` describes, as the object that shows it to others; None if there is none.

        Its conditions are all that is written there; its pods belong to our PodGroup.
        """
        source, owner = self._of_gang.get(key), group.metadata.controller
        shown = None if source is None else source.record.metadata.controller
        if source is None or shown is None or owner is None or owner.uid != shown.uid:
            return None
        record = source.record
        return msgspec.structs.replace(
            group, kind=source.kind, metadata=record.metadata, said=record.status.conditions, keeps_phase=False
        )

    def _mirror(self, before: _Source | None, new: records.NativePodGroup | None, kind: ResourceType) -> None:
        """Note that a Job shows its gang so, or no longer; it is said there what becomes of it."""
        record = new or (None if before is None else before.record)
        owner = None if record is None else record.metadata.controller
        if record is None or owner is None or (owner.kind, owner.api_version) != (JOBS.kind, JOBS.api_version):
            return
        key = str(record.metadata.key)
        if new is None:
            self._of_gang.pop(key, None)
            return
        self._of_gang[key] = _Source(new, kind, self)
        if (before is None or before.uid != new.metadata.uid) and key in self._jobs.entries:
            self._jobs.wake([key])
            self._described(key, has_gone=False)

    def _reread(self, keys: Collection[str]) -> None:
        for key in keys:
            self._jobs.entry(key)
            self._described(key, has_gone=False)

    def _index(self, key: str, source: _Source, *, is_there: bool) -> None:
        meta = source.record.metadata
        for index, value in ((self._of_job, job_of(meta)), (self._of_namespace, meta.namespace)):
            if is_there:
                index.setdefault(value, set()).add(key)
            else:
                index[value].discard(key)
                if not index[value]:
                    del index[value]
        if not is_there:
            del self._sources[key]

    def records(self) -> Iterator[records.NativePodGroup]:
        """All that there are."""
        return (source.record for source in self._sources.values())


def _reads_alike(old: records.NativePodGroup, new: records.NativePodGroup) -> bool:
    """Whether a session sees the same in both: all but what schedulers write, and the version."""
    if old.spec != new.spec or native.has_started(old) != native.has_started(new):
        return False
    return same_but_version(old, records.NativePodGroup(metadata=new.metadata, spec=new.spec, status=old.status))

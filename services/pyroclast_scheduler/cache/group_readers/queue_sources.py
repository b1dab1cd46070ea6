"""Finds the queue of a group whose API has no queues: the first one named by the PodGroup, a pod, the Job or the Namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyroclast.api import keys, records
from pyroclast.api.types import BATCH_JOBS
from pyroclast.lifecycle.gang.groups import named


class QueueSources:
    """Finds the queue of a group. Only the thread of the cache may use it.

    Of Jobs and Namespaces, only those that name a queue are stored.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, str] = {}
        self._namespaces: dict[str, str] = {}

    def queue_of(self, groups: Sequence[records.Meta], oldest: records.Meta) -> str:
        """Return the queue of a group whose oldest member is `oldest`; empty for the default queue.

        `groups`: the metadata of the object that describes the group, and of the objects of its parts.
        """
        metas = (*groups, oldest)
        found = next(filter(None, map(named, metas)), "")
        if found:
            return found
        job = next(filter(None, map(job_of, metas)), "")
        return self._jobs.get(job, "") or self._namespaces.get(oldest.namespace, "")

    def job_changed(self, old: records.Meta | None, new: records.Meta | None) -> str:
        """Handle that a Job was created, changed or deleted.

        Return its UID if the queue of groups may change, else an empty text.
        """
        meta = new or old
        if meta is None:
            return ""
        queue = "" if new is None else named(new)
        return meta.uid if _set(self._jobs, meta.uid, queue) else ""

    def namespace_changed(self, old: records.Meta | None, new: records.Meta | None) -> str:
        """Handle that a Namespace was created, changed or deleted.

        Return its name if the queue of groups may change, else an empty text.
        """
        meta = new or old
        if meta is None:
            return ""
        queue = "" if new is None else new.annotations.get(keys.SCHEDULING_QUEUE_NAME, "")
        return meta.name if _set(self._namespaces, meta.name, queue) else ""

    @property
    def known(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """The queues by UID of Jobs, and by name of Namespaces, for a capture. Callers must not change the mappings."""
        return self._jobs, self._namespaces

    def restore(self, jobs: Mapping[str, str], namespaces: Mapping[str, str]) -> None:
        """Restore the queue names that `known` returned: by Job, and by namespace."""
        self._jobs, self._namespaces = dict(jobs), dict(namespaces)


def job_of(meta: records.Meta) -> str:
    """Return the UID of the batch/v1 Job that controls an object; empty if none does."""
    owner = meta.controller
    is_job = owner is not None and (owner.api_version, owner.kind) == (BATCH_JOBS.api_version, BATCH_JOBS.kind)
    return owner.uid if owner is not None and is_job else ""


def _set(known: dict[str, str], key: str, queue: str) -> bool:
    """Store the queue of `key`. Return whether it differs from the previous one."""
    before = known.pop(key, "")
    if queue:
        known[key] = queue
    return before != queue

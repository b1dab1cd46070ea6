"""In which queue a group waits whose own API has no queues: the first that says so of PodGroup, pod, Job and Namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyroclast.api import keys, records
from pyroclast.api.types import BATCH_JOBS

__all__ = ["QueueSources", "job_of", "named"]


class QueueSources:
    """Looks the queue of a group up. Belongs to the cache's thread.

    Keeps of Jobs and Namespaces only those that name a queue.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, str] = {}
        self._namespaces: dict[str, str] = {}

    def queue_of(self, groups: Sequence[records.Meta], oldest: records.Meta) -> str:
        """The queue of a group whose oldest member is `oldest`; empty where nobody names one, which is the default queue.

        `groups`: the object that describes it, and those of its parts.
        """
        metas = (*groups, oldest)
        found = next(filter(None, map(named, metas)), "")
        if found:
            return found
        job = next(filter(None, map(job_of, metas)), "")
        return self._jobs.get(job, "") or self._namespaces.get(oldest.namespace, "")

    def job_changed(self, old: records.Meta | None, new: records.Meta | None) -> str:
        """A Job came, changed, or went: its UID if that may change the queue of groups, else empty."""
        meta = new or old
        if meta is None:
            return ""
        queue = "" if new is None else named(new)
        return meta.uid if _set(self._jobs, meta.uid, queue) else ""

    def namespace_changed(self, old: records.Meta | None, new: records.Meta | None) -> str:
        """A Namespace came, changed, or went: its name if that may change the queue of groups, else empty."""
        meta = new or old
        if meta is None:
            return ""
        queue = "" if new is None else new.annotations.get(keys.SCHEDULING_QUEUE_NAME, "")
        return meta.name if _set(self._namespaces, meta.name, queue) else ""

    @property
    def known(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Queues by UID of Jobs, and by name of Namespaces: for those who write it all down. Not to be changed."""
        return self._jobs, self._namespaces

    def restore(self, jobs: Mapping[str, str], namespaces: Mapping[str, str]) -> None:
        """Be as `known` said."""
        self._jobs, self._namespaces = dict(jobs), dict(namespaces)


def named(meta: records.Meta) -> str:
    """The queue that an object names: by its label, else by its annotation."""
    return meta.labels.get(keys.SCHEDULING_QUEUE_NAME) or meta.annotations.get(keys.SCHEDULING_QUEUE_NAME, "")


def job_of(meta: records.Meta) -> str:
    """The UID of the batch/v1 Job that controls an object; empty if none does."""
    owner = meta.controller
    is_job = owner is not None and (owner.api_version, owner.kind) == (BATCH_JOBS.api_version, BATCH_JOBS.kind)
    return owner.uid if owner is not None and is_job else ""


def _set(known: dict[str, str], key: str, queue: str) -> bool:
    """Note the queue of `key`; whether it is another one than before."""
    before = known.pop(key, "")
    if queue:
        known[key] = queue
    return before != queue

"""Orphaned PodGroups, whose Job was deleted without its pods. Such a PodGroup is deleted when its last pod has ended."""

from __future__ import annotations

import structlog

from pyroclast.api.records import PodGroup
from pyroclast.api.types import POD_GROUPS, Key
from pyroclast.kube.basics.errors import Conflict, NotFound
from pyroclast.lifecycle.gang import orphans
from pyroclast_job_controller.caches import ORPHAN
from pyroclast_job_controller.shared import Shared

log = structlog.get_logger()


class Orphans:
    """Deletes orphaned PodGroups, which have no owner and would keep their queue in state Closing for ever."""

    def __init__(self, shared: Shared) -> None:
        self._client, self._caches = shared.client, shared.caches

    async def clear(self, key: Key) -> None:
        """Delete the PodGroups of earlier Jobs with the name in `key` whose pods have all ended."""
        for group in self._of(key):
            job = self._caches.jobs.get(key)
            if job is not None and orphans.job_uid(group) == job.metadata.uid:
                continue
            members = self._caches.pods.informer.by_index(ORPHAN, str(group.key))
            if group.metadata.is_terminating or orphans.are_alive(members):
                continue
            try:
                await self._client.delete(POD_GROUPS, group.key, uid=group.metadata.uid)
            except (NotFound, Conflict):
                log.debug("podgroup.gone", podgroup=str(group.key))
            else:
                log.info("podgroup.orphan_deleted", podgroup=str(group.key))

    def any_of(self, key: Key) -> bool:
        """Whether an orphaned PodGroup of an earlier Job with the name in `key` exists."""
        return bool(self._of(key))

    def _of(self, key: Key) -> list[PodGroup]:
        return self._caches.groups.informer.by_index(ORPHAN, str(key))

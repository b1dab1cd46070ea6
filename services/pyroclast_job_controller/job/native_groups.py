"""Publishing the gangs of Jobs as PodGroups of Kubernetes itself, so that plain kubectl and other tools see them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec
import structlog

from pyroclast.api import keys
from pyroclast.api.enums import JobEventReason
from pyroclast.api.records import Job, Meta, PodGroup
from pyroclast.api.types import NATIVE_POD_GROUPS, Key, ResourceType
from pyroclast.kube.basics.errors import AlreadyExists, ApiError, KubeError, NotFound, is_terminating_namespace, is_transient
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.http.native_groups import LOOK_SECONDS, kind_served
from pyroclast.lifecycle.gang import native_groups
from pyroclast.lifecycle.gang.ownership import is_ours
from pyroclast.lifecycle.notices import Notice, normal

__all__ = ["NativePublisher"]

log = structlog.get_logger()


class NativePublisher:
    """Makes them before our PodGroups, which bear their names from then on.

    Args:
        client: the API server.
        schedulers: names of our schedulers; Jobs of others are not published, as kube-scheduler would take them for gangs.
        record: records an Event on a Job.
        clock: seconds, never set back.
        is_enabled: whether Jobs are published at all.
    """

    def __init__(
        self,
        client: Client,
        schedulers: Collection[str],
        record: Callable[[Job, Notice], None],
        clock: Callable[[], float],
        *,
        is_enabled: bool,
    ) -> None:
        self._client, self._schedulers, self._record, self._clock = client, schedulers, record, clock
        self._is_enabled = is_enabled
        self._kind: ResourceType | None = None
        self._look_at = clock()
        self._is_absence_told = False

    async def published(self, job: Job, group: dict[str, Any]) -> dict[str, Any]:
        """`group`, our PodGroup to create for `job`, with the name of the one of Kubernetes that was made first, if there is one.

        Raises:
            KubeError: it is not known whether it was made, or it passes by itself that it was not.
        """
        kind = await self._served() if self._is_enabled else None
        if kind is None:
            return group
        problem = native_groups.obstacle(job, self._schedulers)
        if not problem:
            problem = await self._create(job, native_groups.manifest(job, kind), kind)
        if problem:
            message = f"The Job has no PodGroup of {kind.group}: {problem}"
            self._record(job, normal(JobEventReason.POD_GROUP_NOT_PUBLISHED, message))
            return group
        meta = group["metadata"]
        return {**group, "metadata": {**meta, "annotations": {**meta["annotations"], keys.NATIVE_GROUP: meta["name"]}}}

    async def resize(self, group: PodGroup | None, patch: dict[str, Any]) -> None:
        """Have the minimum follow that of our PodGroup, which `patch` is about to change.

        Raises:
            KubeError: it did not work, or nobody knows whether it did.
        """
        name = "" if group is None else group.metadata.annotations.get(keys.NATIVE_GROUP, "")
        minimum = (patch.get("spec") or {}).get("minMember")
        if group is None or not name or not minimum:
            return
        kind = await self._served()
        if kind is not None:
            await self._set_minimum(kind, Key(group.metadata.namespace, name), minimum)

    async def _set_minimum(self, kind: ResourceType, key: Key, minimum: int) -> None:
        body = {"spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}}}
        try:
            await self._client.patch(kind, key, body, PatchKind.MERGE)
        except NotFound:
            log.info("native_group.gone", podgroup=str(key))
        except ApiError as error:
            if is_transient(error):
                raise
            log.warning("native_group.not_resized", podgroup=str(key), error=str(error))

    async def _create(self, job: Job, body: dict[str, Any], kind: ResourceType) -> str:
        """Create it; why it is not there, empty if it is."""
        key = Key(job.metadata.namespace, body["metadata"]["name"])
        try:
            await self._client.create(kind, body)
        except AlreadyExists:
            return await self._take_up(job, body, kind, key)
        except NotFound as error:
            self._kind, self._look_at = None, self._clock() + LOOK_SECONDS  # it was switched off
            return error.message
        except ApiError as error:
            if is_transient(error):
                raise
            return "" if is_terminating_namespace(error) else error.message
        return ""

    async def _take_up(self, job: Job, body: dict[str, Any], kind: ResourceType, key: Key) -> str:
        """Use what is there from before, or from a creation whose answer was lost; why that cannot be, empty if it can."""
        there = await self._client.get(kind, key)
        if not is_ours(job, msgspec.convert(there["metadata"], Meta)):
            return f"PodGroup {key} exists and does not belong to this job"
        wanted = body["spec"]["schedulingPolicy"]["gang"]["minCount"]
        found = ((there["spec"].get("schedulingPolicy") or {}).get("gang") or {}).get("minCount")
        if found != wanted:
            await self._set_minimum(kind, key, wanted)
        return ""

    async def _served(self) -> ResourceType | None:
        """As what the API server serves them; asked for again after a while where it does not."""
        if self._kind is None and self._clock() >= self._look_at:
            self._look_at = self._clock() + LOOK_SECONDS
            try:
                self._kind = await kind_served(self._client)
            except KubeError as error:
                self._look_at = self._clock()
                log.warning("native_groups.not_asked", error=str(error))
                raise
            if self._kind is None and not self._is_absence_told:
                self._is_absence_told = True
                log.info("native_groups.not_served", group=NATIVE_POD_GROUPS.group)
        return self._kind

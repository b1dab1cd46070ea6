"""The patches that the writer sends: first those for which the creation or placement of pods waits.

The placement of a gang without pods is written together with its phase, in one guarded write.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import structlog

from pyroclast.api import keys, records
from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.types import POD_GROUPS, Key, ResourceType
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import KubeError, NotFound, is_transient
from pyroclast.kube.basics.retry import jittered_backoff
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.workqueue.rejections import Refusals
from pyroclast.lifecycle.gang.groups import Group
from pyroclast.lifecycle.seats.contract import SeatsError
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.shell.debounce import Debounce

log = structlog.get_logger()
_SECONDS: Final = 30.0  # for one patch with its retries
_PATIENCE_SECONDS: Final = 5.0  # for which other patches wait behind later ones that let pods start, while all workers are busy


class Placements:
    """Adds placements to the writes of PodGroups, and finds the result of writes without a successful response."""

    def __init__(self, client: Client, cache: Cache) -> None:
        self._client = client
        self._cache = cache
        self._writing: set[str] = set()

    def restart(self) -> None:
        """Drop all earlier decisions, since no write is in progress."""
        self._writing.clear()
        self.sweep(lambda _: False)

    def sweep(self, is_wished: Callable[[str], bool]) -> None:
        """Drop the claims that will not be written. `is_wished`: whether a write of the PodGroup is planned."""
        for key in self._cache.seats.claims():
            if key not in self._writing and not is_wished(key):
                self._cache.seats.unclaim(key)

    def joined(self, group: Group, status: records.PodGroupStatus, patch: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return `patch` of the new `status` with the placement of the group's seats added; None if there is nothing to write."""
        key, meta, seats = str(group.key), group.metadata, self._cache.seats
        if key not in seats or status.phase is PodGroupPhase.PENDING:
            return patch
        try:
            text = seats.placement(key)
        except SeatsError as error:
            log.info("placement.too_long", podgroup=key, reason=str(error))
            self._cache.seats.unclaim(key)
            return patch
        if text:
            self._writing.add(key)
            guard = {"uid": meta.uid, "resourceVersion": meta.resource_version}
            return {**(patch or {}), "metadata": {**guard, "annotations": {keys.PLACEMENT: text}}}
        if patch is not None and seats.is_used_up(key):  # all pods exist: the planned write removes the placement too
            guard = {"uid": meta.uid, "resourceVersion": meta.resource_version}  # a new request for seats may have arrived
            return {**patch, "metadata": {**guard, "annotations": {keys.PLACEMENT: seats.emptied(key)}}}
        return patch

    async def settled(self, key: str, body: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return the PodGroup after a write with response `body`, None if the write failed.

        A conflict may come from the scheduler's own write, if its response was lost and it was sent again.
        """
        if key not in self._writing or body is not None:
            return body
        return await read_group(self._client, key)

    def conclude(self, key: str) -> None:
        """Drop the remaining claims of a PodGroup, after the cache knows the result of the write."""
        if key in self._writing:
            self._writing.discard(key)
            self._cache.seats.unclaim(key)


async def read_group(client: Client, key: str) -> dict[str, Any] | None:
    """Return the PodGroup `key` from the API server; None if it does not exist. Retry while there is no response."""
    namespace, _, name = key.partition("/")
    backoff = jittered_backoff(0.2, 5.0)
    while True:
        try:
            found, _ = await client.list(POD_GROUPS, namespace, field_selector=f"metadata.name={name}")
        except KubeError as error:
            log.debug("podgroup.not_read", podgroup=str(Key(namespace, name)), error=str(error))
            await asyncio.sleep(backoff.next())
        else:
            return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch of `about` for the wish `slot` of `lane`. `is_awaited`: the creation or placement of pods waits for it."""

    kind: ResourceType
    about: Reference
    body: dict[str, Any]
    how: PatchKind
    lane: Debounce[str, Any]
    slot: str
    job: str = ""
    is_status: bool = True
    is_awaited: bool = False


class PatchQueue:
    """The patches to be sent. An object that the API server refused permanently is patched again at growing intervals."""

    def __init__(self, client: Client, recorder: EventRecorder, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._queue: asyncio.PriorityQueue[tuple[float, int, Patch]] = asyncio.PriorityQueue()
        self._numbers = itertools.count()
        self._refusals: Refusals[Reference] = Refusals(recorder, lambda about: about)

    def put(self, patch: Patch) -> None:
        """Add a patch. Its wish counts as being written until `lane.end`."""
        patch.lane.begin(patch.slot)
        due = self._now() + (0.0 if patch.is_awaited else _PATIENCE_SECONDS)
        self._queue.put_nowait((due, next(self._numbers), patch))

    async def get(self) -> Patch:
        """Remove and return the next patch; wait for one if there is none."""
        _, _, patch = await self._queue.get()
        return patch

    async def send(self, patch: Patch) -> dict[str, Any] | None:
        """Send a patch and return the new state of the object; None if the write failed."""
        kind, key, deadline = patch.kind, Key(patch.about.namespace, patch.about.name), Deadline.after(_SECONDS)
        subresource = "status" if patch.is_status and kind is not POD_GROUPS else ""
        try:
            body = await self._client.patch(kind, key, patch.body, patch.how, subresource=subresource, deadline=deadline)
        except NotFound:
            log.debug("object.gone", kind=kind.kind, key=str(key))
        except KubeError as error:  # the next session detects the difference again
            log.warning("status.not_written", kind=kind.kind, key=str(key), error=str(error))
            if not is_transient(error):
                patch.lane.rest(patch.slot, self._now() + self._refusals.take(patch.about, error))
        else:
            self._refusals.forget(patch.about)
            return body
        return None

"""Writes the placement of a gang without pods, in one guarded write together with the phase."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from pyroclast.api import keys, records
from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.types import POD_GROUPS, Key
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.basics.retry import jittered_backoff
from pyroclast.kube.http.client import Client
from pyroclast.lifecycle.seats.contract import SeatsError
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.groups import Group

log = structlog.get_logger()


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
        for key in self._cache.seats.table.claims():
            if key not in self._writing and not is_wished(key):
                self._cache.seats.unclaim(key)

    def joined(self, group: Group, status: records.PodGroupStatus, patch: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return `patch` with the placement of the group's seats added; None if there is nothing to write.

        `status`: the new status of the group. `patch`: the patch for this status.
        """
        key, meta, table = str(group.key), group.metadata, self._cache.seats.table
        if key not in table or status.phase is PodGroupPhase.PENDING:
            return patch
        try:
            text = table.placement(key)
        except SeatsError as error:
            log.info("placement.too_long", podgroup=key, reason=str(error))
            self._cache.seats.unclaim(key)
            return patch
        if text:
            self._writing.add(key)
            guard = {"uid": meta.uid, "resourceVersion": meta.resource_version}
            return {**(patch or {}), "metadata": {**guard, "annotations": {keys.PLACEMENT: text}}}
        if patch is not None and table.is_used_up(key):  # all pods exist: the planned write removes the placement too
            guard = {"uid": meta.uid, "resourceVersion": meta.resource_version}  # a new request for seats may have arrived
            return {**patch, "metadata": {**guard, "annotations": {keys.PLACEMENT: table.emptied(key)}}}
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

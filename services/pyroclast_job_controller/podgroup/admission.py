"""Creates PodGroups. Where the webhooks skip the controllers' objects, this module applies their rules itself."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any, Final

from pyroclast.api.types import POD_GROUPS, Key
from pyroclast.rules import podgroups
from pyroclast.rules.lookups import DEFAULT_QUEUE
from pyroclast.runtime.in_process.creation import ensure_allowed
from pyroclast.runtime.in_process.queues import judged
from pyroclast_job_controller.shared import Shared

MUTATE: Final = "/podgroups/mutate"
VALIDATE: Final = "/podgroups/validate"
PATHS: Final = (MUTATE, VALIDATE)
"""The paths of the webhooks of PodGroups."""

_NAME: Final = "validatepodgroup.volcano.sh"


class GroupAdmission:
    """Creates PodGroups after setting their defaults and checking them.

    Args:
        shared: the caches of queues and namespaces, and the client of the API server.
        webhooks: paths of the webhooks that skip this account. The API server calls the other webhooks.
        exempt: namespaces for whose objects no webhook is called.
    """

    def __init__(self, shared: Shared, webhooks: Collection[str], exempt: Collection[str]) -> None:
        self._client, self._caches = shared.client, shared.caches
        self._mutates, self._exempt = MUTATE in webhooks, frozenset(exempt)
        self._queues = shared.caches.queue_views if VALIDATE in webhooks else None
        if self._mutates:
            shared.caches.watch(shared.caches.namespaces)

    async def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create the PodGroup. Return the answer of the API server.

        Raises:
            ApiError: the API server rejects the PodGroup, or its webhooks would reject it.
            KubeError: the outcome of the write is unknown, or a queue that is not cached could not be read.
        """
        if (not self._mutates and self._queues is None) or manifest["metadata"]["namespace"] in self._exempt:
            return await self._client.create(POD_GROUPS, manifest)
        return await self._client.create(POD_GROUPS, await self._admitted(manifest), field_manager=self._client.user_agent)

    async def _admitted(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Return `manifest` as the webhooks would change it."""
        namespace = manifest["metadata"]["namespace"]
        group = manifest if "queue" in manifest["spec"] else _with_queue(manifest, DEFAULT_QUEUE)  # the schema's default
        if self._mutates and podgroups.takes_queue_of_namespace(group):
            found = self._caches.namespaces.get(Key("", namespace))
            for operation in podgroups.default(group, found.metadata.annotations if found is not None else {}):
                group = _with_queue(group, operation["value"])
        if self._queues is not None:
            ensure_allowed(_NAME, await judged(partial(podgroups.validate_create, group), self._queues, self._client))
        return group


def _with_queue(group: dict[str, Any], queue: str) -> dict[str, Any]:
    return {**group, "spec": {**group["spec"], "queue": queue}}

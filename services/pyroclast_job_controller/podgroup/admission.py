"""Creating PodGroups: where the webhooks leave out what the controllers create, their rules are applied here."""

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

__all__ = ["MUTATE", "PATHS", "VALIDATE", "GroupAdmission"]

MUTATE: Final = "/podgroups/mutate"
VALIDATE: Final = "/podgroups/validate"
PATHS: Final = (MUTATE, VALIDATE)
"""The webhooks of PodGroups."""

_NAME: Final = "validatepodgroup.volcano.sh"


class GroupAdmission:
    """Creates PodGroups, which it defaults and checks first.

    Args:
        shared: queues and namespaces, and the way to the API server.
        webhooks: paths of the webhooks that leave our account out; the API server calls the others.
        exempt: namespaces whose objects no webhook is called for.
    """

    def __init__(self, shared: Shared, webhooks: Collection[str], exempt: Collection[str]) -> None:
        self._client, self._caches = shared.client, shared.caches
        self._mutates, self._exempt = MUTATE in webhooks, frozenset(exempt)
        self._queues = shared.caches.queue_views if VALIDATE in webhooks else None
        if self._mutates:
            shared.caches.watch(shared.caches.namespaces)

    async def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create the PodGroup; what the API server answers.

        Raises:
            ApiError: the API server refuses it, or would do so by its webhooks.
            KubeError: nobody knows whether it was taken, or a queue that the cache lacks could not be looked up.
        """
        if (not self._mutates and self._queues is None) or manifest["metadata"]["namespace"] in self._exempt:
            return await self._client.create(POD_GROUPS, manifest)
        return await self._client.create(POD_GROUPS, await self._admitted(manifest), field_manager=self._client.user_agent)

    async def _admitted(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """`manifest` as the API server would have it after its webhooks."""
        namespace = manifest["metadata"]["namespace"]
        group = manifest if "queue" in manifest["spec"] else _with_queue(manifest, DEFAULT_QUEUE)  # the default of the schema
        if self._mutates and podgroups.takes_queue_of_namespace(group):
            found = self._caches.namespaces.get(Key("", namespace))
            for operation in podgroups.default(group, found.metadata.annotations if found is not None else {}):
                group = _with_queue(group, operation["value"])
        if self._queues is not None:
            ensure_allowed(_NAME, await judged(partial(podgroups.validate_create, group), self._queues, self._client))
        return group


def _with_queue(group: dict[str, Any], queue: str) -> dict[str, Any]:
    return {**group, "spec": {**group["spec"], "queue": queue}}

"""Creating PodGroups: where the webhooks leave out what the controllers create, their rules are applied here."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from pyroclast.api.records import Queue
from pyroclast.api.types import POD_GROUPS, QUEUES, Key
from pyroclast.rules import podgroups
from pyroclast.rules.lookups import DEFAULT_QUEUE, QueueView
from pyroclast.rules.values import mapping, text
from pyroclast.rules.verdicts import Verdict
from pyroclast.runtime.in_process.creation import ensure_allowed
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
        self._mutates, self._validates, self._exempt = MUTATE in webhooks, VALIDATE in webhooks, frozenset(exempt)
        if self._mutates:
            shared.caches.watch(shared.caches.namespaces)

    async def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create the PodGroup; what the API server answers.

        Raises:
            ApiError: the API server refuses it, or would do so by its webhooks.
            KubeError: nobody knows whether it was taken, or a queue that the cache lacks could not be looked up.
        """
        if not (self._mutates or self._validates) or manifest["metadata"]["namespace"] in self._exempt:
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
        if self._validates:
            await self._check(group)
        return group

    async def _check(self, group: dict[str, Any]) -> None:
        name = text(mapping(group["spec"]).get("queue"))
        found = self._caches.queues.get(Key("", name))
        verdict = _verdict(group, found)
        if not verdict.allowed and (found is None or not _view(found).is_open):  # the cache may lag behind
            verdict = _verdict(group, await self._read(name))
        ensure_allowed(_NAME, verdict)

    async def _read(self, name: str) -> Queue | None:
        items, _ = await self._client.list(QUEUES, field_selector=f"metadata.name={name}")
        return msgspec.convert(items[0], Queue) if items else None


class _OneQueue:
    """All that the rules of PodGroups ask for: the queue that the group names."""

    def __init__(self, queue: Queue | None) -> None:
        self._view = _view(queue) if queue is not None else None

    def get(self, name: str) -> QueueView | None:
        return self._view if self._view is not None and self._view.name == name else None

    def children(self, name: str) -> Sequence[QueueView]:
        return [self._view] if self._view is not None and self._view.parent == name else []

    def all(self) -> Sequence[QueueView]:
        return [self._view] if self._view is not None else []


def _view(queue: Queue) -> QueueView:
    return QueueView(queue.metadata.name, queue.spec.parent, queue.status.state or "")


def _verdict(group: dict[str, Any], queue: Queue | None) -> Verdict:
    return podgroups.validate_create(group, _OneQueue(queue))


def _with_queue(group: dict[str, Any], queue: str) -> dict[str, Any]:
    return {**group, "spec": {**group["spec"], "queue": queue}}

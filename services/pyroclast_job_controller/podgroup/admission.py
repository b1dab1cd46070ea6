"""Admission of the PodGroups that the controllers create: the webhooks leave our account out, so their rules are applied here.

A webhook call costs the API server about as much as the write itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from pyroclast.api.records import Queue
from pyroclast.api.types import QUEUES, Key
from pyroclast.kube.basics.errors import ApiError
from pyroclast.rules import podgroups
from pyroclast.rules.lookups import DEFAULT_QUEUE, QueueView
from pyroclast.rules.values import mapping, text
from pyroclast.rules.verdicts import Verdict
from pyroclast_job_controller.shared import Shared

__all__ = ["MUTATE", "PATHS", "VALIDATE", "GroupAdmission"]

MUTATE: Final = "/podgroups/mutate"
VALIDATE: Final = "/podgroups/validate"
PATHS: Final = (MUTATE, VALIDATE)
"""The webhooks whose rules this controller can apply itself."""

_NAME: Final = "validatepodgroup.volcano.sh"


class GroupAdmission:
    """Defaults and checks PodGroups before they are created.

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

    async def admitted(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """`manifest` as the API server would have it after its webhooks.

        Raises:
            ApiError: the error with which the API server would refuse it.
            KubeError: a queue that the cache lacks could not be looked up.
        """
        namespace = manifest["metadata"]["namespace"]
        if namespace in self._exempt:
            return manifest
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
        if not verdict.allowed:
            raise _refusal(verdict)

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


def _refusal(verdict: Verdict) -> ApiError:
    """The error that the API server makes of a denial by the webhook."""
    status, reason = (422, "Invalid") if verdict.causes else (400, "")
    message = f'admission webhook "{_NAME}" denied the request: {verdict.sentence}'
    return ApiError.from_status(status, {"reason": reason, "message": message}, verb="POST")

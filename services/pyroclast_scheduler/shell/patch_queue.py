"""The patches that the writer sends: first those for which the creation or placement of pods waits."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import structlog

from pyroclast.api.types import POD_GROUPS, Key, ResourceType
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import KubeError, NotFound, is_transient
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.workqueue.rejections import Refusals
from pyroclast_scheduler.shell.debounce import Debounce

log = structlog.get_logger()

_SECONDS: Final = 30.0  # for one patch with its retries
_PATIENCE_SECONDS: Final = 5.0  # for which other patches wait behind later ones that let pods start, while all workers are busy


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch for the object `about`. `lane`, `slot`: the debounce and the key of the wish.

    `is_awaited`: whether the creation or placement of pods waits for it.
    """

    kind: ResourceType
    about: Reference
    body: dict[str, Any]
    how: PatchKind
    lane: Debounce[str, Any]
    slot: str
    job: str = ""
    is_status: bool = True
    is_awaited: bool = False

    @property
    def key(self) -> Key:
        """The key of the object."""
        return Key(self.about.namespace, self.about.name)

    @property
    def subresource(self) -> str:
        """The subresource to which the patch is sent; PodGroups have none."""
        return "status" if self.is_status and self.kind is not POD_GROUPS else ""


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
        kind, key, deadline = patch.kind, patch.key, Deadline.after(_SECONDS)
        try:
            body = await self._client.patch(kind, key, patch.body, patch.how, subresource=patch.subresource, deadline=deadline)
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

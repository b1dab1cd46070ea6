"""Verifies overdue assumptions: reads the pod and uses its state in the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from pyroclast.api import records
from pyroclast.api.types import PODS, Key
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import KubeError, NotFound
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.response_records import readable
from pyroclast_scheduler.cache.cache import Cache

log = structlog.get_logger()

_LOOK_SECONDS: Final = 5.0
_READ_SECONDS: Final = 10.0


class Verifier:
    """Reads the pods whose assumption was not confirmed in time, and ends the assumption; `run` must be running."""

    def __init__(self, client: Client, cache: Cache, *, now: Callable[[], float]) -> None:
        self._client = client
        self._cache = cache
        self._now = now

    async def run(self) -> None:
        """Check for overdue assumptions until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for uid in self._cache.assumptions.overdue(self._now()):
                await self._verify(uid)

    async def _verify(self, uid: str) -> None:
        task = self._cache.tasks.get(uid)
        if task is None:
            self._cache.assumptions.end(uid)
            return
        pod: records.Pod | None = None
        try:
            body = await self._client.get(PODS, Key(task.namespace, task.name), deadline=Deadline.after(_READ_SECONDS))
            pod = readable(body, records.Pod)
        except NotFound:
            log.debug("pod.gone", pod=task.key)
        except KubeError as error:  # the assumption has a new deadline
            log.warning("pod.not_read", pod=task.key, error=str(error))
            return
        log.info("assumption.ended", pod=task.key, status=task.status.label)
        self._cache.pods.read(uid, pod)

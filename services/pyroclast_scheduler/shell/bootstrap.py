"""Creates the queues that must exist, at the start of the scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import structlog

from pyroclast.api.types import QUEUES, Key
from pyroclast.kube.basics.errors import AlreadyExists, KubeError, NotFound
from pyroclast.kube.http.client import Client

log = structlog.get_logger()

_TRIES: Final = 60  # a minute: CRDs and webhooks of a new installation need some seconds to start
_PAUSE_SECONDS: Final = 1.0


async def ensure_queues(client: Client, default_queue: str) -> None:
    """Create the queue `root` and the default queue if they do not exist.

    Raises:
        KubeError: the queues could not be created within a minute.
    """
    await _ensure(client, "root", {"weight": 1, "reclaimable": False})
    await _ensure(client, default_queue, {"weight": 1, "reclaimable": True})


async def _ensure(client: Client, name: str, spec: Mapping[str, Any]) -> None:
    body = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": {"name": name}, "spec": spec}
    for left in reversed(range(_TRIES)):
        try:
            try:
                await client.get(QUEUES, Key("", name))
            except NotFound:
                await client.create(QUEUES, body)
                log.info("queue.created", queue=name)
        except AlreadyExists:
            return
        except KubeError as error:
            if not left:
                raise
            log.warning("queue.not_created", queue=name, error=str(error))
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            return

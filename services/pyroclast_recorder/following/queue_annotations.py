"""Writes of the recorder to the annotations of queues."""

from __future__ import annotations

import structlog

from pyroclast.api.types import QUEUES, Key
from pyroclast.kube.basics.errors import ApiError, NotFound
from pyroclast.kube.http.client import Client, PatchKind

log = structlog.get_logger()


async def annotate(client: Client, queue: str, key: str, text: str, *, refused: str) -> bool:
    """Write `text` to the annotation `key` of a queue; return whether the annotation was written.

    A deleted queue needs no annotation. When the API server refuses the write, this is logged as the event `refused`, so that one
    queue does not prevent writes to other queues.
    """
    try:
        await client.patch(QUEUES, Key("", queue), {"metadata": {"annotations": {key: text}}}, PatchKind.MERGE)
    except NotFound:
        return False
    except ApiError as error:
        log.warning(refused, queue=queue, error=str(error))
        return False
    return True

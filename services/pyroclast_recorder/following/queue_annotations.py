"""Writes what the recorder tells of a queue into an annotation of it."""

from __future__ import annotations

import structlog

from pyroclast.api.types import QUEUES, Key
from pyroclast.kube.basics.errors import ApiError, NotFound
from pyroclast.kube.http.client import Client, PatchKind

__all__ = ["annotate"]

log = structlog.get_logger()


async def annotate(client: Client, queue: str, key: str, text: str, *, refused: str) -> bool:
    """Write `text`; whether it is there now. A queue that is gone needs none.

    One queue that the API server refuses keeps nothing from the others: it is logged as the event `refused`.

    Raises:
        KubeError: the API server did not answer.
    """
    try:
        await client.patch(QUEUES, Key("", queue), {"metadata": {"annotations": {key: text}}}, PatchKind.MERGE)
    except NotFound:
        return False
    except ApiError as error:
        log.warning(refused, queue=queue, error=str(error))
        return False
    return True

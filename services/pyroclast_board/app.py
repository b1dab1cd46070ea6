"""The process of the board: what it follows, and what it serves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from pyroclast.runtime.access import Access
from pyroclast.runtime.errors import StartFailure
from pyroclast.runtime.service import Service
from pyroclast_board.cluster.cluster import Cluster
from pyroclast_board.cluster.details import Details
from pyroclast_board.cluster.metrics import JobEnds, WaitingJobs
from pyroclast_board.metrics import BoardMetrics
from pyroclast_board.pages.base import Templates
from pyroclast_board.serving.pages import Pages
from pyroclast_board.serving.recorder import Recorder
from pyroclast_board.serving.scheduler import Scheduler
from pyroclast_board.serving.server import BoardServer
from pyroclast_board.serving.sessions import Sessions
from pyroclast_board.serving.streams import Streams
from pyroclast_board.serving.viewers import Viewers
from pyroclast_board.settings import BoardSettings

__all__ = ["run"]

SHORTEST_KEY: Final = 32


async def run(service: Service, settings: BoardSettings) -> None:
    """Follow the cluster, and serve its pages."""
    key = _session_key(settings.session_key_file)
    client = await service.client()
    cluster = Cluster(client, settings.lease_namespace)
    for informer in cluster.informers:
        service.watch(informer)
    WaitingJobs(service.metrics, cluster)
    JobEnds(service.metrics, cluster)
    templates, metrics = Templates(), BoardMetrics(service.metrics)
    viewers = Viewers(Access(client), Sessions(key, settings.session_time.total_seconds()), is_open=settings.login == "local")
    async with (
        Recorder(settings.recorder_url, settings.recorder_token_file) as recorder,
        Scheduler(settings.scheduler_url) as scheduler,
    ):
        pages = Pages(cluster, Details(client), recorder, scheduler, templates)
        streams = Streams(pages.page, lambda: cluster.generation, metrics, settings.most_streams)
        server = BoardServer(pages, streams, viewers, templates, metrics=metrics, most_streams=settings.most_streams)
        await service.synced()
        service.spawn("leases", cluster.follow_leases())
        service.spawn("streams", streams.run())
        await server.start(settings.page_address)
        try:
            await service.forever()
        finally:
            await server.stop()


def _session_key(path: str) -> bytes:
    """The secret that seals sessions; a random one ends them with the process.

    Raises:
        StartFailure: the file cannot be read, or is too short to be a secret.
    """
    if not path:
        return os.urandom(SHORTEST_KEY)
    try:
        key = Path(path).read_bytes()
    except OSError as error:
        raise StartFailure(f"--session-key-file: {path}: {error.strerror or error}") from error
    if len(key) < SHORTEST_KEY:
        raise StartFailure(f"--session-key-file: {path} has {len(key)} bytes; a key has at least {SHORTEST_KEY}")
    return key

"""Wires the board: the informers, the pages and the HTTP server."""

from __future__ import annotations

import os
import ssl
from functools import partial
from pathlib import Path
from typing import Final

from pyroclast.runtime.access import Access
from pyroclast.runtime.errors import StartFailure
from pyroclast.runtime.service import Service
from pyroclast.runtime.tls import ServingTls, TlsFiles
from pyroclast_board.cluster.cluster import Cluster
from pyroclast_board.cluster.details import Details
from pyroclast_board.cluster.natives import follow_natives
from pyroclast_board.metrics import BoardMetrics, JobEnds, WaitingJobs
from pyroclast_board.pages.base import Templates
from pyroclast_board.serving.pages import Pages
from pyroclast_board.serving.recorder import Recorder
from pyroclast_board.serving.scheduler import Scheduler
from pyroclast_board.serving.server import BoardServer
from pyroclast_board.serving.streams import Streams
from pyroclast_board.serving.viewers import RequestHeaders, Sessions, Viewers
from pyroclast_board.settings import BoardSettings

AUDIENCE: Final = "pyroclast-board"
"""The audience of tokens for the board alone. Tokens for the API server are accepted too."""
SHORTEST_KEY: Final = 32


async def run(service: Service, settings: BoardSettings) -> None:
    """Watch the cluster and serve its pages until cancelled."""
    key = _session_key(settings.session_key_file)
    client = await service.client()
    cluster = Cluster(client, settings.lease_namespace)
    for informer in cluster.informers:
        service.watch(informer)
    WaitingJobs(service.metrics, cluster)
    JobEnds(service.metrics, cluster)
    templates, metrics = Templates(), BoardMetrics(service.metrics)
    review = settings.review_period.total_seconds()
    viewers = Viewers(
        Access(client, AUDIENCE, remembered=review),
        Sessions(key, settings.session_time.total_seconds()),
        is_open=settings.login == "local",
        proxy=_proxy(settings),
        review=review,
    )
    tls = _tls(service, settings)
    async with (
        Recorder(settings.recorder_url, settings.recorder_token_file) as recorder,
        Scheduler(settings.scheduler_url, settings.scheduler_token_file) as scheduler,
    ):
        pages = Pages(
            cluster, Details(client), recorder, scheduler, templates, trace_url=settings.trace_url, runbooks=settings.runbooks
        )
        streams = Streams(pages.page, lambda: cluster.generation, metrics, settings.most_streams)
        most = settings.most_streams
        server = BoardServer(pages, streams, viewers, templates, metrics=metrics, most_streams=most, tls=tls)
        await service.synced()
        service.spawn("natives", follow_natives(client, cluster.natives, partial(service.watch, is_needed=False)))
        service.spawn("leases", cluster.follow_leases())
        service.spawn("health", cluster.follow_health())
        service.spawn("streams", streams.run())
        await server.start(settings.page_address)
        try:
            await service.forever()
        finally:
            await server.stop()


def _proxy(settings: BoardSettings) -> RequestHeaders | None:
    """Return which headers of an authenticating proxy name the user. None when no proxy is configured."""
    if settings.login != "proxy":
        return None
    return RequestHeaders(
        settings.requestheader_username_headers,
        settings.requestheader_group_headers,
        settings.requestheader_allowed_names,
        settings.requestheader_username_prefix,
        settings.requestheader_groups_prefix,
    )


def _tls(service: Service, settings: BoardSettings) -> ssl.SSLContext | None:
    """Return a TLS context with the configured files, which are reloaded when they change. None when no files are configured."""
    if not settings.page_cert_file:
        return None
    tls, client_ca = ServingTls(), settings.requestheader_client_ca_file
    files = TlsFiles(tls, Path(settings.page_cert_file), Path(settings.page_key_file), Path(client_ca) if client_ca else None)
    files.load()
    service.spawn("page-tls", files.follow())
    return tls.context


def _session_key(path: str) -> bytes:
    """Return the secret that seals sessions. Without a file the secret is random, so that sessions end with the process."""
    if not path:
        return os.urandom(SHORTEST_KEY)
    try:
        key = Path(path).read_bytes()
    except OSError as error:
        raise StartFailure(f"--session-key-file: {path}: {error.strerror or error}") from error
    if len(key) < SHORTEST_KEY:
        raise StartFailure(f"--session-key-file: {path} has {len(key)} bytes; a key has at least {SHORTEST_KEY}")
    return key

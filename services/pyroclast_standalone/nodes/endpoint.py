"""The HTTPS endpoint of the nodes, like that of a kubelet: the logs of containers, and commands in containers."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from pyroclast.api.types import Key
from pyroclast.kube.http.exec import CLOSING_PROTOCOL, PROTOCOL
from pyroclast_standalone.nodes import attaching, records
from pyroclast_standalone.nodes.environment import ConfigurationError
from pyroclast_standalone.nodes.lives import ContainerLife, PodLife
from pyroclast_standalone.nodes.pods import PodKeeper
from pyroclast_standalone.nodes.runtime import LogLine, LogOptions, selected, written

if TYPE_CHECKING:
    from pyroclast_standalone.nodes.pods import Runtime

_ADMINISTRATORS = "system:masters"
_FOLLOW_SECONDS = 0.2  # how soon a follower gets a new line


class Endpoint:
    """Serves the logs of all nodes, and commands in their containers, on one port, which must only be open on loopback.

    With `authority`, the file of a CA, only administrators can read logs: clients with a certificate of the CA for the group
    `system:masters`, as the API server has. Without, every user of the machine can. Only administrators can start commands, whose
    certificate is of that CA or of `cluster`, the CA of the API server (PEM).
    """

    def __init__(self, keeper: PodKeeper, runtime: Runtime, authority: str = "", cluster: bytes = b"") -> None:
        self._cluster = cluster
        self._keeper, self._runtime, self._authority = keeper, runtime, authority

    @asynccontextmanager
    async def serving(self, address: str, port: int) -> AsyncIterator[int]:
        """Serve the logs of containers until the block ends. Yield the port."""
        application = web.Application()
        application.router.add_get("/healthz", self._health)
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        application.router.add_get("/exec/{namespace}/{pod}/{container}", self._exec)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            context = await asyncio.to_thread(serving_context, address)
            if self._cluster:
                context.load_verify_locations(cadata=self._cluster.decode("ascii"))
                context.verify_mode = ssl.CERT_OPTIONAL
            if self._authority:
                context.load_verify_locations(self._authority)
                context.verify_mode = ssl.CERT_REQUIRED
            site = web.TCPSite(runner, address, port, ssl_context=context)
            await site.start()
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        if not _is_administrator(request):
            return web.Response(status=403, text=f"only {_ADMINISTRATORS} may start commands on a node: ask the API server")
        key = Key(request.match_info["namespace"], request.match_info["pod"])
        name = request.match_info["container"]
        found = self._container(key, name)
        if found is None or not found[2].is_alive:
            return web.Response(status=404, text=f'container "{name}" of pod "{key}" does not run here')
        is_terminal = request.query.get("tty", "").lower() in ("true", "1")
        try:
            attached = await self._runtime.execute(*found, request.query.getall("command", []), tty=is_terminal)
        except ConfigurationError as error:
            return web.Response(status=500, text=str(error))
        if attached is None:
            text = "these nodes only pretend to run commands; those of `pyroclast up` without --nodes run them"
            return web.Response(status=501, text=text)
        socket = web.WebSocketResponse(protocols=(CLOSING_PROTOCOL, PROTOCOL))
        await socket.prepare(request)
        await attaching.serve(socket, attached, lambda: self._is_over(key, name))
        return socket

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        if self._authority and not _is_administrator(request):
            return web.Response(status=403, text=f"only {_ADMINISTRATORS} may read logs from a node: ask the API server")
        key = Key(request.match_info["namespace"], request.match_info["pod"])
        name = request.match_info["container"]
        try:
            options = LogOptions.parse(request.query, time.time())
        except ValueError as error:
            return web.Response(status=400, text=str(error))
        found = self._container(key, name)
        if found is None:
            return web.Response(status=404, text=f'no container "{name}" of pod "{key}" runs here')
        try:
            lines = await self._lines(key, name, options)
        except ConfigurationError as error:
            why = f'the log of container "{name}" in pod "{key.name}" was lost when the nodes were restarted: {error}'
            return web.Response(status=404, text=why)
        if lines is None and options.previous:
            return web.Response(status=400, text=f'previous terminated container "{name}" in pod "{key.name}" not found')
        if lines is None:
            reason = found[2].trouble.reason if found[2].trouble else "ContainerCreating"
            return web.Response(status=400, text=f'container "{name}" in pod "{key.name}" is waiting to start: {reason}')
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        text = b"".join(written(line, options) for line in selected(lines, options))
        await response.write(text if options.limit_bytes is None else text[: options.limit_bytes])
        if options.follow and not options.previous:
            await self._follow(response, key, name, options, lines)
        await response.write_eof()
        return response

    async def _follow(
        self, response: web.StreamResponse, key: Key, name: str, options: LogOptions, before: list[LogLine]
    ) -> None:
        while True:
            is_over = self._is_over(key, name)
            lines = await self._lines(key, name, options)
            if lines is None:
                return
            seen = len(before)
            if before and lines[:1] != before[:1]:  # the log was rotated
                seen = lines.index(before[-1]) + 1 if before[-1] in lines else 0
            for line in lines[seen:]:
                await response.write(written(line, options))
            before = lines
            if is_over:
                return
            await asyncio.sleep(_FOLLOW_SECONDS)

    def _is_over(self, key: Key, name: str) -> bool:
        found = self._container(key, name)
        return found is None or not found[2].is_alive

    async def _lines(self, key: Key, name: str, options: LogOptions) -> list[LogLine] | None:
        found = self._container(key, name)
        lines = await self._runtime.lines(*found, previous=options.previous) if found is not None else None
        return None if lines is None else list(lines)

    def _container(self, key: Key, name: str) -> tuple[records.Pod, PodLife, ContainerLife] | None:
        found = self._keeper.find(key)
        if found is None:
            return None
        pod, life = found
        container = next((container for container in life.containers if container.name == name), None)
        return None if container is None else (pod, life, container)


def _is_administrator(request: web.Request) -> bool:
    certificate = (request.transport.get_extra_info("peercert") if request.transport else None) or {}
    return ("organizationName", _ADMINISTRATORS) in {pair for part in certificate.get("subject", ()) for pair in part}


def serving_context(address: str) -> ssl.SSLContext:
    """Return a TLS context with a new key and self-signed certificate.

    API servers do not verify kubelet certificates by default.
    """
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - slow to import, needed once
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

    from pyroclast_standalone.certificates import certificate, pem  # noqa: PLC0415 - slow to import, needed once

    key = ec.generate_private_key(ec.SECP256R1())
    own = certificate(f"pyroclast-nodes@{address}", "", key=key, issuer=None, issuer_key=key, now=datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory() as folder:  # the ssl module reads keys only from files; this one is private
        path = Path(folder) / "pair.pem"
        path.write_bytes(pem(key) + own.public_bytes(Encoding.PEM))
        context.load_cert_chain(path)
    return context

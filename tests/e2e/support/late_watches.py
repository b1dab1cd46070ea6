"""A way to the API server on which what a watch of pods tells can be held back, while all else goes on: an out-of-date cache."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass

import aiohttp
import yaml
from aiohttp import web

from tests.e2e.support.cluster import Cluster, wait_until

PODS = "/api/v1/pods"
PER_HOP = {"Host", "Connection", "Transfer-Encoding", "Content-Length"}


@dataclass(slots=True)
class LateWatches:
    """`watches`: how many watches of pods are open."""

    server: str
    tls: ssl.SSLContext
    loop: asyncio.AbstractEventLoop
    session: aiohttp.ClientSession
    gate: asyncio.Event
    watches: int = 0

    def hold(self) -> None:
        """Keep back what watches of pods tell from now on."""
        self._set(self.gate.clear)

    def let_go(self) -> None:
        """Tell what was kept back, in its order, and all that comes."""
        self._set(self.gate.set)

    def _set(self, change: Callable[[], None]) -> None:
        done: Future[None] = Future()
        self.loop.call_soon_threadsafe(lambda: (change(), done.set_result(None)))
        done.result(10)

    async def pass_on(self, request: web.Request) -> web.StreamResponse:
        is_late = request.path == PODS and "watch" in request.query
        headers = {name: value for name, value in request.headers.items() if name not in PER_HOP}
        body = await request.read()
        async with self.session.request(
            request.method, self.server + request.path_qs, headers=headers, data=body, ssl=self.tls
        ) as answer:
            response = web.StreamResponse(status=answer.status)
            response.headers.update({name: value for name, value in answer.headers.items() if name not in PER_HOP})
            await response.prepare(request)
            self.watches += is_late
            try:
                async for part in answer.content.iter_any():
                    if is_late:
                        await self.gate.wait()
                    await response.write(part)
            finally:
                self.watches -= is_late
        return response


@contextlib.contextmanager
def late_watches(cluster: Cluster, service: str, account: str) -> Iterator[LateWatches]:
    """`service` works on this way while the block lasts; it is started anew for it, and again afterwards."""
    kubeconfig = next(cluster.data.rglob(f"{account}.kubeconfig"))
    before = kubeconfig.read_text()
    with _serving(yaml.safe_load(before)["clusters"][0]["cluster"]) as (late, port):
        config = yaml.safe_load(before)
        config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{port}"}
        kubeconfig.write_text(yaml.safe_dump(config))
        try:
            cluster.kill(service)
            wait_until(lambda: late.watches, f"{service} to watch pods")
            yield late
        finally:
            late.let_go()
            kubeconfig.write_text(before)
            cluster.kill(service)


@contextlib.contextmanager
def _serving(cluster: dict[str, str]) -> Iterator[tuple[LateWatches, int]]:
    tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    started: Future[tuple[LateWatches, int, asyncio.Event]] = Future()

    async def run() -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(), auto_decompress=False) as session:
            gate, over = asyncio.Event(), asyncio.Event()
            gate.set()
            late = LateWatches(cluster["server"], tls, asyncio.get_running_loop(), session, gate)
            application = web.Application(client_max_size=0)
            application.router.add_route("*", "/{path:.*}", late.pass_on)
            runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=True)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            started.set_result((late, runner.addresses[0][1], over))
            await over.wait()
            await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    late, port, over = started.result(10)
    try:
        yield late, port
    finally:
        late.loop.call_soon_threadsafe(over.set)
        thread.join()

"""The server inside another program, for tests. Tests can control its clock, its history and its faults."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyroclast_standalone.apiserver.app import Server, serving
from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.requests.routes import RequestInfo
from pyroclast_standalone.apiserver.storage.store import DEFAULT_RING_SIZE, Change

_SETTLE_STEP: Final = 0.005
_REASONS: Final = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}


@dataclass(slots=True)
class _Mishaps:
    """The faults of the next requests. `latency` is the delay of every request in seconds."""

    latency: float = 0.0
    planned: list[tuple[str, str, int]] = field(default_factory=list)
    seen: list[RequestInfo] = field(default_factory=list)

    async def before(self, info: RequestInfo) -> status.StatusError | None:
        """Delay and record a request. Return the error that is planned for the request, or None."""
        self.seen.append(info)
        if self.latency:
            await asyncio.sleep(self.latency)
        for position, (verb, resource, code) in enumerate(self.planned):
            if verb in {"*", info.verb} and resource in {"*", info.resource}:
                del self.planned[position]
                details = {"retryAfterSeconds": 1} if code == 429 else None
                return status.StatusError(code, _REASONS.get(code, ""), "a failure that a test asked for", details=details)
        return None


class RunningServer:
    """A running server.

    Attributes:
        url: the URL of the server.
        kubeconfig: the file with the administrator's credentials.
        server: the parts of the server.
    """

    def __init__(self, server: Server, url: str, kubeconfig: Path, mishaps: _Mishaps) -> None:
        self.server = server
        self.url = url
        self.kubeconfig = kubeconfig
        self._mishaps = mishaps

    @property
    def latency(self) -> float:
        """The delay of every request in seconds."""
        return self._mishaps.latency

    @latency.setter
    def latency(self, seconds: float) -> None:
        self._mishaps.latency = seconds

    def fail_next(self, verb: str, resource: str, code: int) -> None:
        """Answer the next request of that verb and plural (`*` for any) with this HTTP code, without processing it."""
        self._mishaps.planned.append((verb, resource, code))

    def compact(self) -> None:
        """Remove all history, so that older resourceVersions and continue tokens are expired."""
        store = self.server.store
        for collection in store.collections():
            collection.compact(store.revision)

    def drop_watches(self) -> None:
        """End every watch, as a restart of the server does."""
        for collection in self.server.store.collections():
            for subscription in list(collection.subscriptions):
                subscription.close()

    async def settle(self, *, within: float = 10.0) -> None:
        """Wait until the controllers of the server have no work left.

        Raises:
            TimeoutError: they still had work after `within` seconds.
        """
        async with asyncio.timeout(within):
            while not self.server.is_settled:
                await asyncio.sleep(_SETTLE_STEP)

    def history(self, resource: str) -> list[Change]:
        """Return the stored changes of a collection (`pods`, `jobs.batch.volcano.sh`), oldest first."""
        return self.server.store.collection(resource).changes()

    def requests(self) -> Counter[tuple[str, str]]:
        """Count the requests so far by verb and resource."""
        return Counter((info.verb, info.resource or info.path) for info in self._mishaps.seen)

    def forget_requests(self) -> None:
        """Reset the count of requests."""
        self._mishaps.seen.clear()


@contextlib.asynccontextmanager
async def running_server(
    directory: Path | None = None,
    *,
    in_memory: bool = True,
    port: int = 0,
    audit_log: Path | None = None,
    ring_size: int = DEFAULT_RING_SIZE,
    now: Callable[[], float] = time.time,
    schedulers: Sequence[str] = (),
) -> AsyncIterator[RunningServer]:
    """Serve on a free port of 127.0.0.1 until the block ends. Without a directory, a temporary one is used."""
    with contextlib.ExitStack() as stack:
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pyroclast-")))
        mishaps = _Mishaps()
        async with serving(
            directory,
            port=port,
            in_memory=in_memory,
            audit_log=audit_log,
            ring_size=ring_size,
            faults=mishaps,
            now=now,
            schedulers=schedulers,
        ) as (server, url):
            yield RunningServer(server, url, directory / "kubeconfig", mishaps)

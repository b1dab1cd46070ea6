"""The embedded API server inside a test. Tests control its clock, its history and its faults."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyroclast_standalone.apiserver.app import Server, serving
from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.requests.routes import RequestInfo
from pyroclast_standalone.apiserver.storage.store import Change

_SETTLE_STEP: Final = 0.005
_REASONS: Final = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}


@dataclass(slots=True)
class RunningServer:
    """A running server.

    Attributes:
        kubeconfig: the file with the administrator's credentials.
        latency: the delay of every request in seconds.
    """

    kubeconfig: Path
    url: str = ""
    latency: float = 0.0
    server: Server = field(init=False)
    _planned: list[tuple[str, str, int]] = field(default_factory=list)
    _seen: list[RequestInfo] = field(default_factory=list)

    async def before(self, info: RequestInfo) -> status.StatusError | None:
        """Delay and record a request. Return the error that is planned for the request, or None."""
        self._seen.append(info)
        if self.latency:
            await asyncio.sleep(self.latency)
        for position, (verb, resource, code) in enumerate(self._planned):
            if verb in {"*", info.verb} and resource in {"*", info.resource}:
                del self._planned[position]
                details = {"retryAfterSeconds": 1} if code == 429 else None
                return status.StatusError(code, _REASONS.get(code, ""), "a failure that a test asked for", details=details)
        return None

    def fail_next(self, verb: str, resource: str, code: int) -> None:
        """Answer the next request of that verb and plural (`*` for any) with this HTTP code, without processing it."""
        self._planned.append((verb, resource, code))

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
        """Wait until the controllers of the server have no work left, at most `within` seconds."""
        async with asyncio.timeout(within):
            while not self.server.is_settled:
                await asyncio.sleep(_SETTLE_STEP)

    def history(self, resource: str) -> list[Change]:
        """Return the stored changes of a collection (`pods`, `jobs.batch.volcano.sh`), oldest first."""
        return self.server.store.collection(resource).changes()

    def requests(self) -> Counter[tuple[str, str]]:
        """Count the requests so far by verb and resource."""
        return Counter((info.verb, info.resource or info.path) for info in self._seen)

    def forget_requests(self) -> None:
        """Reset the count of requests."""
        self._seen.clear()


@contextlib.asynccontextmanager
async def running_server(
    directory: Path | None = None, *, in_memory: bool = True, audit_log: Path | None = None, schedulers: Sequence[str] = ()
) -> AsyncIterator[RunningServer]:
    """Serve on a free port of 127.0.0.1 until the block ends. Without a directory, a temporary one is used."""
    with tempfile.TemporaryDirectory(prefix="pyroclast-") as temporary:
        directory = directory or Path(temporary)
        running = RunningServer(directory / "kubeconfig")
        async with serving(
            directory, port=0, in_memory=in_memory, audit_log=audit_log, faults=running, schedulers=schedulers
        ) as (running.server, running.url):
            yield running

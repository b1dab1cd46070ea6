"""An open connection of one client in one process and event loop: requests, and a watch for each namespace in use."""

from __future__ import annotations

import asyncio
import os
import warnings
from typing import Final

import structlog

from pyroclast.api.types import SELF_SUBJECT_REVIEWS, ResourceType
from pyroclast.kube.credentials.config import ClusterConfig
from pyroclast.kube.http.client import Client
from pyroclast.runtime import logs
from pyroclast_client.errors import PyroclastWarning
from pyroclast_client.orphans import remove_orphans
from pyroclast_client.pending import PendingSecrets
from pyroclast_client.watching import Watcher

__all__ = ["Session", "here", "user_of"]

MAX_ATTEMPTS: Final = 4  # a person waits
CLOSE_SECONDS: Final = 0.05
USER_AGENT: Final = "pyroclast-client"


class Session:
    """Begins to open in the running loop when it is made, and is open from `ready` to `close`.

    `owner` is the process and loop that it belongs to.
    """

    def __init__(self, config: ClusterConfig) -> None:
        if not structlog.is_configured():
            logs.set_level("critical")  # a program that has no use for our lines gets errors and warnings instead
        self.kube = Client(config, max_attempts=MAX_ATTEMPTS, user_agent=USER_AGENT, on_warning=_warn)
        self.owner = here()
        self._opening = asyncio.get_running_loop().create_task(self._open())
        self.pending = PendingSecrets(config.server)
        self._looked_for_orphans: set[str] = set()
        self._watchers: dict[tuple[ResourceType, str], Watcher] = {}

    async def ready(self) -> Session:
        """The session once it is open; for all who ask meanwhile it is the same."""
        await asyncio.shield(self._opening)
        return self

    async def _open(self) -> None:
        await self.kube.__aenter__()

    async def remove_orphans(self, namespace: str) -> None:
        """Remove Secrets that clients before us left, once for each namespace."""
        if namespace not in self._looked_for_orphans:
            self._looked_for_orphans.add(namespace)
            await remove_orphans(self.kube, namespace, self.pending)

    def watcher(self, kind: ResourceType, namespace: str) -> Watcher:
        """The watch of that kind and namespace."""
        found = self._watchers.get((kind, namespace))
        if found is None or found.has_failed:
            found = self._watchers[kind, namespace] = Watcher(self.kube, kind, namespace)
        return found

    async def close(self) -> None:
        """End all connections."""
        await self._opening
        for watcher in self._watchers.values():
            await watcher.close()
        self._watchers.clear()
        await self.kube.__aexit__(None, None, None)
        await asyncio.sleep(CLOSE_SECONDS)  # TLS connections take leave in the loop, which may end now


def here() -> tuple[int, int]:
    """This process and the running loop."""
    return os.getpid(), id(asyncio.get_running_loop())


def _warn(text: str) -> None:
    warnings.warn(text, PyroclastWarning, stacklevel=2)


async def user_of(kube: Client) -> str:
    """The name of the user as the API server knows it, which admission writes on what the user submits."""
    kind = SELF_SUBJECT_REVIEWS
    answer = await kube.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind})
    return str(answer["status"]["userInfo"]["username"])

"""An open connection of one client in one process and event loop: requests, and a watch for each kind and namespace in use."""

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

MAX_ATTEMPTS: Final = 4  # few, because a person waits
CLOSE_SECONDS: Final = 0.05
USER_AGENT: Final = "pyroclast-client"


class Session:
    """A connection, which starts to open in the running loop when it is created, and is open from `ready` to `close`.

    `owner` is the process and event loop to which the connection belongs.
    """

    def __init__(self, config: ClusterConfig) -> None:
        if not structlog.is_configured():
            logs.set_level("critical")  # a program without logging of its own gets errors and warnings instead of log lines
        self.kube = Client(config, max_attempts=MAX_ATTEMPTS, user_agent=USER_AGENT, on_warning=_warn)
        self.owner = here()
        self._opening = asyncio.get_running_loop().create_task(self._open())
        self.pending = PendingSecrets(config.server)
        self._looked_for_orphans: set[str] = set()
        self._watchers: dict[tuple[ResourceType, str], Watcher] = {}

    async def ready(self) -> Session:
        """Return this connection once it is open. All concurrent callers wait for the same opening."""
        await asyncio.shield(self._opening)
        return self

    async def _open(self) -> None:
        await self.kube.__aenter__()

    async def remove_orphans(self, namespace: str) -> None:
        """Remove the Secrets that earlier clients left behind, once for each namespace."""
        if namespace not in self._looked_for_orphans:
            self._looked_for_orphans.add(namespace)
            await remove_orphans(self.kube, namespace, self.pending)

    def watcher(self, kind: ResourceType, namespace: str) -> Watcher:
        """Return the shared watch of a kind in a namespace."""
        found = self._watchers.get((kind, namespace))
        if found is None or found.has_failed:
            found = self._watchers[kind, namespace] = Watcher(self.kube, kind, namespace)
        return found

    async def close(self) -> None:
        """Close all connections."""
        await self._opening
        for watcher in self._watchers.values():
            await watcher.close()
        self._watchers.clear()
        await self.kube.__aexit__(None, None, None)
        await asyncio.sleep(CLOSE_SECONDS)  # TLS connections close in the event loop, which may end now


def here() -> tuple[int, int]:
    """Return the process id and the id of the running event loop."""
    return os.getpid(), id(asyncio.get_running_loop())


def _warn(text: str) -> None:
    warnings.warn(text, PyroclastWarning, stacklevel=2)


async def user_of(kube: Client) -> str:
    """Return the name of the user at the API server. Admission writes this name on the objects that the user submits."""
    kind = SELF_SUBJECT_REVIEWS
    answer = await kube.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind})
    return str(answer["status"]["userInfo"]["username"])

"""An open connection of one client in one process and event loop: requests, and a watch for each namespace in use."""

from __future__ import annotations

import asyncio
import os
import warnings
from dataclasses import dataclass, field
from typing import Final

import structlog

from pyroclast.api.types import ResourceType
from pyroclast.kube.client import Client
from pyroclast.kube.config import ClusterConfig
from pyroclast.runtime import logs
from pyroclast_client.errors import PyroclastWarning
from pyroclast_client.watching import Watcher

__all__ = ["Session"]

MAX_ATTEMPTS: Final = 4  # a person waits
USER_AGENT: Final = "pyroclast-client"


@dataclass(slots=True)
class Session:
    """Open until `close`. `owner` is the process and loop that it belongs to."""

    config: ClusterConfig
    kube: Client
    owner: tuple[int, int]
    _watchers: dict[tuple[ResourceType, str], Watcher] = field(default_factory=dict)

    @classmethod
    async def opened(cls, config: ClusterConfig) -> Session:
        """A session in the running loop."""
        if not structlog.is_configured():
            logs.set_level("critical")  # a program that has no use for our lines gets errors and warnings instead
        kube = Client(config, max_attempts=MAX_ATTEMPTS, user_agent=USER_AGENT, on_warning=_warn)
        await kube.__aenter__()
        return cls(config, kube, here())

    def watcher(self, kind: ResourceType, namespace: str) -> Watcher:
        """The watch of that kind and namespace."""
        found = self._watchers.get((kind, namespace))
        if found is None or found.has_failed:
            found = self._watchers[kind, namespace] = Watcher(self.kube, kind, namespace)
        return found

    async def close(self) -> None:
        """End all connections."""
        for watcher in self._watchers.values():
            await watcher.close()
        self._watchers.clear()
        await self.kube.__aexit__(None, None, None)


def here() -> tuple[int, int]:
    """This process and the running loop."""
    return os.getpid(), id(asyncio.get_running_loop())


def _warn(text: str) -> None:
    warnings.warn(text, PyroclastWarning, stacklevel=2)

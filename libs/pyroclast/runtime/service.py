"""The shell of a service process: logging, health, metrics, signals, supervision, graceful stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from prometheus_client import CollectorRegistry

from pyroclast.kube.client import Client
from pyroclast.runtime.settings import ServiceSettings

__all__ = ["Service", "run_service"]


class Service:
    """What the main coroutine of a service works with."""

    name: str
    settings: ServiceSettings
    metrics: CollectorRegistry
    stopping: asyncio.Event

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `coroutine` as long as the service; if it ends or raises before the service stops, the process ends with a clear line."""
        raise NotImplementedError

    def add_check(self, name: str, check: Callable[[], str | None]) -> None:
        """Add a liveness check: None, or why the process should be restarted."""
        raise NotImplementedError

    def add_ready(self, name: str, check: Callable[[], str | None]) -> None:
        """Add a readiness check: None, or why no work can be done now."""
        raise NotImplementedError

    async def client(self) -> Client:
        """The client of the API server the settings name; waits until that answers, closed when the service ends."""
        raise NotImplementedError


def run_service(name: str, settings: ServiceSettings, main: Callable[[Service], Awaitable[None]]) -> int:
    """Run `main` as a service until it returns, a task of it dies, or SIGTERM or SIGINT; the exit status."""
    raise NotImplementedError

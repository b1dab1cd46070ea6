"""Requests of the server's own controllers, which pass the same steps as client requests, under the controllers' user names."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from pyroclast.resources.backoff import Backoff
from pyroclast_standalone.apiserver.access.authn import service_account_user
from pyroclast_standalone.apiserver.requests.context import Context, User, Wanted
from pyroclast_standalone.apiserver.requests.routes import Query, RequestInfo
from pyroclast_standalone.apiserver.storage.registry import Resource

GARBAGE_COLLECTOR: Final = service_account_user("kube-system", "generic-garbage-collector")
NAMESPACE_CONTROLLER: Final = service_account_user("kube-system", "namespace-controller")

_RETRIES: Final = Backoff(0.1, 10.0)
_log = logging.getLogger(__name__)
K = TypeVar("K", bound=Hashable)


def request(user: User, verb: str, resource: Resource, key: str, now: float) -> Context:
    """Return the context of a controller's request for one object."""
    namespace, _, name = key.rpartition("/")
    path = f"/internal/{resource.qualified}/{key}"
    info = RequestInfo(verb, path, resource.group, resource.version, namespace, resource.plural, name)
    return Context(info, Query({}), {"User-Agent": user.name.rpartition(":")[2]}, b"", user, Wanted(), now)


class KeyedWorker(Generic[K]):
    """Processes keys one after another. A key that fails is tried again with an increasing pause."""

    def __init__(self, name: str, work: Callable[[K], Awaitable[None]]) -> None:
        self._name = name
        self._work = work
        self._waiting: dict[K, None] = {}
        self._failures: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()
        self._is_working = False

    def add(self, key: K) -> None:
        """Process `key` soon. A key that is already queued is not added again."""
        self._waiting[key] = None
        self._wake.set()

    @property
    def is_idle(self) -> bool:
        """Whether no key is being processed, queued, or waiting for a retry."""
        return not self._waiting and not self._is_working and not self._timers

    async def run(self) -> None:
        """Process keys until cancelled."""
        try:
            while True:
                while not self._waiting:
                    self._wake.clear()
                    await self._wake.wait()
                key = next(iter(self._waiting))
                del self._waiting[key]
                self._is_working = True
                try:
                    await self._work(key)
                    self._failures.pop(key, None)
                except Exception as error:  # noqa: BLE001 - top level of a task: logged, and tried again
                    self._retry(key, error)
                finally:
                    self._is_working = False
                await asyncio.sleep(0)
        finally:
            for timer in self._timers.values():
                timer.cancel()

    def add_after(self, key: K, seconds: float) -> None:
        """Process `key` in `seconds`."""
        if key not in self._timers:
            self._timers[key] = asyncio.get_running_loop().call_later(seconds, self._due, key)

    def _retry(self, key: K, error: Exception) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        _log.warning("%s.retry: key=%s failures=%d error=%s", self._name, key, failures + 1, error)
        self.add_after(key, _RETRIES.after(failures))

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

"""An open connection of one client in one process and event loop: requests, and a watch for each kind and namespace in use."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import structlog

from pyroclast.api.keys import DRIVER_ALIVE_UNTIL
from pyroclast.api.types import JOBS, Key, ResourceType
from pyroclast.kube.basics.errors import Conflict, Forbidden, Invalid, KubeError, NotFound
from pyroclast.kube.credentials.config import ClusterConfig
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.lifecycle.times import format_time
from pyroclast.runtime import logs
from pyroclast_client.compilation import Compiled, Surroundings
from pyroclast_client.documents import STORE, SUBMISSION
from pyroclast_client.errors import PyroclastWarning
from pyroclast_client.loops import end
from pyroclast_client.orphans import PendingSecrets, clean_store, note_in_store, remove_orphans
from pyroclast_client.results import Outcome
from pyroclast_client.states import FINISHED
from pyroclast_client.watching import Watcher

MAX_ATTEMPTS: Final = 4  # few, because a person waits
CLOSE_SECONDS: Final = 0.05
ALIVE_SECONDS: Final = 180
BEAT_SECONDS: Final = 50.0  # so that two renewals may fail
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
        self._cleaned: set[str] = set()
        self._watchers: dict[tuple[ResourceType, str], Watcher] = {}
        self._kept: dict[Key, str] = {}  # the UIDs of the Jobs that end with this program
        self._heartbeat: asyncio.Task[None] | None = None

    @property
    def has_failed(self) -> bool:
        """Whether the connection could not be opened. Another one may be."""
        return self._opening.done() and not self._opening.cancelled() and self._opening.exception() is not None

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

    async def own_in_store(self, document: Mapping[str, Any]) -> None:
        """Note in its store that an object is about to be created. Once for each store, remove what deleted ones kept there."""
        metadata = document["metadata"]
        annotations, namespace = metadata.get("annotations") or {}, metadata["namespace"]
        if store := annotations.get(STORE):
            await asyncio.to_thread(note_in_store, self.kube, namespace, store, annotations[SUBMISSION])
            if store not in self._cleaned:
                self._cleaned.add(store)
                await clean_store(self.kube, namespace, store)

    def keep_alive(self, job: Key, uid: str) -> None:
        """Renew the life of a Job that ends with this program, until it has ended."""
        self._kept[job] = uid
        if self._heartbeat is None:
            self._heartbeat = asyncio.get_running_loop().create_task(self._beat())

    async def _beat(self) -> None:
        while self._kept:
            await asyncio.sleep(BEAT_SECONDS)
            for job, uid in list(self._kept.items()):
                annotations = {DRIVER_ALIVE_UNTIL: alive_until(self.kube)}
                try:
                    patch = {"metadata": {"uid": uid, "annotations": annotations}}
                    found = await self.kube.patch(JOBS, job, patch, PatchKind.MERGE)
                except (NotFound, Conflict, Invalid, Forbidden):  # it was deleted, and maybe another Job has its name
                    del self._kept[job]
                except KubeError as error:
                    _warn(f"Job {job} ends in {ALIVE_SECONDS} s unless it is renewed before: {error}")
                else:
                    if ((found.get("status") or {}).get("state") or {}).get("phase") in FINISHED:
                        del self._kept[job]
        self._heartbeat = None

    def watcher(self, kind: ResourceType, namespace: str) -> Watcher:
        """Return the shared watch of a kind in a namespace."""
        watcher = self._watchers.get((kind, namespace))
        if watcher is None or watcher.has_failed:
            watcher = self._watchers[kind, namespace] = Watcher(self.kube, kind, namespace)
        return watcher

    async def close(self) -> None:
        """Close all connections."""
        await self._opening
        if self._heartbeat is not None:
            await end([self._heartbeat])
        for watcher in self._watchers.values():
            await watcher.close()
        self._watchers.clear()
        await self.kube.__aexit__(None, None, None)
        await asyncio.sleep(CLOSE_SECONDS)  # TLS connections close in the event loop, which may end now


def alive_until(kube: Client) -> str:
    """Return until when a program that submits or renews a Job counts as alive."""
    return format_time(kube.now() + ALIVE_SECONDS)


def here() -> tuple[int, int]:
    """Return the process id and the id of the running event loop."""
    return os.getpid(), id(asyncio.get_running_loop())


def _warn(text: str) -> None:
    warnings.warn(text, PyroclastWarning, stacklevel=2)


class Submitted(Protocol):
    """A Job that the client itself submitted, to read a store."""

    async def wait(self, *, fail_if_never: bool, check: bool) -> object:
        """Wait until the Job ends."""
        ...

    async def outcomes(self) -> Sequence[Outcome]:
        """Return the outcome of each call."""
        ...

    async def delete(self) -> None:
        """Delete the Job and its Secret."""
        ...


class Connection(Protocol):
    """The interface of a client that handles use."""

    @property
    def surroundings(self) -> Surroundings:
        """The namespace and defaults that the client adds to the calls of functions."""
        ...

    async def session(self) -> Session:
        """Return the open connection of this process and event loop."""
        ...

    async def submit_compiled(self, made: Compiled) -> Submitted:
        """Submit a compiled Job."""
        ...


class Handle:
    """An object in the cluster, identified by namespace, name and UID. The handle can be pickled and used in another process."""

    def __init__(self, client: Connection, namespace: str, name: str, uid: str) -> None:
        self.client = client
        self.namespace = namespace
        self.name = name
        self.uid = uid

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.namespace}/{self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.client, self.namespace, self.name, self.uid)

    @property
    def key(self) -> Key:
        """The namespace and name of the object."""
        return Key(self.namespace, self.name)

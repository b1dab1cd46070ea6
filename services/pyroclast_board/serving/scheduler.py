"""Requests from the scheduler why a Job waits, and whether a new one would start.

Only the leader among the replicas behind the DNS name can answer, and the leader changes.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit

import orjson

from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import ApiError, KubeError
from pyroclast.kube.credentials.authorization import Anonymous, TokenFile
from pyroclast.kube.credentials.config import ClusterConfig
from pyroclast.kube.http.client import Client
from pyroclast.runtime.access import Remembered
from pyroclast_board.pages.base import Scope

SECONDS: Final = 2.0
WHAT_IF_SECONDS: Final = 20.0
"""For simulations of all waiting Jobs, of which each step waits for the end of a session."""
RESOLVE_SECONDS: Final = 10.0
MOST_REPLICAS: Final = 64
ELSEWHERE: Final = frozenset({404, 503})
"""The statuses of a standby replica, and of a replica without the requested Job. Another replica may answer."""


class Peers:
    """Requests the addresses of a name one after another until one answers. The address that answered last is first.

    With https, the certificate must have the name, so that only the name is requested. Used as a context manager.
    """

    def __init__(self, url: str, token_file: str) -> None:
        self._url = url
        self._credentials = TokenFile(Path(token_file)) if token_file else Anonymous()
        self._clients: dict[str, Client] = {}
        self._order: list[str] = []
        self._resolved_at = float("-inf")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients.values():
            await client.__aexit__()

    async def ask(
        self, path: str, query: Mapping[str, str], body: bytes | None = None, *, seconds: float = SECONDS
    ) -> tuple[int, bytes] | None:
        """Return the status and body of an answer. None when no replica answers. With `body`, the request is a POST."""
        await self._resolve()
        answer: tuple[int, bytes] | None = None
        deadline = Deadline.after(seconds)
        for url in list(self._order):
            try:
                verb = "GET" if body is None else "POST"
                answered = await self._clients[url].request(verb, path, query=query, body=body, deadline=deadline)
            except ApiError as error:
                refusal = error.status, orjson.dumps({"message": error.message})
                if error.status not in ELSEWHERE:
                    return refusal
                if answer is None or answer[0] == 503:
                    answer = refusal
            except KubeError:
                continue
            else:
                self._order.remove(url)
                self._order.insert(0, url)
                return 200, answered
        return None if answer is None or answer[0] == 503 else answer

    async def _resolve(self) -> None:
        """Resolve the name again from time to time. When the resolution fails, the known addresses stay."""
        if time.monotonic() < self._resolved_at + RESOLVE_SECONDS:
            return
        urls = await _addresses(self._url)
        self._resolved_at = time.monotonic()
        if not urls:
            return
        for url in set(self._clients) - set(urls):
            await self._clients.pop(url).__aexit__()
        for url in urls:
            if url not in self._clients:
                config = ClusterConfig(url, credentials=self._credentials)
                self._clients[url] = await Client(config, max_attempts=1, user_agent="pyroclast-board").__aenter__()
        self._order = sorted(urls, key=lambda url: self._order.index(url) if url in self._order else len(self._order))


async def _addresses(url: str) -> list[str]:
    """Return the URL of each address of the name in `url`; with https the URL itself, as its certificate needs the name."""
    split = urlsplit(url)
    if split.scheme != "http" or split.hostname is None:
        return [url]
    port = split.port or 80
    try:
        addresses = await asyncio.get_running_loop().getaddrinfo(split.hostname, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    hosts = dict.fromkeys(str(address[0]) for _, _, _, _, address in addresses)
    return [f"http://{f'[{host}]' if ':' in host else host}:{port}{split.path}" for host in hosts][:MOST_REPLICAS]


PREFIX: Final = "/explain/"
FRESH_SECONDS: Final = 1.0
AWAY_SECONDS: Final = 10.0
ENDS_SECONDS: Final = 10.0
MOST: Final = 1_000
MOST_NAMESPACES: Final = 200
"""Most namespaces in a request, by the size of its header. Jobs of further namespaces are counted, but not named."""


class Scheduler:
    """Client of the scheduler, used as a context manager. Without a URL, pages explain from objects alone."""

    def __init__(self, url: str, token_file: str = "") -> None:
        self._peers = Peers(url, token_file) if url else None
        self._known = Remembered(FRESH_SECONDS, MOST)
        self._away_until = 0.0
        self._ends_asked = float("-inf")
        self._ends: dict[tuple[str, str], tuple[float, str]] | None = None

    async def __aenter__(self) -> Self:
        if self._peers is not None:
            await self._peers.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._peers is not None:
            await self._peers.__aexit__()

    async def explanation(self, scope: Scope, namespace: str, name: str, kind: str = "jobs") -> dict[str, Any] | None:
        """Return the `Explanation` document of a Job, or of a native PodGroup if `kind` is `podgroups`.

        None when the scheduler does not know the object or does not answer.
        """
        path = f"{kind}/{quote(namespace, safe='')}/{quote(name, safe='')}"
        answer = await self.ask(scope, path, {"changes": "true"})
        return None if answer is None or answer[0] != 200 else dict(orjson.loads(answer[1]))

    async def order(self, scope: Scope, queue: str, *, most: int) -> list[dict[str, Any]] | None:
        """Return the waiting Jobs of a queue in order, up to `most`. None when the scheduler does not answer."""
        answer = await self.ask(scope, f"queues/{quote(queue, safe='')}", {"limit": str(most)})
        return None if answer is None or answer[0] != 200 else list(orjson.loads(answer[1])["items"])

    async def ends(self) -> dict[tuple[str, str], tuple[float, str]] | None:
        """Return when running Jobs end, in seconds since the epoch, and the basis, by namespace and name. None without an answer.

        The answer has Jobs of all namespaces, so pages may only show the ends of Jobs that the viewer may see.
        """
        if time.monotonic() > self._ends_asked + ENDS_SECONDS:
            self._ends_asked = time.monotonic()
            answer = await self.ask(Scope(is_all=True), "ends", {})
            items = None if answer is None or answer[0] != 200 else orjson.loads(answer[1])["items"]
            self._ends = items and {
                (each["namespace"], each["name"]): (datetime.fromisoformat(each["until"]).timestamp(), each["basis"])
                for each in items
            }
        return self._ends

    async def ask(self, scope: Scope, path: str, query: Mapping[str, str]) -> tuple[int, bytes] | None:
        """Return the status and JSON of an answer, which names only Jobs of the namespaces in `scope`. None without an answer.

        Equal requests within a second share one answer.
        """
        if self._peers is None or time.monotonic() < self._away_until:
            return None
        key = (path, scope, tuple(sorted(query.items())))
        answer: tuple[int, bytes] | None = self._known.get(key)
        if answer is None:
            answer = await self._request(scope, path, query)
            if answer is None:
                self._away_until = time.monotonic() + AWAY_SECONDS
            else:
                self._known.put(key, answer)
        return answer

    async def fits(self, scope: Scope, body: bytes) -> tuple[int, bytes] | None:
        """Return the status and JSON of the answer whether the Job in `body` would start. None without an answer."""
        return await self._request(scope, "fits", {}, body)

    async def what_if(self, scope: Scope, body: bytes) -> tuple[int, bytes] | None:
        """Return the status and JSON of the answer what the change in `body` would do. None without an answer."""
        return await self._request(scope, "what-if", {}, body, seconds=WHAT_IF_SECONDS)

    async def _request(
        self, scope: Scope, path: str, query: Mapping[str, str], body: bytes | None = None, *, seconds: float = SECONDS
    ) -> tuple[int, bytes] | None:
        if self._peers is None:
            return None
        only = {} if scope.is_all else {"namespaces": ",".join(sorted(scope.namespaces)[:MOST_NAMESPACES])}
        return await self._peers.ask(PREFIX + path, {**query, **only}, body, seconds=seconds)

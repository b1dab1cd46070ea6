"""Requests from the scheduler why a Job waits, its place in the order, its estimated start, and which changes would help."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, Self
from urllib.parse import quote

import orjson

from pyroclast_board.pages.base import Scope
from pyroclast_board.serving.peers import Peers

PREFIX: Final = "/explain/"
FRESH_SECONDS: Final = 1.0
AWAY_SECONDS: Final = 10.0
MOST: Final = 1_000
MOST_NAMESPACES: Final = 200
"""Most namespaces in a request, by the size of its header. Jobs of further namespaces are counted, but not named."""


class Scheduler:
    """Client of the scheduler. The object must be entered as a context manager before use.

    Args:
        url: the URL of a scheduler, which answers `/explain/…`. Empty to explain from objects alone.
        token_file: a file with a token for the scheduler alone. Empty when no token is sent.
    """

    def __init__(self, url: str, token_file: str = "") -> None:
        self._peers = Peers(url, token_file) if url else None
        self._known: OrderedDict[tuple[str, Scope, tuple[tuple[str, str], ...]], tuple[float, tuple[int, bytes]]] = OrderedDict()
        self._away_until = 0.0

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

    async def ask(self, scope: Scope, path: str, query: Mapping[str, str]) -> tuple[int, bytes] | None:
        """Return the status and JSON of an answer, which names only Jobs of the namespaces in `scope`. None without an answer.

        Equal requests within a second share one answer.
        """
        if self._peers is None or time.monotonic() < self._away_until:
            return None
        key = (path, scope, tuple(sorted(query.items())))
        asked_at, answer = self._known.get(key, (float("-inf"), (0, b"")))
        if time.monotonic() - asked_at <= FRESH_SECONDS:
            return answer
        asked = await self._request(scope, path, query)
        if asked is None:
            self._away_until = time.monotonic() + AWAY_SECONDS
            return None
        answer = asked
        self._known[key] = (time.monotonic(), answer)
        self._known.move_to_end(key)
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        return answer

    async def fits(self, scope: Scope, body: bytes) -> tuple[int, bytes] | None:
        """Return the status and JSON of the answer whether the Job in `body` would start. None without an answer."""
        return await self._request(scope, "fits", {}, body)

    async def _request(
        self, scope: Scope, path: str, query: Mapping[str, str], body: bytes | None = None
    ) -> tuple[int, bytes] | None:
        if self._peers is None:
            return None
        only = {} if scope.is_all else {"namespaces": ",".join(sorted(scope.namespaces)[:MOST_NAMESPACES])}
        return await self._peers.ask(PREFIX + path, {**query, **only}, body)

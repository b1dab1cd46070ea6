"""Asks the scheduler why a Job waits: its own order, when the Job may start, and which changes were proved to help."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, Self
from urllib.parse import quote

import orjson

from pyroclast_board.pages.base import Scope
from pyroclast_board.serving.peers import Peers

__all__ = ["Scheduler"]

PREFIX: Final = "/explain/"
FRESH_SECONDS: Final = 1.0
AWAY_SECONDS: Final = 10.0
MOST: Final = 1_000
MOST_NAMESPACES: Final = 200
"""More do not fit into the head of a request; the others' Jobs are counted then."""


class Scheduler:
    """The scheduler, where it is known. To be entered before it is asked.

    Args:
        url: of a scheduler, which answers `/explain/…`; empty: objects must do.
        token_file: a token that it takes, made for it alone; empty: none is sent.
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
        """The document `Explanation` of a Job, or of a PodGroup by its own name, where `kind` is `podgroups`.

        None where the scheduler knows nothing of it, or does not answer.
        """
        path = f"{kind}/{quote(namespace, safe='')}/{quote(name, safe='')}"
        answer = await self.ask(scope, path, {"changes": "true"})
        return None if answer is None or answer[0] != 200 else dict(orjson.loads(answer[1]))

    async def ask(self, scope: Scope, path: str, query: Mapping[str, str]) -> tuple[int, bytes] | None:
        """Status and JSON of an answer, which names Jobs of the namespaces in `scope` only; None where nobody answers.

        All who ask the same within a second share an answer.
        """
        if self._peers is None or time.monotonic() < self._away_until:
            return None
        key = (path, scope, tuple(sorted(query.items())))
        asked_at, answer = self._known.get(key, (float("-inf"), (0, b"")))
        if time.monotonic() - asked_at <= FRESH_SECONDS:
            return answer
        only = {} if scope.is_all else {"namespaces": ",".join(sorted(scope.namespaces)[:MOST_NAMESPACES])}
        found = await self._peers.ask(PREFIX + path, {**query, **only})
        if found is None:
            self._away_until = time.monotonic() + AWAY_SECONDS
            return None
        answer = found
        self._known[key] = (time.monotonic(), answer)
        self._known.move_to_end(key)
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        return answer

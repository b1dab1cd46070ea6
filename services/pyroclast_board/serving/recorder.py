"""Requests history from the recorder, with the board's own token and for the namespaces that the viewer may see."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

import orjson

from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import ApiError, ConnectionFailed
from pyroclast.kube.credentials.authorization import Anonymous, TokenFile
from pyroclast.kube.credentials.config import ClusterConfig
from pyroclast.kube.http.client import Client
from pyroclast.runtime.access import Remembered
from pyroclast_board.pages.base import BadRequest, Scope

PREFIX: Final = "/api/v1/"
SECONDS: Final = 5.0
SERIES_SECONDS: Final = 20.0
MOST_SERIES: Final = 64
MOST_NAMESPACES: Final = 200
"""Most namespaces in one request to the recorder."""


class RecorderAway(Exception):
    """The history is not available. The message says why."""


class Recorder:
    """Client of the recorder, used as a context manager. The URL is empty when there is no recorder."""

    def __init__(self, url: str, token_file: str) -> None:
        self._series = Remembered(SERIES_SECONDS, MOST_SERIES)
        credentials = TokenFile(Path(token_file)) if token_file else Anonymous()
        self._client = (
            Client(ClusterConfig(url, credentials=credentials), max_attempts=1, user_agent="pyroclast-board") if url else None
        )

    async def __aenter__(self) -> Self:
        if self._client is not None:
            await self._client.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.__aexit__()

    async def job(self, scope: Scope, uid: str) -> dict[str, Any] | None:
        """Return the recorder's entry for a Job. None when the recorder has no entry or the viewer may not see it."""
        record = await self._ask(f"uids/{quote(uid, safe='')}", {})
        job = next(iter(record.get("items", ())), None)
        return job if job is not None and scope.sees(job["namespace"]) else None

    async def runs(self, namespace: str, name: str) -> list[dict[str, Any]]:
        """Return all Jobs that have had a name, newest first."""
        parsed = await self._ask(f"jobs/{quote(namespace, safe='')}/{quote(name, safe='')}", {})
        return list(parsed.get("items", ()))

    async def series(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return what queues and nodes had over time. Equal questions within a short time share one answer."""
        key = tuple(sorted(query.items()))
        answer: dict[str, Any] | None = self._series.get(key)
        if answer is None:
            answer = await self._ask("series", query)
            self._series.put(key, answer)
        return answer

    async def ask(self, scope: Scope, what: str, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the answer to a question for the namespaces that the viewer may see; `left`: how many of them it leaves out."""
        if scope.is_all:
            return await self._ask(what, query)
        wanted = scope.namespaces & {query["namespace"]} if query.get("namespace") else scope.namespaces
        if not wanted:
            return {"items": []}
        some = sorted(wanted)[:MOST_NAMESPACES]
        answer = await self._ask(what, {**query, "namespaces": ",".join(some)})
        return {**answer, "left": len(wanted) - len(some)}

    async def _ask(self, what: str, query: Mapping[str, str]) -> dict[str, Any]:
        if self._client is None:
            raise RecorderAway("there is no history: the board was not told where the recorder is (--recorder-url)")
        try:
            answer = await self._client.request("GET", PREFIX + what, query=query, deadline=Deadline.after(SECONDS))
            parsed: dict[str, Any] = orjson.loads(answer)
        except ApiError as error:
            if error.status == 404:
                return {}
            if error.status == 400:
                raise BadRequest(error.message) from error
            raise RecorderAway(f"there is no history: the recorder refuses: {error.message}") from error
        except (TimeoutError, ConnectionFailed, orjson.JSONDecodeError) as error:
            raise RecorderAway(f"there is no history now: the recorder does not answer: {error}") from error
        return parsed

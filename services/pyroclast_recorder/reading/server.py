"""The read-only HTTP API for history and reports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

import orjson
import structlog
from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from pyroclast.lifecycle.times import format_time
from pyroclast.runtime.access import Access, Denied, Reader
from pyroclast.runtime.listener import Listener
from pyroclast_recorder.database.database import Database, DatabaseUnavailable
from pyroclast_recorder.reading import queries
from pyroclast_recorder.reading.questions import (
    BadQuestion,
    chosen_namespaces,
    history_question,
    minutes_question,
    usage_question,
    whole_hours,
    window,
)

log = structlog.get_logger()

PREFIX: Final = "/api/v1/"
HEADER_BYTES: Final = 16 * 1024

Answer = dict[str, Any]


class HistoryServer:
    """Serves `GET /api/v1/…`: `jobs`, `jobs/NAMESPACE/NAME`, `uids/UID`, `usage`, `cluster`, `waits`,
    `estimates`, `queues/QUEUE`.

    Args:
        database: the database that is queried.
        access: determines which namespaces a user may read.
        now: returns the time in seconds by the clock of the API server.
        settle: adds up usage until about now.
    """

    def __init__(
        self, database: Database, access: Access, now: Callable[[], float], settle: Callable[[], Awaitable[None]]
    ) -> None:
        self._database, self._access, self._now, self._settle = database, access, now, settle
        self._listener = Listener(self._handle, max_field_size=HEADER_BYTES, shutdown_timeout=5.0)

    async def start(self, address: str) -> None:
        """Start to listen on `address`.

        Raises:
            StartFailure: the server cannot listen on `address`.
        """
        await self._listener.start_at(address, "--api-address")

    @property
    def port(self) -> int:
        """The port on which the server listens."""
        return self._listener.port

    async def stop(self) -> None:
        """Finish the pending requests, then close the server."""
        await self._listener.stop()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method not in {"GET", "HEAD"}:
            return _error(405, "history can only be read")
        try:
            answer = await self._answer(request)
        except BadQuestion as error:
            return _error(400, str(error))
        except Denied as error:
            return _error(error.status, str(error))
        except DatabaseUnavailable as error:
            log.warning("recorder.not_answered", path=request.path, error=str(error))
            return _error(503, "the database of the recorder does not answer now")
        if answer is None:
            return _error(404, f"there is no {request.path[:200]}")
        return web.Response(body=orjson.dumps(answer), content_type="application/json")

    async def _answer(self, request: web.BaseRequest) -> Answer | None:
        if not request.path.startswith(PREFIX):
            return None
        reader = await self._access.reader(request)
        match request.path.removeprefix(PREFIX).split("/"):
            case ["jobs"]:
                return await self._history(request, reader)
            case ["jobs", namespace, name]:
                return await self._job(reader, namespace, name)
            case ["uids", uid]:
                return await self._uid(reader, uid)
            case ["usage"]:
                return await self._usage(request, reader)
            case ["cluster"]:
                return await self._cluster(request)
            case ["queues", queue]:
                return await self._minutes(request, queue)
            case ["waits"]:
                return await self._waits(request, reader)
            case ["estimates"]:
                return await self._estimates(request, reader)
        return None

    async def _history(self, request: web.BaseRequest, reader: Reader) -> Answer:
        now = int(self._now())
        question = history_question(request.query, now)
        async with self._database.reading() as connection:
            visible = await self._visible(connection, reader, question.namespaces)
            items, is_cut = await queries.history(connection, self._database.cluster, question, visible, now)
        return {"items": items, "isCut": is_cut}

    async def _job(self, reader: Reader, namespace: str, name: str) -> Answer:
        if not await reader.visible([namespace]):
            raise Denied(403, f"you may not list jobs.batch.volcano.sh in namespace {namespace[:64]}")
        async with self._database.reading() as connection:
            return {"items": await queries.tries(connection, self._database.cluster, namespace, name, int(self._now()))}

    async def _uid(self, reader: Reader, uid: str) -> Answer | None:
        """Return the Job with this uid; None when there is no such Job or the user may not read it."""
        async with self._database.reading() as connection:
            cluster, now = self._database.cluster, int(self._now())
            key = await queries.key_of(connection, cluster, uid)
            if key is None or not await reader.visible([key.namespace]):
                return None
            items = await queries.tries(connection, cluster, key.namespace, key.name, now)
            return {"items": [each for each in items if each["uid"] == uid]}

    async def _usage(self, request: web.BaseRequest, reader: Reader) -> Answer:
        question = usage_question(request.query, int(self._now()))
        await self._settle()
        async with self._database.reading() as connection:
            used = await queries.used_namespaces(connection, self._database.cluster, question.since, question.until)
            visible = await self._visible(connection, reader, question.namespaces, used)
            items = await queries.usage(connection, self._database.cluster, question, visible)
            gap = await queries.gap_seconds(connection, self._database.cluster, question.since, question.until)
        return {"by": list(question.by), "items": items, "gapSeconds": gap}

    async def _waits(self, request: web.BaseRequest, reader: Reader) -> Answer:
        since, until = window(request.query, int(self._now()))
        async with self._database.reading() as connection:
            visible = await self._visible(connection, reader, chosen_namespaces(request.query))
            return {"items": await queries.waits(connection, self._database.cluster, since, until, visible)}

    async def _estimates(self, request: web.BaseRequest, reader: Reader) -> Answer:
        since, until = window(request.query, int(self._now()))
        async with self._database.reading() as connection:
            visible = await self._visible(connection, reader, chosen_namespaces(request.query))
            return {"items": await queries.estimates(connection, self._database.cluster, since, until, visible)}

    async def _cluster(self, request: web.BaseRequest) -> Answer:
        """Return the report of the cluster. Every user may read it, because its sums over all namespaces name no user."""
        now = int(self._now())
        since, until = whole_hours(*window(request.query, now), now)
        await self._settle()
        async with self._database.reading() as connection:
            items = await queries.cluster_use(connection, self._database.cluster, since, until)
        return {"since": format_time(since), "until": format_time(until), "items": items}

    async def _minutes(self, request: web.BaseRequest, queue: str) -> Answer:
        """Return the minutes of a queue. Every user may read them, because they are sums over all namespaces."""
        question = minutes_question(request.query, int(self._now()))
        async with self._database.reading() as connection:
            items, is_cut = await queries.minutes(connection, self._database.cluster, queue, question)
        return {"items": items, "isCut": is_cut}

    async def _visible(
        self, connection: AsyncConnection, reader: Reader, only: Collection[str], known: Collection[str] | None = None
    ) -> list[str]:
        """Return the namespaces of `known` that the user may read, limited to `only` unless `only` is empty.

        `known` None stands for all namespaces with recorded Jobs.
        """
        if known is None:
            known = await queries.namespaces(connection, self._database.cluster)
        return await reader.visible([each for each in known if not only or each in only])


def _error(status: int, message: str) -> web.Response:
    return web.Response(status=status, body=orjson.dumps({"message": message}), content_type="application/json")

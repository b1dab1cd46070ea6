"""The read-only HTTP API for history and reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import orjson
import structlog
from aiohttp import web

from pyroclast.api.types import Key
from pyroclast.lifecycle.times import format_time
from pyroclast.runtime.access import Access, Denied, Reader
from pyroclast.runtime.listener import Listener
from pyroclast_recorder.database.connections import ANSWER_SECONDS, DatabaseUnavailable, TooSlow
from pyroclast_recorder.database.database import WRITTEN, Database, cursor_time
from pyroclast_recorder.reading import queries
from pyroclast_recorder.reading.actions import actions
from pyroclast_recorder.reading.questions import (
    BadQuestion,
    chosen_namespaces,
    history_question,
    series_question,
    usage_question,
    whole_hours,
    window,
)
from pyroclast_recorder.reading.series import series

log = structlog.get_logger()

PREFIX: Final = "/api/v1/"
HEADER_BYTES: Final = 16 * 1024
AT_ONCE_PER_USER: Final = 2  # half of the connections for requests
MOST_NAMESPACES: Final = 1000
"""Most namespaces about which the API server is asked for one request of a user who may not read all."""

BEHIND_SECONDS: Final = 180.0
"""After this time without a write, answers say that later changes are not known."""

Answer = dict[str, Any]
T = TypeVar("T")


class HistoryServer:
    """Serves `GET /api/v1/…`: `jobs`, `jobs/NAMESPACE/NAME`, `uids/UID`, `usage`, `cluster`, `waits`, `estimates`,
    `evictions`, `series`, `actions`.

    `access`: determines which namespaces a user may read. `complaint`: returns why this replica records nothing now, or None.
    """

    def __init__(
        self,
        database: Database,
        access: Access,
        now: Callable[[], float],
        settle: Callable[[], Awaitable[None]],
        complaint: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._database, self._access, self._now, self._settle = database, access, now, settle
        self._complaint = complaint
        self._settling: asyncio.Future[None] | None = None
        self._turns: dict[str, tuple[asyncio.Semaphore, int]] = {}
        self._listener = Listener(self._handle, max_field_size=HEADER_BYTES, shutdown_timeout=5.0, handler_cancellation=True)

    async def start(self, address: str) -> None:
        """Start to listen on `address`. Raises StartFailure: the server cannot listen on `address`."""
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
        except TooSlow:
            log.warning("recorder.answer_too_slow", path=request.path, query=request.query_string[:200])
            return _error(
                503, f"the answer takes longer than {ANSWER_SECONDS:g} s; ask for a shorter time or with a smaller limit"
            )
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
        async with self._turn(reader.name):
            answer = await self._answer_to(request, reader)
            return None if answer is None else answer | await self._known()

    async def _known(self) -> Answer:
        """Return until when the answers are known, and why they are not known until now; None if they are."""
        until = await self._ask(cursor_time, WRITTEN)
        why = self._complaint()
        if why is None and until is not None and self._now() - until > BEHIND_SECONDS:
            why = "the recorder has written nothing since then"
        behind = None if why is None else f"history is known until {format_time(until) if until else 'its begin'} only: {why}"
        return {"knownUntil": None if until is None else format_time(until), "behind": behind}

    @asynccontextmanager
    async def _turn(self, user: str) -> AsyncIterator[None]:
        """Answer at most `AT_ONCE_PER_USER` requests of one user at a time, so that other users find a connection."""
        semaphore, count = self._turns.get(user, (asyncio.Semaphore(AT_ONCE_PER_USER), 0))
        self._turns[user] = semaphore, count + 1
        try:
            async with semaphore:
                yield
        finally:
            _, count = self._turns[user]
            if count == 1:
                del self._turns[user]
            else:
                self._turns[user] = semaphore, count - 1

    async def _answer_to(self, request: web.BaseRequest, reader: Reader) -> Answer | None:
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
            case ["actions"]:
                question = history_question(request.query, int(self._now()))
                visible = await self._visible(reader, question.namespaces)
                items, is_cut = await self._ask(actions, question, visible)
                return {"items": items, "isCut": is_cut}
            case ["series"]:
                asked = series_question(request.query, int(self._now()))
                return await self._ask(series, asked, int(self._now()))
            case ["waits"]:
                return await self._started(queries.waits, request, reader)
            case ["estimates"]:
                return await self._started(queries.estimates, request, reader)
            case ["evictions"]:
                return await self._started(queries.evictions, request, reader)
        return None

    async def _history(self, request: web.BaseRequest, reader: Reader) -> Answer:
        now = int(self._now())
        question = history_question(request.query, now)
        visible = await self._visible(reader, question.namespaces)
        items, is_cut = await self._ask(queries.history, question, visible, now)
        gap = await self._ask(queries.gap_seconds, question.since, question.until, "jobs.batch.volcano.sh")
        return {"items": items, "isCut": is_cut, "gapSeconds": gap}

    async def _job(self, reader: Reader, namespace: str, name: str) -> Answer:
        if not await reader.visible([namespace]):
            raise Denied(403, f"you may not list jobs.batch.volcano.sh in namespace {namespace[:64]}")
        return {"items": await self._tries(Key(namespace, name))}

    async def _tries(self, key: Key) -> list[dict[str, Any]]:
        now = int(self._now())
        return await self._ask(queries.tries, key.namespace, key.name, now)

    async def _uid(self, reader: Reader, uid: str) -> Answer | None:
        """Return the Job with this uid; None when there is no such Job or the user may not read it."""
        key = await self._ask(queries.key_of, uid)
        if key is None or not await reader.visible([key.namespace]):
            return None
        return {"items": [each for each in await self._tries(key) if each["uid"] == uid]}

    async def _usage(self, request: web.BaseRequest, reader: Reader) -> Answer:
        question = usage_question(request.query, int(self._now()))
        await self._settled()
        times = (question.since, question.until)
        used = await self._ask(queries.used_namespaces, *times)
        visible = await self._visible(reader, question.namespaces, used)
        items = await self._ask(queries.usage, question, visible)
        gap = await self._ask(queries.gap_seconds, *times)
        return {"by": list(question.by), "items": items, "gapSeconds": gap}

    async def _started(self, query: Callable[..., Awaitable[Any]], request: web.BaseRequest, reader: Reader) -> Answer:
        """Return the answer of a query about the Jobs that started, or the pods that ended, between two times."""
        since, until = window(request.query, int(self._now()))
        visible = await self._visible(reader, chosen_namespaces(request.query))
        gap = await self._ask(queries.gap_seconds, since, until)
        return {"items": await self._ask(query, since, until, visible), "gapSeconds": gap}

    async def _cluster(self, request: web.BaseRequest) -> Answer:
        """Return the report of the cluster. Every user may read it, because its sums over all namespaces name no user."""
        now = int(self._now())
        since, until = whole_hours(*window(request.query, now), now)
        await self._settled()
        items = await self._ask(queries.cluster_use, since, until)
        return {"since": format_time(since), "until": format_time(until), "items": items}

    async def _ask(self, query: Callable[..., Awaitable[T]], *values: object) -> T:
        """Return the answer of a query of this cluster."""
        return await self._database.answer(lambda connection: query(connection, self._database.cluster, *values))

    async def _settled(self) -> None:
        """Add up usage. The work goes on when the request that began it is over, because other requests need it too.

        While the database takes no rows, the answer is what was added up before. Raises TooSlow: adding up takes longer than an
        answer may.
        """
        if self._settling is None or self._settling.done():
            self._settling = asyncio.ensure_future(self._settle())
        await asyncio.wait([self._settling], timeout=ANSWER_SECONDS)
        if not self._settling.done():
            raise TooSlow
        try:
            self._settling.result()
        except DatabaseUnavailable as error:
            log.warning("recorder.not_settled", error=str(error))

    async def _visible(self, reader: Reader, only: Collection[str], known: Collection[str] | None = None) -> list[str]:
        """Return the namespaces of `known` that the user may read, limited to `only` unless `only` is empty.

        `known` None stands for all namespaces with recorded Jobs. Raises Denied: the API server would be asked about too many.
        """
        if known is None:
            known = await self._ask(queries.namespaces)
        asked = [each for each in known if not only or each in only]
        if len(asked) > MOST_NAMESPACES and not await reader.sees_all():
            message = (
                f"this concerns {len(asked)} namespaces, each of which costs a question to the API server; name some: namespaces="
            )
            raise Denied(400, message)
        return await reader.visible(asked)


def _error(status: int, message: str) -> web.Response:
    return web.Response(status=status, body=orjson.dumps({"message": message}), content_type="application/json")

"""`GET /explain/…`: why a Job waits, and who waits in a queue, answered from what the last sessions found out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson

from pyroclast.runtime.access import Access, Denied, Reader
from pyroclast_scheduler.explaining.answers import Answerer, answer_of, queue_rows
from pyroclast_scheduler.explaining.book import WaitingEntry
from pyroclast_scheduler.model.job_facts import JobFacts

if TYPE_CHECKING:
    from aiohttp import web  # a scheduler that serves nothing needs none of it

__all__ = ["PATH", "ExplainServer", "finder"]

PATH: Final = "explain"
AT_ONCE: Final = 4
MOST_ROWS: Final = 1000
_ROWS: Final = 100
_MOST_OFFSET: Final = 10_000_000

Changes = Callable[[str], Awaitable[dict[str, Any]]]
"""Changes of a job, by the key of its PodGroup, that were proved to help; fields of the answer."""


class BadQuestion(ValueError):
    """The question makes no sense; the text says what would."""


class ExplainServer:
    """Answers requests below `/explain/`.

    Args:
        source: what answers are made from, as of now.
        find: the key of the PodGroup of a Job by namespace and name, or of a PodGroup by its own name; empty for none.
        access: says who may read what.
        changes: finds out which changes would help; asked for with `changes=true`.
    """

    def __init__(
        self, source: Callable[[], Answerer], find: Callable[[str, str], str], access: Access, changes: Changes | None = None
    ) -> None:
        self._source, self._find, self._access, self._changes = source, find, access, changes
        self._busy = 0

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer to a request; more than a few at once are sent away."""
        if request.method not in {"GET", "HEAD"}:
            return _error(405, "explanations can only be read")
        if self.is_busy:
            return _error(429, f"{AT_ONCE} explanations are being worked out; ask again in a second", {"Retry-After": "1"})
        self._busy += 1
        try:
            answer = await self._answer(request, await self._access.reader(request))
        except BadQuestion as error:
            return _error(400, str(error))
        except Denied as error:
            return _error(error.status, str(error))
        finally:
            self._busy -= 1
        if answer is None:
            return _error(404, f"no session has found out of {request.path[:200]} that it waits")
        return _response(200, answer)

    @property
    def is_busy(self) -> bool:
        """Whether as many answers are being worked out as may be at once."""
        return self._busy >= AT_ONCE

    async def _answer(self, request: web.BaseRequest, reader: Reader) -> dict[str, Any] | None:
        match request.path.strip("/").split("/"):
            case [_, "jobs", namespace, name]:
                return await self._job(request.query, reader, namespace, name)
            case [_, "queues", queue]:
                return await self._queue(request.query, reader, queue)
        return None

    async def _job(self, query: Mapping[str, str], reader: Reader, namespace: str, name: str) -> dict[str, Any] | None:
        if not await reader.visible([namespace]):
            raise Denied(403, f"you may not list jobs.batch.volcano.sh in namespace {namespace[:64]}")
        source = self._source()
        key = self._find(namespace, name)
        entry = source.book.get(key)
        if entry is None:
            return None
        visible = await self._visible(reader, source, entry, query)
        answer = answer_of(source, entry, visible.__contains__)
        if self._changes is not None and query.get("changes") == "true":
            answer |= await self._changes(key)
        return answer

    async def _visible(self, reader: Reader, source: Answerer, entry: WaitingEntry, query: Mapping[str, str]) -> frozenset[str]:
        """The namespaces whose Jobs are named: those that the asker may see, on demand only some of these."""
        found = frozenset(await reader.visible(source.namespaces(entry)))
        only = query.get("namespaces")
        return found if only is None else found & set(only.split(","))

    async def _queue(self, query: Mapping[str, str], reader: Reader, queue: str) -> dict[str, Any]:
        limit = _number(query, "limit", _ROWS, least=1, most=MOST_ROWS)
        offset = _number(query, "offset", 0, least=0, most=_MOST_OFFSET)
        source = self._source()
        keys = [each.key for each in source.book.between(queue, offset, offset + limit)]
        visible = frozenset(await reader.visible(dict.fromkeys(key.partition("/")[0] for key in keys)))
        only = query.get("namespaces")
        if only is not None:
            visible &= set(only.split(","))
        return queue_rows(source, queue, visible.__contains__, offset, limit)


def finder(jobs: Callable[[], Mapping[str, JobFacts]]) -> Callable[[str, str], str]:
    """Finds the PodGroup of a Job among `jobs`."""

    def find(namespace: str, name: str) -> str:
        known = jobs()
        if f"{namespace}/{name}" in known:
            return f"{namespace}/{name}"
        for key, facts in known.items():
            owner = facts.group.metadata.controller if facts.namespace == namespace else None
            if owner is not None and owner.kind == "Job" and owner.name == name:
                return key
        return ""

    return find


def _number(query: Mapping[str, str], name: str, default: int, *, least: int, most: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if text.isdecimal() and len(text) < 10 and least <= int(text) <= most:
        return int(text)
    raise BadQuestion(f'{name}: "{text[:20]}" is no whole number from {least} to {most}')


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return _response(status, {"message": message}, headers)


def _response(status: int, answer: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> web.Response:
    from aiohttp import web  # noqa: PLC0415 - see above

    return web.Response(status=status, body=orjson.dumps(answer), content_type="application/json", headers=headers)

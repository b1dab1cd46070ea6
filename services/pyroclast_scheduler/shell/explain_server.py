"""`GET /explain/…`: why a Job or a PodGroup of the Kubernetes API waits, which jobs wait in a queue, and when others end.

The answers are made from the results of recent sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from pyroclast.kube.basics.errors import KubeError
from pyroclast.runtime.access import Access, Denied, Reader
from pyroclast.runtime.bodies import read_at_most
from pyroclast.views.contract import document
from pyroclast_scheduler.cache.group_readers.composite import composite_key
from pyroclast_scheduler.explaining.answers import (
    MOST_NAMESPACES,
    MOST_PROMISES,
    Answerer,
    answer_of,
    compared_rows,
    ends_of,
    queue_rows,
)
from pyroclast_scheduler.explaining.book import WaitingEntry
from pyroclast_scheduler.explaining.what_if import Compared
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.tasks import native_key

if TYPE_CHECKING:
    from aiohttp import web  # not loaded by a scheduler that serves nothing


PATH: Final = "explain"
AUDIENCE: Final = "pyroclast-scheduler"
"""The audience of tokens for the scheduler alone. Tokens for the API server are accepted too."""

AT_ONCE: Final = 4
MOST_ROWS: Final = 1000
MOST_BYTES: Final = 1 << 20
BODY_SECONDS: Final = 5.0
_FITS: Final = f"{PATH}/fits"
_WHAT_IF: Final = f"{PATH}/what-if"
_ROWS: Final = 100
_MOST_OFFSET: Final = 10_000_000

Changes = Callable[[str], Awaitable[dict[str, Any]]]
"""Returns the changes of a job that help, as fields of the answer, by the key of its PodGroup."""


Fits = Callable[[Mapping[str, Any]], Awaitable[tuple[dict[str, Any], WaitingEntry | None]]]
"""Returns the result for a Job that does not exist: fields of the answer, and its waiting entry, None if it would start."""


WhatIfs = Callable[[Mapping[str, Any]], Awaitable[tuple[Sequence[Compared], dict[str, Any]]]]
"""Returns the starts of waiting jobs without and with the change in a body, and the trial of the Job that it names."""


class BadQuestion(ValueError):
    """A request is invalid; the message says what would be valid."""


class ExplainServer:
    """Answers requests below `/explain/`.

    `find`: returns the key of the PodGroup of a Job, or of that name; empty for none. `belongs_to`: returns the key of the group
    that answers for a (Composite)PodGroup of the Kubernetes API. `changes`: finds the changes that would help, used for requests
    with `changes=true`. `fits`: finds the result for a Job that does not exist. `leads`: false for a standby, which has no data.
    """

    def __init__(
        self,
        source: Callable[[], Answerer],
        find: Callable[[str, str], str],
        access: Access,
        changes: Changes | None = None,
        fits: Fits | None = None,
        *,
        what_if: WhatIfs | None = None,
        leads: Callable[[], bool] = lambda: True,
        belongs_to: Callable[[str], str] = lambda key: key,
    ) -> None:
        self._source, self._find, self._access, self._changes, self._fits = source, find, access, changes, fits
        self._what_if = what_if
        self._leads, self._belongs_to = leads, belongs_to
        self._busy = 0

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the response to a request. Requests beyond `AT_ONCE` at a time are rejected.

        A request counts after its sender is known and its body has arrived, so that no silent client keeps others from answers.
        """
        path = request.path.strip("/")
        is_question = request.method == "POST" and path in {_FITS, _WHAT_IF}
        if request.method not in {"GET", "HEAD"} and not is_question:
            return _error(405, "explanations can only be read")
        if not self._leads():
            return _error(503, "this scheduler stands by: ask the one that leads")
        try:
            reader = await self._access.reader(request)
            body = await _read_object(request) if is_question else None
            if self.is_busy:
                return _error(429, f"{AT_ONCE} explanations are being worked out; ask again in a second", {"Retry-After": "1"})
            self._busy += 1
            try:
                if body is None:
                    answer = await self._answer(request, reader)
                elif path == _FITS:
                    answer = await self._would_fit(request.query, reader, _as_job(body))
                else:
                    answer = await self._would_start(request.query, reader, body)
            finally:
                self._busy -= 1
        except BadQuestion as error:
            return _error(400, str(error))
        except TimeoutError:
            return _error(408, f"the body did not arrive within {BODY_SECONDS:.0f} seconds")
        except Denied as error:
            return _error(error.status, str(error))
        if answer is None:
            return _error(404, f"no session has found out of {request.path[:200]} that it waits")
        return _response(200, answer)

    @property
    def is_busy(self) -> bool:
        """Whether the largest number of requests is in progress."""
        return self._busy >= AT_ONCE

    async def _answer(self, request: web.BaseRequest, reader: Reader) -> dict[str, Any] | None:
        match request.path.strip("/").split("/"):
            case [_, "jobs", namespace, name]:
                return await self._job(request.query, reader, namespace, self._find(namespace, name))
            case [_, "podgroups", namespace, name]:
                return await self._job(request.query, reader, namespace, self._belongs_to(native_key(namespace, name)))
            case [_, "compositepodgroups", namespace, name]:
                key = self._belongs_to(composite_key(namespace, name))
                return await self._job(request.query, reader, namespace, key)
            case [_, "queues", queue]:
                return await self._queue(request.query, reader, queue)
            case [_, "ends"]:
                return await self._ends(request.query, reader)
        return None

    async def _job(self, query: Mapping[str, str], reader: Reader, namespace: str, key: str) -> dict[str, Any] | None:
        if not await reader.visible([namespace]):
            raise Denied(403, f"you may not list jobs.batch.volcano.sh in namespace {namespace[:64]}")
        source = self._source()
        entry = source.book.get(key)
        if entry is None:
            return None
        answer = await self._told(reader, source, entry, query)
        if self._changes is not None and query.get("changes") == "true":
            answer |= await self._changes(key)
        return answer

    async def _ends(self, query: Mapping[str, str], reader: Reader) -> dict[str, Any]:
        """Return when running jobs end. Jobs of more than `MOST_NAMESPACES` namespaces are shown only to who may see all."""
        source, only = self._source(), query.get("namespaces")
        running = [each for each in source.jobs.values() if each.sums.allocated]
        wanted = dict.fromkeys(each.namespace for each in running if only is None or each.namespace in only.split(","))
        sees_all = await reader.sees_all()
        visible = frozenset(wanted if sees_all else await reader.visible(list(wanted)[:MOST_NAMESPACES]))
        return await asyncio.to_thread(ends_of, source, running, visible.__contains__)

    async def _would_fit(self, query: Mapping[str, str], reader: Reader, body: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer for a Job that does not exist. No object is written."""
        if self._fits is None:
            return None
        namespace = str(body["metadata"].get("namespace") or "default")
        if not await reader.visible([namespace]):
            raise Denied(403, f"you may not list jobs.batch.volcano.sh in namespace {namespace[:64]}")
        try:
            fields, entry = await self._fits(body)
        except ValueError as error:
            raise BadQuestion(f"this Job cannot be tried: {str(error)[:500]}") from error
        if entry is None:
            return document("Explanation", fields)
        source = self._source()
        return await self._told(reader, source, entry, query) | fields

    async def _would_start(self, query: Mapping[str, str], reader: Reader, body: dict[str, Any]) -> dict[str, Any] | None:
        """Return the starts of waiting jobs after a change that is not made. Jobs that the user may not see are counted."""
        if self._what_if is None:
            return None
        job = body.get("job")
        namespace = str(job.get("namespace") or "") if isinstance(job, dict) else ""
        if namespace and not await reader.visible([namespace]):
            raise Denied(403, f"you may not list jobs.batch.volcano.sh in namespace {namespace[:64]}")
        try:
            compared, trial = await self._what_if(body)
        except (ValueError, KubeError) as error:
            raise BadQuestion(f"this change cannot be tried: {str(error)[:500]}") from error
        source, only = self._source(), query.get("namespaces")
        listed = list(dict.fromkeys(each.key.partition("/")[0] for each in compared))
        visible = set(listed if await reader.sees_all() else await reader.visible(listed[:MOST_NAMESPACES]))
        return compared_rows(source, compared, trial, visible if only is None else visible & set(only.split(",")))

    async def _told(self, reader: Reader, source: Answerer, entry: WaitingEntry, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the answer with names of the namespaces that the user may see, limited to those in the query."""
        having = source.holders(entry)
        listable = frozenset(await reader.visible(source.namespaces(entry, having)))
        only = query.get("namespaces")
        visible = listable if only is None else listable & set(only.split(","))
        return answer_of(source, entry, visible.__contains__, having)

    async def _queue(self, query: Mapping[str, str], reader: Reader, queue: str) -> dict[str, Any]:
        limit = _number(query, "limit", _ROWS, least=1, most=MOST_ROWS)
        offset = _number(query, "offset", 0, least=0, most=_MOST_OFFSET)
        source = self._source()
        keys = [each.key for each in source.book.between(queue, offset, offset + limit)]
        keys += [each.key for each in source.promised if each.queue == queue][:MOST_PROMISES]
        visible = frozenset(await reader.visible(dict.fromkeys(key.partition("/")[0] for key in keys)))
        only = query.get("namespaces")
        if only is not None:
            visible &= set(only.split(","))
        return queue_rows(source, queue, visible.__contains__, offset, limit)


def finder(jobs: Callable[[], Mapping[str, JobFacts]]) -> Callable[[str, str], str]:
    """Return a function that finds the PodGroup of a Job among `jobs`."""

    def find(namespace: str, name: str) -> str:
        facts_of = jobs()
        for key in (f"{namespace}/{name}", native_key(namespace, name)):
            if key in facts_of:
                return key
        for key, facts in facts_of.items():
            owner = facts.group.metadata.controller if facts.namespace == namespace else None
            if owner is not None and owner.kind == "Job" and owner.name == name:
                return key
        return ""

    return find


async def _read_object(request: web.BaseRequest) -> dict[str, Any]:
    """Return the JSON object in the body of a request.

    Raises BadQuestion: the body is too large, or not an object. TimeoutError: the body did not arrive in time.
    """
    async with asyncio.timeout(BODY_SECONDS):
        content = await read_at_most(request.content, MOST_BYTES)
    if content is None:
        raise BadQuestion(f"the body is larger than {MOST_BYTES} bytes")
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise BadQuestion(f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadQuestion("the body is no JSON object")
    return body


def _as_job(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body, which is a Job. Raises BadQuestion: it is not."""
    if body.get("kind") != "Job" or not isinstance(body.get("spec"), dict) or not isinstance(body.get("metadata"), dict):
        raise BadQuestion("the body is no Job: it has no kind Job, metadata or spec")
    return body


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

"""The streams of changes. Viewers who follow the same page with the same rights share one rendering of the page."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import orjson
import structlog
from aiohttp import web

from pyroclast.runtime.access import Denied
from pyroclast_board.metrics import BoardMetrics
from pyroclast_board.pages.base import NoPage, Page, Scope

MOST_BYTES: Final = 16 * 1024
"""Most bytes of HTML in one message. A single larger part is sent in a message of its own."""


def version_of(page: Page) -> str:
    """Return an identifier of the content of a page, which is equal on all replicas."""
    digest = hashlib.sha256(page.title.encode())
    for section in page.sections:
        parts = (section.id, section.html, section.head, *(text for row in section.rows or () for text in row))
        for part in parts:
            digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class _Part:
    """The present content of a section, a header or a row, or the order of a section's rows.

    `number` increases with each change.
    """

    number: int
    kind: str
    section: str
    id: str
    content: Any


class Live:
    """A followed page. A viewer who saw number n receives all sections that changed after n.

    No messages are queued: a slow viewer receives only the newest state of each part, once.
    """

    def __init__(self, page: Page) -> None:
        self._numbers = count(1)
        self._parts: dict[tuple[str, str, str], _Part] = {}
        self._messages: dict[int, tuple[bytes, int]] = {}
        self.number = 0
        self.version = ""
        self._sections: list[str] = []
        self.take(page)

    def has_form_of(self, page: Page) -> bool:
        """Return whether a page has the same sections, so that only changed sections need to be sent."""
        return [section.id for section in page.sections] == self._sections

    def take(self, page: Page) -> bool:
        """Set the present content of the page. Return whether the content has changed."""
        version = version_of(page)
        if version == self.version:
            return False
        self.version = version
        self._sections = [section.id for section in page.sections]
        fresh: dict[tuple[str, str, str], Any] = {}
        for section in page.sections:
            if section.rows is None:
                fresh["section", section.id, section.id] = section.html
                continue
            fresh["head", section.id, section.id] = section.head
            for id_, html in section.rows:
                fresh["row", section.id, id_] = html
            fresh["order", section.id, section.id] = [id_ for id_, _ in section.rows]  # after the rows themselves
        parts = {}
        for key, content in fresh.items():
            known = self._parts.get(key)
            parts[key] = known if known is not None and known.content == content else _Part(next(self._numbers), *key, content)
        self._parts = parts
        self.number = max((part.number for part in parts.values()), default=self.number)
        self._messages.clear()
        return True

    def since(self, number: int) -> tuple[bytes, int]:
        """Return the next message for a viewer who saw `number`, and the number after that message.

        All viewers with the same number share the message.
        """
        if number not in self._messages:
            self._messages[number] = self._message(number)
        return self._messages[number]

    def _message(self, number: int) -> tuple[bytes, int]:
        changed = sorted((part for part in self._parts.values() if part.number > number), key=lambda part: part.number)
        chosen: list[_Part] = []
        size = 0
        for part in changed:
            size += len(part.content) if part.kind != "order" else 40 * len(part.content)
            if chosen and size > MOST_BYTES:
                break
            chosen.append(part)
        reached = chosen[-1].number if len(chosen) < len(changed) else self.number
        return orjson.dumps([[part.kind, part.section, part.id, part.content] for part in chosen], default=str), reached


log = structlog.get_logger()

TICK_SECONDS: Final = 0.5
"""Minimum seconds between two messages of a stream, and between two renderings of a page."""

ALL_SECONDS: Final = 5.0
"""Seconds after which a page is rendered without a watched change, because events are read and not watched."""

BEAT_SECONDS: Final = 15.0
MOST_OF_ONE: Final = 24
"""Most streams of one user, so that no user occupies all streams. Browsers open at most six per host."""

WRITE_SECONDS: Final = 10.0


class TooMany(Exception):
    """The limit of streams is reached, either of all users or of this user."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A page with its parameters, and the scope of its viewers. `viewer`: the user, for the page that shows own Jobs first."""

    path: str
    query: tuple[tuple[str, str], ...]
    scope: Scope
    viewer: str = ""


def page_of(path: str, query: Mapping[str, str], scope: Scope, viewer: str) -> Followed:
    """Return the page of a request. All viewers with the same scope share each page but the first."""
    return Followed(path, tuple(sorted(query.items())), scope, viewer if path == "/" else "")


@dataclass(frozen=True, slots=True)
class Review:
    """Checks the viewer's rights each `seconds`, and also when a Job or flow appears in an empty namespace.

    `viewer` is empty for a user of this machine without login. After `longest` seconds the stream ends, so that the browser
    connects again through the proxy that logged the user in.
    """

    viewer: str
    scope: Callable[[], Awaitable[Scope]]
    namespaces: Callable[[], frozenset[str]]
    seconds: float
    longest: float | None = None


class _Group:
    """The viewers of the same page."""

    def __init__(self, page: Page) -> None:
        self.live = Live(page)
        self.name = os.urandom(6).hex()
        self.place = page.place
        self.viewers = 0
        self.changed = asyncio.Event()
        self.is_over = False

    def tell(self) -> None:
        """Notify all viewers that the page has changed."""
        self.changed.set()
        self.changed = asyncio.Event()


class Streams:
    """All streams of this process, `most` at a time.

    `render` returns None for a page that no longer exists; `generation` is a number that increases with each watched change.
    """

    def __init__(
        self,
        render: Callable[[Followed], Awaitable[Page | None]],
        generation: Callable[[], int],
        metrics: BoardMetrics,
        most: int,
    ) -> None:
        self._render, self._generation, self._metrics, self._most = render, generation, metrics, most
        self._groups: dict[Followed, _Group] = {}
        self._viewers: Counter[str] = Counter()
        self._is_closed = False

    async def run(self) -> None:
        """Render the followed pages after each change, until cancelled.

        At least half of the time remains for requests: with more followed pages, each page is rendered less often.
        """
        loop = asyncio.get_running_loop()
        generation, last = -1, float("-inf")
        while True:
            begun = loop.time()
            if self._generation() != generation or begun - last > ALL_SECONDS:
                generation, last = self._generation(), begun
                for followed, group in list(self._groups.items()):
                    await self._renew(followed, group)
                    await asyncio.sleep(0)
            await asyncio.sleep(max(TICK_SECONDS, loop.time() - begun))

    def close(self) -> None:
        """End the streams of all viewers."""
        self._is_closed = True
        for group in self._groups.values():
            group.is_over = True
            group.tell()

    async def follow(
        self,
        request: web.BaseRequest,
        headers: dict[str, str],
        followed: Followed,
        seen: str,
        review: Review,
    ) -> web.StreamResponse:
        """Answer with a stream. `seen`: the version of the page that the viewer has, or the id of the last message."""
        own = self._viewers[review.viewer]
        if self._viewers.total() >= self._most or (review.viewer and own >= MOST_OF_ONE) or self._is_closed:
            raise TooMany
        async with self._joined(followed, review.viewer) as group:
            response = web.StreamResponse(headers={**headers, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
            await response.prepare(request)
            with contextlib.suppress(ConnectionError, TimeoutError):  # the viewer has disconnected or does not read
                await self._send_all(response, group, followed, seen, review)
            return response

    async def _send_all(self, response: web.StreamResponse, group: _Group, followed: Followed, seen: str, review: Review) -> None:
        loop = asyncio.get_running_loop()
        number, reviewed, namespaces = _start(group, seen), loop.time(), review.namespaces()
        over = float("inf") if review.longest is None else loop.time() + review.longest
        await _write(response, b"retry: 2000\n\n")
        while not group.is_over:
            changed = group.changed
            if number < group.live.number:
                message, number = group.live.since(number)
                await _write(response, f"id: {group.name}-{number}\ndata: ".encode() + message + b"\n\n")
                await asyncio.sleep(TICK_SECONDS)
            else:
                try:
                    await asyncio.wait_for(changed.wait(), min(BEAT_SECONDS, review.seconds))
                except TimeoutError:
                    await _write(response, b": still here\n\n")
            if loop.time() > over:
                return
            if loop.time() - reviewed > review.seconds or namespaces != review.namespaces():
                reviewed, namespaces = loop.time(), review.namespaces()
                try:
                    if await review.scope() != followed.scope:
                        break
                except Denied:
                    break
        if not self._is_closed:
            await _write(response, b"event: reload\ndata: the page or what you may see has changed\n\n")

    @contextlib.asynccontextmanager
    async def _joined(self, followed: Followed, viewer: str) -> AsyncIterator[_Group]:
        self._viewers[viewer] += 1
        try:
            group = self._groups.get(followed)
            if group is None:
                page = await self._render(followed)
                if page is None:
                    raise NoPage
                group = self._groups.setdefault(followed, _Group(page))
            group.viewers += 1
            self._metrics.stream(group.place, 1)
            try:
                yield group
            finally:
                group.viewers -= 1
                self._metrics.stream(group.place, -1)
                if not group.viewers and self._groups.get(followed) is group:
                    del self._groups[followed]
        finally:
            self._viewers[viewer] -= 1
            if not self._viewers[viewer]:
                del self._viewers[viewer]

    async def _renew(self, followed: Followed, group: _Group) -> None:
        try:
            page = await self._render(followed)
        except Exception:  # a page that fails to render must not end the streams of other pages
            log.exception("board.not_rendered", path=followed.path)
            page = None
        if page is None or not group.live.has_form_of(page):
            group.is_over = True
            if self._groups.get(followed) is group:
                del self._groups[followed]
            group.tell()
        elif group.live.take(page):
            group.tell()


def _start(group: _Group, seen: str) -> int:
    """Return the number from which a viewer continues: that of the last message, or the newest one if the page is current."""
    name, _, number = seen.partition("-")
    if name == group.name and number.isdecimal():
        return min(int(number), group.live.number)
    return group.live.number if seen == group.live.version else 0


async def _write(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(WRITE_SECONDS):
        await response.write(data)

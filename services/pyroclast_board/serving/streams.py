"""The streams of changes: viewers who follow the same page with the same rights share one rendering of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import structlog
from aiohttp import web

from pyroclast.runtime.access import Denied
from pyroclast_board.metrics import BoardMetrics
from pyroclast_board.pages.base import NoPage, Page, Scope
from pyroclast_board.serving.changes import Live

__all__ = ["Followed", "Review", "Streams", "TooMany"]

log = structlog.get_logger()

TICK_SECONDS: Final = 0.5
"""Between two messages of a stream, and two renderings of a page, at least."""

ALL_SECONDS: Final = 5.0
"""So often a page is rendered although nothing that is watched changed: events are read, not watched."""

BEAT_SECONDS: Final = 15.0
MOST_OF_ONE: Final = 24
"""Streams of one user, so that nobody takes all of them: browsers open six to a host."""

WRITE_SECONDS: Final = 10.0


class TooMany(Exception):
    """There are as many streams as may be, of all users or of this one."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A page with its parameters, and what its viewers may see."""

    path: str
    query: tuple[tuple[str, str], ...]
    scope: Scope


@dataclass(frozen=True, slots=True)
class Review:
    """Asks again what a viewer may see: now and then, and when there is something in a namespace where there was nothing.

    `viewer` is the name of the user, empty for whoever is on this machine. `seconds` is how often. `longest` ends a
    stream after so many seconds, so that the browser comes again through what logged the user in; None: it goes on.
    """

    viewer: str
    scope: Callable[[], Awaitable[Scope]]
    namespaces: Callable[[], frozenset[str]]
    seconds: float
    longest: float | None = None


class _Group:
    """Viewers of the same page."""

    def __init__(self, page: Page) -> None:
        self.live = Live(page)
        self.name = os.urandom(6).hex()
        self.place = page.place
        self.viewers = 0
        self.changed = asyncio.Event()
        self.is_over = False

    def tell(self) -> None:
        """Wake all who wait."""
        self.changed.set()
        self.changed = asyncio.Event()


class Streams:
    """All streams of this process.

    Args:
        render: a page as it is now; None when there is none any more.
        generation: grows when anything that is watched changed.
        metrics: counts streams.
        most: how many there may be.
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
        """Render what is followed, when something changed, until cancelled.

        At least half of the time is left to requests: the more is followed, the rarer it is rendered.
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
        """End all streams."""
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
        """Answer with a stream.

        Args:
            request: what to answer.
            headers: of the answer.
            followed: the page.
            seen: the version of the page, or the id of the last message.
            review: of what the viewer may see.

        Raises:
            TooMany: see there.
            NoPage: there is no such page.
        """
        own = self._viewers[review.viewer]
        if self._viewers.total() >= self._most or (review.viewer and own >= MOST_OF_ONE) or self._is_closed:
            raise TooMany
        async with self._joined(followed, review.viewer) as group:
            response = web.StreamResponse(headers={**headers, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
            await response.prepare(request)
            with contextlib.suppress(ConnectionError, TimeoutError):  # the viewer has gone, or does not read
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
        except Exception:  # a page that cannot be drawn must not end the streams of the others
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
    """Where a viewer stands: at the number of the last message, or, with the newest version of the page, at its end."""
    name, _, number = seen.partition("-")
    if name == group.name and number.isdecimal():
        return min(int(number), group.live.number)
    return group.live.number if seen == group.live.version else 0


async def _write(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(WRITE_SECONDS):
        await response.write(data)

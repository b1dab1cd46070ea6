"""Reads the list with which an informer begins, part by part: as a stream if the server supports that, else in pages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import structlog

from pyroclast.api.records.meta import Record
from pyroclast.api.types import ResourceType
from pyroclast.kube.basics.errors import ApiError, ConnectionFailed
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.paging import Page, each_page
from pyroclast.kube.watch.decode import Bookmark, Decoder, Partial, Undecodable

log = structlog.get_logger()

T = TypeVar("T", bound=Record)

FIRST_PAGE: Final = 100
"""Objects on the first page: not too many even if each has the largest size.

The first page determines the size of later pages.
"""

INITIAL_EVENTS: Final = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}

NOT_KNOWN: Final = frozenset({400, 422})
"""The status codes of servers that do not support streamed lists."""


@dataclass(frozen=True, slots=True)
class ListPart(Generic[T]):
    """Some objects of a list, decoded during the iteration. `begins`: whether the list begins (anew) with these objects."""

    items: Iterable[T | Partial[T] | Undecodable]
    begins: bool


class Listing(Generic[T]):
    """The list of one kind. `patience`: the longest time for one part, in seconds."""

    def __init__(
        self,
        client: Client,
        kind: ResourceType,
        namespace: str,
        selectors: Mapping[str, str],
        decoder: Decoder[T],
        *,
        patience: float,
    ) -> None:
        self._client, self._kind, self._namespace = client, kind, namespace
        self._selectors = selectors
        self._decoder = decoder
        self._patience = patience
        self._streams = True
        self.version = ""
        """The version of the list; empty until the list has ended."""

    async def page(self, query: Mapping[str, str]) -> Page[T | Partial[T] | Undecodable]:
        """Read the page of the list that the query parameters `query` select."""
        return self._decoder.page(await self._client.list_page(self._kind, self._namespace, {**self._selectors, **query}))

    async def parts(self) -> AsyncGenerator[ListPart[T]]:
        """Yield the whole list; each part must be consumed before the next is requested."""
        self.version = ""
        if self._streams:
            try:
                async with aclosing(self._stream()) as stream:
                    async for part in stream:
                        yield part
            except ApiError as error:
                if error.status not in NOT_KNOWN:
                    raise
                log.debug("list.not_streamed", kind=self._kind.kind, error=str(error))
                self._streams = False
            else:
                return
        async with aclosing(each_page(self.page, {}, FIRST_PAGE)) as pages:
            async for page, begins in pages:
                yield ListPart(page.items, begins)
                self.version = page.resource_version

    async def _stream(self) -> AsyncGenerator[ListPart[T]]:
        query = {**self._selectors, **INITIAL_EVENTS}
        async with aclosing(self._client.watch(self._kind, self._namespace, query, silence=self._patience)) as batches:
            async for lines in batches:
                yield ListPart(self._decoded(lines), not lines)
                if self.version:
                    return
        raise ConnectionFailed("the server ended the list before its end", verb="GET", path=self._kind.path(self._namespace))

    def _decoded(self, lines: list[bytes]) -> Iterator[T | Partial[T] | Undecodable]:
        for line in lines:
            change = self._decoder.change(line)
            if not isinstance(change, Bookmark):
                yield change.object
            elif change.ends_list:
                self.version = change.resource_version
                return

"""Reads a list page by page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from pyroclast.kube.basics.errors import Expired

T = TypeVar("T")

PAGE_BYTES: Final = 2_000_000
"""Size of a page in bytes; reading and decoding a page takes some milliseconds."""

MOST_ON_A_PAGE: Final = 5_000
GROWTH: Final = 4
"""Factor by which pages grow after a list that took too long, so that fewer pages are needed."""

TRIES: Final = 4


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page. `rest`: the continue token, empty on the last page. `size`: in bytes, 0 when unknown."""

    items: Sequence[T]
    resource_version: str
    rest: str = ""
    size: int = 0


async def each_page(
    fetch: Callable[[dict[str, str]], Awaitable[Page[T]]], query: Mapping[str, str], limit: int
) -> AsyncGenerator[tuple[Page[T], bool]]:
    """Yield the pages of a consistent list, and whether the list begins (anew) with that page.

    When the continue token expires between two pages, the list begins anew with longer pages. The server keeps old states for
    some minutes. `limit`: the number of items on the first page; 0 for all items. Each later page has about `PAGE_BYTES` bytes.
    Raises Expired: the token expired in every attempt.
    """
    for attempt in range(TRIES):
        most = limit
        rest = ""
        try:
            while True:
                asked = {**query, "limit": str(most)} if most > 0 else dict(query)
                page = await fetch({**asked, "continue": rest} if rest else asked)
                yield page, not rest
                rest = page.rest
                if not rest:
                    return
                most = next_limit(most, page, PAGE_BYTES * GROWTH**attempt)
        except Expired:
            if not rest or attempt == TRIES - 1:
                raise


def next_limit(limit: int, page: Page[T], size: int) -> int:
    """Return how many items to request after `page`, so that the next page has about `size` bytes."""
    if not page.size or not page.items:
        return limit
    return max(1, min(size * len(page.items) // page.size, MOST_ON_A_PAGE))


async def read_pages(
    fetch: Callable[[dict[str, str]], Awaitable[Page[T]]], query: Mapping[str, str], limit: int
) -> tuple[list[T], str]:
    """Return all items of a consistent list and its resourceVersion; see `each_page`."""
    items: list[T] = []
    version = ""
    async with aclosing(each_page(fetch, query, limit)) as pages:
        async for page, begins in pages:
            if begins:
                items.clear()
            items += page.items
            version = page.resource_version
    return items, version

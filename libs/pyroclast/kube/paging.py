"""Reading a list page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pyroclast.kube.errors import Expired

__all__ = ["Page", "read_pages"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page; `rest` is the continue token, empty on the last one."""

    items: Sequence[T]
    resource_version: str
    rest: str = ""


async def read_pages(
    fetch: Callable[[dict[str, str]], Awaitable[Page[T]]], query: Mapping[str, str], limit: int
) -> tuple[list[T], str]:
    """All items of a consistent list and its resourceVersion.

    When the continue token expires on the way (the server keeps old states for some minutes), the list is read anew in one piece.
    """
    first = {**query, "limit": str(limit)} if limit > 0 else dict(query)
    page = await fetch(first)
    items = list(page.items)
    try:
        while page.rest:
            page = await fetch({**first, "continue": page.rest})
            items += page.items
    except Expired:
        page = await fetch(dict(query))
        items = list(page.items)
    return items, page.resource_version

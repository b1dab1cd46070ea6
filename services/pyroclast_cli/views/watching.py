"""The flag `-w`: prints a list again after each change, also after a restart of the API server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, TypeVar

import orjson

from pyroclast.api.types import ResourceType
from pyroclast.kube.basics.errors import Expired, KubeError, is_transient
from pyroclast.views.documents import Row
from pyroclast_cli.context import Context
from pyroclast_cli.flags import Flag
from pyroclast_cli.views.output import Table, Whole, write, write_one

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client


Shown = TypeVar("Shown", Table, Table | Whole)

WATCH: Final = Flag("watch", "w", default=False, text="show the list again when it changed, until interrupted", kind="bool")
PAUSE: Final = 1.0  # minimum seconds between two reads
SILENCE: Final = 30.0
GROWING: Final = frozenset({"waitedSeconds", "elapsedSeconds", "oldestSeconds", "sinceSeconds"})
CLEAR: Final = "\x1b[H\x1b[J"


async def show(
    context: Context,
    read: Callable[[], Awaitable[Table | Whole]],
    *kinds: ResourceType,
    namespace: str = "",
    every: float = SILENCE,
) -> None:
    """Print the result of `read`. With `-w`, print it again whenever objects of `kinds` changed and the result differs.

    On a terminal the list is redrawn in place. In a pipe the whole list is written again. `every` is the time in seconds after
    which the list is read again without any change.

    Raises:
        KubeError: the first read failed, or a later read failed with a permanent error.
    """
    if not context.is_set("watch"):
        _write(context, await read())
        return
    shown: Table | Whole | None = None
    async for found in looks(context.client, read, *kinds, namespace=namespace, every=every):
        if shown is None or _content(found) != _content(shown) or sys.stdout.isatty():
            if shown is not None:
                sys.stdout.write(CLEAR if sys.stdout.isatty() else "\n")
            _write(context, found)
            sys.stdout.flush()
        shown = found


async def looks(
    client: Client, read: Callable[[], Awaitable[Shown]], *kinds: ResourceType, namespace: str = "", every: float = SILENCE
) -> AsyncGenerator[Shown]:
    """Yield the result of `read`, again whenever objects of `kinds` changed.

    Raises:
        KubeError: the first read failed, or a later read failed with a permanent error.
    """
    is_first = True
    while True:
        try:
            versions = await _versions(client, kinds, namespace)
            found = await read()
        except KubeError as error:
            if is_first or not is_transient(error):
                raise
            await asyncio.sleep(PAUSE)  # the server is unavailable: the last result stays on the screen until it is back
            continue
        yield found
        is_first = False
        await _first_change(client, versions, namespace, every)


async def _versions(client: Client, kinds: tuple[ResourceType, ...], namespace: str) -> dict[ResourceType, str]:
    """Return for each kind the resourceVersion from which a watch delivers all later changes."""
    pages = [orjson.loads(await client.list_page(kind, namespace, {"limit": "1"})) for kind in kinds]
    return {kind: str((page.get("metadata") or {}).get("resourceVersion", "")) for kind, page in zip(kinds, pages, strict=True)}


async def _first_change(client: Client, versions: Mapping[ResourceType, str], namespace: str, every: float) -> None:
    """Return a moment after the first change of any kind.

    Raises:
        KubeError: a watch ended with a permanent error.
    """
    watches = [asyncio.ensure_future(_changed(client, kind, namespace, version, every)) for kind, version in versions.items()]
    try:
        done, _ = await asyncio.wait(watches, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        for each in watches:
            each.cancel()
        await asyncio.gather(*watches, return_exceptions=True)


def _write(context: Context, shown: Table | Whole) -> None:
    if isinstance(shown, Table):
        write(context, shown)
    else:
        write_one(context, shown.document, shown.lines, reference=shown.reference, rows=shown.rows)


def _content(shown: Table | Whole) -> Sequence[Row]:
    """Return the rows without the fields that change with time alone."""
    return [{name: value for name, value in row.items() if name not in GROWING} for row in shown.rows]


async def _changed(client: Client, kind: ResourceType, namespace: str, version: str, every: float) -> None:
    """Return a moment after the first change since `version`, when the watch ends, or after `every` seconds without a change."""
    try:
        async with aclosing(client.watch(kind, namespace, {"resourceVersion": version}, silence=every)) as batches:
            async for lines in batches:
                if lines:
                    break
    except KubeError as error:
        if not is_transient(error) and not isinstance(error, Expired):
            raise
    await asyncio.sleep(PAUSE)

"""The flag `-w`: prints a list again after each change, also after a restart of the API server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyroclast.api.types import ResourceType
from pyroclast.kube.basics.errors import KubeError, is_transient
from pyroclast.kube.watch.follower import JsonReader
from pyroclast.views.contract import Row
from pyroclast_cli.flags import Context, Flag
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

    On a terminal the list is redrawn in place. In a pipe the whole list is written again. After `every` seconds the list is read
    again without any change.
    """
    if not context.is_set("watch"):
        _write(context, await read())
        return
    shown: Table | Whole | None = None
    async with aclosing(looks(context.client, read, *kinds, namespace=namespace, every=every)) as results:
        async for result in results:
            if shown is None or _content(result) != _content(shown) or sys.stdout.isatty():
                if shown is not None:
                    sys.stdout.write(CLEAR if sys.stdout.isatty() else "\n")
                _write(context, result)
                sys.stdout.flush()
            shown = result


async def looks(
    client: Client, read: Callable[[], Awaitable[Shown]], *kinds: ResourceType, namespace: str = "", every: float = SILENCE
) -> AsyncGenerator[Shown]:
    """Yield the result of `read`, again whenever objects of `kinds` changed."""
    changed = asyncio.Event()
    watches = [_Changes(client, kind, namespace, changed) for kind in kinds]
    for watch in watches:
        await watch.read_list()
    followers = [asyncio.ensure_future(watch.run()) for watch in watches]
    is_first = True
    try:
        while True:
            changed.clear()
            try:
                result = await read()
            except KubeError as error:
                if is_first or not is_transient(error):
                    raise
                await asyncio.sleep(PAUSE)  # the server is unavailable: the last result stays on the screen until it is back
                continue
            yield result
            is_first = False
            await _until(changed, followers, every)
            await asyncio.sleep(PAUSE)
    finally:
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)


async def _until(changed: asyncio.Event, followers: Sequence[asyncio.Future[None]], seconds: float) -> None:
    """Wait for a change, but at most so many seconds."""
    change = asyncio.ensure_future(changed.wait())
    ends: list[asyncio.Future[Any]] = [change, *followers]
    try:
        await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for follower in followers:
            if follower.done():
                follower.result()
    finally:
        change.cancel()


class _Changes(JsonReader):
    """Sets `changed` when objects of one kind have changed."""

    def __init__(self, client: Client, kind: ResourceType, namespace: str, changed: asyncio.Event) -> None:
        super().__init__(client, kind, namespace=namespace)
        self._changed = changed

    async def run(self) -> None:
        """Follow the kind, until cancelled."""
        await self._follower.run()

    async def read_list(self) -> None:
        """Read the resourceVersion from which a watch delivers all later changes."""
        self._follower.version = await self._latest_version()
        self._changed.set()

    async def take(self, lines: list[bytes]) -> None:
        """Note changes."""
        for change, _ in self._changes(lines):
            if change != "BOOKMARK":
                self._changed.set()

    def failed(self, error: Exception) -> None:
        """Try again after a transient error."""
        if not isinstance(error, TimeoutError) and not (isinstance(error, KubeError) and is_transient(error)):
            raise error


def _write(context: Context, shown: Table | Whole) -> None:
    if isinstance(shown, Table):
        write(context, shown)
    else:
        write_one(context, shown.document, shown.lines, reference=shown.reference, rows=shown.rows)


def _content(shown: Table | Whole) -> Sequence[Row]:
    """Return the rows without the fields that change with time alone."""
    return [{name: value for name, value in row.items() if name not in GROWING} for row in shown.rows]

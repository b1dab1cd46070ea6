"""A follower continues, lists again or gives up, whatever ends a list or a watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson
import pytest

from pyroclast.api.types import PODS, ResourceType
from pyroclast.kube.basics.errors import ApiError, ConnectionFailed, Forbidden
from pyroclast.kube.watch.follower import JsonReader, Timing

QUICK = Timing(first_pause=0.001, longest_pause=0.01, settled=0.0)


def event(version: int, kind: str = "ADDED", **body: Any) -> bytes:
    return orjson.dumps({"type": kind, "object": {"metadata": {"resourceVersion": str(version)}, **body}})


class Server:
    """Answers lists with the next of `lists`, the last one again and again, and watches with the next of `watches`."""

    def __init__(self, lists: Sequence[int | Exception], watches: Sequence[list[bytes | Exception]]) -> None:
        self.lists, self.watches = list(lists), list(watches)
        self.asked: list[str] = []

    async def list_page(self, _kind: ResourceType, _namespace: str, _query: Mapping[str, str]) -> bytes:
        answer = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        if isinstance(answer, Exception):
            raise answer
        return orjson.dumps({"metadata": {"resourceVersion": str(answer)}})

    async def watch(
        self, _kind: ResourceType, _namespace: str, query: Mapping[str, str], *, silence: float
    ) -> AsyncIterator[list[bytes]]:
        self.asked.append(query["resourceVersion"])
        assert silence > 0
        yield []
        if not self.watches:
            await asyncio.Event().wait()
        for answer in self.watches.pop(0):
            if isinstance(answer, Exception):
                raise answer
            yield [answer]


class Log(JsonReader):
    """Notes what it reads."""

    def __init__(self, server: Server) -> None:
        super().__init__(server, PODS, timing=QUICK)  # type: ignore[arg-type]
        self.read: list[str] = []
        self.run = self._follower.run

    async def read_list(self) -> None:
        self._follower.version = await self._latest_version()
        self.read.append(f"list {self._follower.version}")

    async def take(self, lines: list[bytes]) -> None:
        self.read += [body["metadata"]["resourceVersion"] for _, body in self._changes(lines)]

    def failed(self, error: Exception) -> None:
        if isinstance(error, Forbidden):
            raise error


EXPIRED = event(0, "ERROR", code=410, reason="Expired")
CASES: dict[str, tuple[list[int | Exception], list[list[bytes | Exception]], list[str], list[str]]] = {
    "the watch ends in time": ([5], [[event(6)]], ["list 5", "6"], ["5", "6"]),
    "the version is forgotten": ([5, 9], [[event(6), EXPIRED]], ["list 5", "6", "list 9"], ["5", "9"]),
    "the connection breaks": ([5, 7], [[event(6), ConnectionFailed("cut")]], ["list 5", "6"], ["5", "6"]),
    "the server was restored meanwhile": (
        [5, 3, 3],
        [[event(6), ConnectionFailed("cut")]],
        ["list 5", "6", "list 3"],
        ["5", "3"],
    ),
    "the first list fails": ([ConnectionFailed("down"), 5], [], ["list 5"], ["5"]),
    "the server fails": ([5], [[ApiError.from_status(503, {})]], ["list 5"], ["5", "5"]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_a_follower_continues_at_its_version_or_lists_again(
    case: tuple[list[int | Exception], list[list[bytes | Exception]], list[str], list[str]],
) -> None:
    lists, watches, want_read, want_asked = case
    server = Server(lists, watches)
    reader = Log(server)
    task = asyncio.create_task(reader.run())
    async with asyncio.timeout(5):
        while len(server.asked) < len(want_asked):
            await asyncio.sleep(0.001)
    assert (reader.read, server.asked) == (want_read, want_asked)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_follower_ends_with_the_error_that_its_reader_raises() -> None:
    with pytest.raises(Forbidden):
        await Log(Server([5], [[ApiError.from_status(403, {"reason": "Forbidden"})]])).run()

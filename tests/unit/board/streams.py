"""Reads the messages of a stream."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from .conftest import Board

__all__ = ["messages"]


async def messages(board: Board, path: str, token: str = "", count: int = 1, last: str = "") -> list[tuple[str, list[Any]]]:
    """The first messages: the id of each, and its changes. A `reload` is an empty list, and the last one."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if last:
        headers["Last-Event-ID"] = last
    found: list[tuple[str, list[Any]]] = []
    identity = ""
    assert board.session is not None
    async with asyncio.timeout(60), board.session.get(f"{board.url}{path}", headers=headers) as answer:
        assert answer.status == 200
        assert answer.content_type == "text/event-stream"
        while len(found) < count:
            line = (await answer.content.readline()).decode().rstrip("\n")
            if line.startswith("id: "):
                identity = line.removeprefix("id: ")
            elif line.startswith("data: ["):
                found.append((identity, json.loads(line.removeprefix("data: "))))
            elif line.startswith("event: reload"):
                found.append(("reload", []))
                break
    return found

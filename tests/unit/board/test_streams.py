"""What is told of changes, and what it costs."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from typing import Any

import pytest
from markupsafe import Markup

from pyroclast.api.types import JOBS, Key
from pyroclast.kube.http.client import PatchKind
from pyroclast_board.pages.base import Page, Section
from pyroclast_board.serving import streams
from pyroclast_board.serving.streams import MOST_BYTES, Live, version_of

from .conftest import Board, fill, running_board
from .streams import messages


def page(rows: dict[str, str], **sections: str) -> Page:
    parts = [Section(name, Markup(html)) for name, html in sections.items()]
    table = Section("table", head=Markup("head"), rows=tuple((name, Markup(html)) for name, html in rows.items()))
    return Page("title", "jobs", [*parts, table])


class Viewer:
    """Applies messages as the script does."""

    def __init__(self) -> None:
        self.sections: dict[str, str] = {}
        self.rows: dict[str, str] = {}
        self.order: list[str] = []
        self.waiting: dict[str, str] = {}

    def apply(self, message: list[Any]) -> None:
        for kind, _, id_, content in message:
            if kind == "section":
                self.sections[id_] = content
            elif kind == "row" and id_ in self.rows:
                self.rows[id_] = content
            elif kind == "row":
                self.waiting[id_] = content
            elif kind == "order":
                known = self.rows | self.waiting
                self.order = [each for each in content if each in known]
                self.rows = {each: known[each] for each in self.order}
                self.waiting = {}


def test_live_changes_bring_every_viewer_to_the_newest_page() -> None:
    import orjson

    chance = random.Random(7)
    rows = {f"r{n}": "x" * chance.randint(1, 4000) for n in range(30)}
    live = Live(page(rows, top="0"))
    viewers = [(Viewer(), 0) for _ in range(5)]
    for step in range(60):
        for _ in range(chance.randint(0, 4)):
            rows[f"r{chance.randint(0, 40)}"] = "y" * chance.randint(1, 4000)
        for name in chance.sample(sorted(rows), 2):
            if chance.random() < 0.4:
                del rows[name]
        names = list(rows)
        chance.shuffle(names)
        rows = {name: rows[name] for name in names}
        live.take(page(rows, top=str(step)))
        for index, (viewer, number) in enumerate(viewers):
            if chance.random() < 0.5:
                message, reached = live.since(number)
                viewer.apply(orjson.loads(message))
                viewers[index] = (viewer, reached)
    for viewer, number in viewers:
        while number < live.number:
            message, number = live.since(number)
            assert len(message) < 2 * MOST_BYTES
            viewer.apply(orjson.loads(message))
        assert viewer.order == list(rows)
        assert viewer.rows == rows
        assert viewer.sections == {"top": "59"}


def test_viewers_of_the_same_version_share_one_message() -> None:
    live = Live(page({"a": "1"}))
    live.take(page({"a": "2"}))
    assert live.since(0)[0] is live.since(0)[0]


def test_unchanged_page_makes_no_new_version() -> None:
    live = Live(page({"a": "1"}))
    assert not live.take(page({"a": "1"}))
    assert live.version == version_of(page({"a": "1"})) != version_of(page({"a": "2"}))
    assert live.has_form_of(page({}))
    assert not live.has_form_of(page({}, more=""))


async def test_live_stream_sends_only_changed_rows_and_resumes_after_the_last_event(board: Board) -> None:
    uids = await fill(board)
    text = await board.until("/jobs", "lost", "train", ">big<")
    reading = asyncio.create_task(messages(board, f"/live/jobs?seen={version(text)}"))
    await asyncio.sleep(0.3)
    await board.client.patch(
        JOBS, Key("team", "train"), {"status": {"state": {"phase": "Completed"}}}, PatchKind.MERGE, subresource="status"
    )
    ((identity, changes),) = await reading
    (row,) = [html for kind, _, id_, html in changes if (kind, id_) == ("row", f"job-{uids['train']}")]
    assert "Completed" in row
    assert len([kind for kind, *_ in changes if kind == "row"]) == 1, "only what changed is sent"
    resumed = asyncio.create_task(messages(board, "/live/jobs", last=identity))
    await asyncio.sleep(0.3)
    await board.job("team", "later")
    ((_, changes),) = await resumed
    assert any(kind == "order" for kind, *_ in changes)


async def test_live_stream_sends_a_change_at_once_after_an_idle_period(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "ALL_SECONDS", 1000.0)  # the next full round is no help
    await fill(board)
    text = await board.until("/jobs", "lost", "train", ">big<")
    reading = asyncio.create_task(messages(board, f"/live/jobs?seen={version(text)}"))
    await asyncio.sleep(4 * streams.TICK_SECONDS)
    await board.job("team", "later")
    ((_, changes),) = await reading
    assert changes


async def test_live_stream_of_a_deleted_job_sends_reload(board: Board) -> None:
    await fill(board)
    uid = await board.job("team", "short")
    await board.until("/jobs", "short")
    text = await board.get(f"/jobs/{uid}")
    reading = asyncio.create_task(messages(board, f"/live/jobs/{uid}?seen={version(text)}", count=100))
    await asyncio.sleep(0.5)
    await board.client.delete(JOBS, Key("team", "short"))
    assert (await reading)[-1][0] == "reload"


async def test_many_viewers_share_one_rendering(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(board)
    await board.until("/jobs", "lost")
    rendered = 0
    from pyroclast_board.serving import pages

    whole = pages.jobs

    def counting(*arguments: Any) -> Page:
        nonlocal rendered
        rendered += 1
        return whole(*arguments)

    monkeypatch.setattr(pages, "jobs", counting)
    readers = [asyncio.create_task(messages(board, "/live/jobs?state=waiting&seen=x", count=3)) for _ in range(40)]
    await asyncio.sleep(1)
    for number in range(2):
        await board.job("team", f"more-{number}")
        await asyncio.sleep(1)
    for reader in readers:
        assert len(await reader) == 3
    assert rendered <= 14, "each viewer must not render for itself"


async def test_live_stream_beyond_the_limit_returns_503_while_pages_still_load() -> None:
    async with running_board(most_streams=2) as board, contextlib.AsyncExitStack() as stack:
        assert board.session is not None
        for _ in range(2):
            await stack.enter_async_context(board.session.get(f"{board.url}/live/"))
        await board.get("/live/", 503)
        assert "Overview" in await board.get("/")


def version(text: str) -> str:
    found = re.search(r'data-version="(\w+)"', text)
    assert found is not None
    return found[1]

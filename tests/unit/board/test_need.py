"""Own Jobs first, queues as a table of need, and what a queue had over time."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from pyroclast.api import keys
from pyroclast.pictures.chart import chart, sparkline

from .conftest import answering, fill, running_board

TIMES = [f"2030-01-01T0{hour}:00:00Z" for hour in range(4)]


async def series(request: web.BaseRequest) -> web.StreamResponse:
    if request.path != "/api/v1/series":
        return web.json_response({}, status=404)
    lines: dict[str, Any] = dict.fromkeys(("guarantee", "capability", "used"), [None] * 4)
    lines |= {"allocated": [6500, None, 7000, 7000], "deserved": [4000, 4000, 8000, 8000], "waiting": [0, 0, 2000, 2000]}
    answer: dict[str, Any] = {"stepSeconds": 3600, "times": TIMES, "queues": [{"queue": "research", "resource": "cpu", **lines}]}
    answer["evictions"] = [{"queue": "research", "pods": [0, 3, None, 0]}]
    if "queue" not in request.query:
        answer["nodes"] = [{"resource": "", "total": [3000] * 4, "away": [0, 0, 0, 1000]}]
    return web.json_response(answer)


async def test_own_jobs_are_first_for_who_is_logged_in() -> None:
    async with running_board(login="token") as board:
        await fill(board)
        me = "system:serviceaccount:default:member"
        uid = await board.job("team", "own", phase="Running", metadata={"annotations": {keys.SUBMITTED_BY: me}})
        token = await board.token("member", "team")
        page = await board.until("/", f"Jobs of {me}", f'href="/jobs/{uid}"', token=token)
        section = page.partition('id="mine"')[2].partition("</section>")[0]
        assert "its end is not known" in section
        assert "train" not in section, "that is ann's"
        section = (await board.get("/?user=ann", token=token)).partition('id="mine"')[2].partition("</section>")[0]
        assert "QueueFull" in section
        assert "hidden-job" not in await board.get("/?user=", token=token)


async def test_queues_show_need_and_what_they_had_with_what_happened() -> None:
    async with answering(series) as url, running_board(recorder_url=url) as board:
        await fill(board)
        page = await board.until("/queues", "175 % (7 of 4 cpu)", "… waits", "allocated in the last day")
        assert page.index('href="/queues/research"') < page.index('href="/queues/root"'), "what deserves something is first"
        page = await board.until("/queues/research?time=week", "3 pods evicted", "deserved 8 instead of 4")
        assert "1 nodes away instead of 0" in page
        assert '<td class="number">6.5</td>' in page
        assert "no &#34;year&#34;" in await board.get("/queues/research?time=year", 400)
        assert "nothing of x is recorded" in await board.get("/queues/research?resource=x")
    async with running_board() as board:
        await fill(board)
        await board.until("/queues/research", "Not known: there is no history")


def test_chart_leaves_gaps_where_nothing_is_known() -> None:
    drawn = chart("t <", TIMES, {"allocated": [1, None, 2, 3], "used": [None] * 4}, [(1, "a & b")]).document()
    assert drawn.count("<polyline") == 2 + 2, "two parts of one line, and two in the legend"
    assert "a &amp; b" in drawn
    assert "t &lt;" in drawn
    assert "<polyline" not in sparkline("s", [None, 5]).inline()
    assert "<polyline" in sparkline("s", [1, None, 5]).inline()

"""The page of what a change would do."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from pyroclast.runtime.bodies import read_at_most

from .conftest import FULL, answering, running_board

START = {"earliest": "2030-01-01T01:00:00Z", "likely": "2030-01-01T02:00:00Z", "latest": "2030-01-01T03:00:00Z", "basis": "b"}
ROW = {
    "namespace": "team",
    "name": "train",
    "queue": "research",
    "before": None,
    "after": START,
    "reason": "",
    "effect": "earlier",
}


async def test_change_in_the_form_is_put_to_the_scheduler_within_the_rights_of_the_viewer() -> None:
    seen: list[tuple[dict[str, Any], str]] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.path != "/explain/what-if":
            return web.json_response({"items": []})
        body = json.loads(await read_at_most(request.content, 9999) or b"")
        seen.append((body, request.query.get("namespaces", "all")))
        if body.get("drain") == ["gone"]:
            return web.json_response({"message": 'this change cannot be tried: there is no node "gone"'}, status=400)
        return web.json_response({"earlier": 1, "later": 0, "same": 1, "hidden": 1, "items": [ROW]})

    async with answering(answer) as url, running_board(scheduler_url=url, login="token") as board:
        uid = await board.job("team", "train", code=FULL.partition("; ")[2])
        await board.job("other", "hidden", code=FULL.partition("; ")[2])
        token = await board.token("member", "team")
        await board.until("/jobs", "train", token=token)
        assert "What if" in await board.get("/what-if", token=token)
        assert seen == [], "without a change nothing is asked"
        page = await board.get("/what-if?add=nvidia.com%2Fgpu%3D8&drain=n1,n2", token=token)
        assert seen[-1] == ({"add": {"nvidia.com/gpu": "8"}, "drain": ["n1", "n2"]}, "team")
        for words in (f'href="/jobs/{uid}"', "of 2 waiting Jobs, 1 would start earlier", "▲ earlier", "1 of them are of others"):
            assert words in page
        assert "vcctl what-if --add nvidia.com/gpu=8 --drain n1,n2" in page
        assert "there is no node &#34;gone&#34;" in await board.get("/what-if?drain=gone", token=token)
        assert "is not RESOURCE=AMOUNT" in await board.get("/what-if?add=8", 400, token=token)
        assert "there is no parameter" in await board.get("/what-if?x=8", 400, token=token)
    async with running_board() as board:
        assert "the scheduler gives no answer" in await board.get("/what-if?drain=n1")

"""Several schedulers behind one name: the board finds the one that can answer, and follows it when it changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from pyroclast.runtime.listener import Listener
from pyroclast_board.serving import scheduler
from pyroclast_board.serving.scheduler import Peers

PATH = "/explain/jobs/team/train"


class Replica:
    """Answers with one status, and counts."""

    def __init__(self) -> None:
        self.status, self.asked, self.token = 200, 0, ""
        self.listener = Listener(self.answer)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.port}"

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked, self.token = self.asked + 1, request.headers.get("Authorization", "")
        return web.json_response({"by": self.url}, status=self.status)


@pytest.fixture
async def replicas(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[Replica]]:
    found = [Replica() for _ in range(3)]
    for each in found:
        await each.listener.start("127.0.0.1", 0)

    async def addresses(_url: str) -> list[str]:
        return [each.url for each in found]

    monkeypatch.setattr(scheduler, "_addresses", addresses)
    monkeypatch.setattr(scheduler, "RESOLVE_SECONDS", 0.0)
    yield found
    for each in found:
        await each.listener.stop()


async def test_leading_scheduler_replica_is_found_and_queried_first(replicas: list[Replica], tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    first, second, third = replicas
    first.status, second.status = 503, 404
    async with Peers("http://scheduler", str(tmp_path / "token")) as asked:
        for _ in range(3):
            answer = await asked.ask(PATH, {"changes": "true"})
            assert answer is not None
            assert (answer[0], third.url in answer[1].decode()) == (200, True)
        assert (first.asked, second.asked, third.asked) == (1, 1, 3)
        assert third.token == "Bearer secret"
        first.status, third.status = 200, 503  # another takes over
        answer = await asked.ask(PATH, {})
        assert answer is not None
        assert (answer[0], first.url in answer[1].decode()) == (200, True)
        await first.listener.stop()
        replicas.remove(first)
        answer = await asked.ask(PATH, {})
        assert answer is not None
        assert answer[0] == 404, "no other knows it"
        second.status = third.status = 503
        assert await asked.ask(PATH, {}) is None
        second.status = 400
        answer = await asked.ask(PATH, {})
        assert answer is not None
        assert answer[0] == 400, "a wrong question is wrong everywhere"


async def test_http_scheduler_url_is_resolved_to_addresses_and_https_is_kept() -> None:
    assert "http://127.0.0.1:8080" in await scheduler._addresses("http://localhost:8080")
    assert await scheduler._addresses("http://[::1]:8080") == ["http://[::1]:8080"]
    assert await scheduler._addresses("https://scheduler:8080") == ["https://scheduler:8080"]
    assert await scheduler._addresses("http://no-such-name.invalid:8080") == []

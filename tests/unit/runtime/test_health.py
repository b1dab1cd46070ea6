from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest

from pyroclast.runtime.errors import StartFailure
from pyroclast.runtime.health import Checks, serve


@pytest.fixture
def live() -> Checks:
    return Checks()


@pytest.fixture
async def url(live: Checks) -> AsyncIterator[str]:
    pages = {"/metrics": lambda: ("text/plain; version=0.0.4", b"a 1\n")}
    runner = await serve("healthz-address", "127.0.0.1:0", {"healthz": live, "livez": live, "readyz": Checks()}, pages)
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_all_is_well(url: str, live: Checks) -> None:
    live.add("watch-pods", lambda: None)
    assert await get(f"{url}/healthz") == (200, "ok")
    assert await get(f"{url}/livez?verbose") == (200, "[+]ping ok\n[+]watch-pods ok\nlivez check passed\n")
    assert await get(f"{url}/livez/watch-pods") == (200, "ok")
    assert await get(f"{url}/healthz/ping") == (200, "ok")
    assert await get(f"{url}/readyz") == (200, "ok")
    assert await get(f"{url}/metrics") == (200, "a 1\n")


async def test_a_check_that_fails_says_why(url: str, live: Checks) -> None:
    live.add("watch-pods", lambda: "no progress for 99 s")
    live.add("broken", lambda: str(1 / 0))
    status, text = await get(f"{url}/livez")
    assert status == 500
    assert text == (
        "[+]ping ok\n[-]watch-pods failed: no progress for 99 s\n"
        "[-]broken failed: the check itself failed: ZeroDivisionError('division by zero')\nlivez check failed\n"
    )
    assert (await get(f"{url}/livez/ping"))[0] == 200
    assert (await get(f"{url}/livez/watch-pods"))[0] == 500


async def test_what_is_not_there(url: str) -> None:
    for path in ("", "/", "/nope", "/livez/nope", "/metrics/x"):
        assert (await get(url + path))[0] == 404


async def test_an_address_in_use_is_a_clear_failure(live: Checks) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StartFailure, match=rf"^--healthz-address: cannot listen on {address}: .*in use"):
            await serve("healthz-address", address, {}, {})

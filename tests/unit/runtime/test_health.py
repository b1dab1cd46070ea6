from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest

from pyroclast.runtime.access import ACCESS, REVIEWS, is_local, refusal
from pyroclast.runtime.errors import StartFailure
from pyroclast.runtime.health import Checks, serve
from pyroclast.runtime.startup import main as startup
from pyroclast.runtime.startup import wait
from tests.unit.kube.fault_server import FaultServer, answer


async def nobody(authorization: str, path: str) -> tuple[int, str] | None:
    return 401, f"{path} is not for {authorization}"


@pytest.fixture
def live() -> Checks:
    return Checks()


@pytest.fixture
async def url(live: Checks) -> AsyncIterator[str]:
    pages = {"/metrics": lambda: ("text/plain; version=0.0.4", b"a 1\n")}
    listener = await serve(
        "healthz-address", "127.0.0.1:0", {"healthz": live, "livez": live, "readyz": Checks()}, pages, admit=nobody
    )
    yield f"http://127.0.0.1:{listener.port}"
    await listener.stop()


async def test_startup_waits_for_a_program_that_does_not_listen_yet_and_passes_one_that_is_not_ready(live: Checks) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    url = f"http://127.0.0.1:{port}/livez"
    assert not await asyncio.to_thread(wait, url, 0), "nobody listens"
    waiting = asyncio.create_task(asyncio.to_thread(wait, url, 60))
    listener = await serve("healthz-address", f"127.0.0.1:{port}", {"livez": live}, {}, admit=nobody)
    assert await waiting
    live.add("watch-pods", lambda: "no progress for 99 s")
    assert await asyncio.to_thread(wait, url, 0), "it has started, and the other probes judge it"
    await listener.stop()


async def test_startup_puts_the_address_of_the_pod_into_the_url(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_IP", "127.0.0.1")
    port = url.rpartition(":")[2]
    monkeypatch.setattr("sys.argv", ["startup", f"http://$(POD_IP):{port}/livez", "0"])
    assert await asyncio.to_thread(startup) == 0


async def get(url: str, **headers: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        return response.status, await response.text()


async def test_health_endpoints_return_200_when_all_checks_pass(url: str, live: Checks) -> None:
    live.add("watch-pods", lambda: None)
    assert await get(f"{url}/healthz") == (200, "ok")
    assert await get(f"{url}/livez?verbose") == (200, "[+]ping ok\n[+]watch-pods ok\nlivez check passed\n")
    assert await get(f"{url}/livez/watch-pods") == (200, "ok")
    assert await get(f"{url}/healthz/ping") == (200, "ok")
    assert await get(f"{url}/readyz") == (200, "ok")
    assert await get(f"{url}/metrics") == (200, "a 1\n")


async def test_a_failing_check_returns_500_with_its_reason(url: str, live: Checks) -> None:
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


async def test_unknown_paths_return_404(url: str) -> None:
    for path in ("", "/", "/nope", "/livez/nope", "/metrics/x"):
        assert (await get(url + path))[0] == 404


async def test_serving_health_on_an_address_in_use_raises_start_failure(live: Checks) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StartFailure, match=rf"^--healthz-address: cannot listen on {address}: .*in use"):
            await serve("healthz-address", address, {}, {}, admit=nobody)


@pytest.mark.parametrize(
    ("address", "local"),
    [
        (("127.0.0.1", 1), True),
        (("::1", 1, 0, 0), True),
        (("::ffff:127.0.0.1", 1, 0, 0), True),
        (("10.0.0.1", 1), False),
        (("fe80::1%eth0", 1, 0, 2), False),
        ((), False),
        (None, False),
        ("", False),
    ],
)
def test_only_loopback_addresses_are_local(address: object, local: bool) -> None:
    assert is_local(address) is local


ALLOWED = {"user": "ann", "groups": ["dev"], "nonResourceAttributes": {"path": "/debug/x", "verb": "get"}}


@pytest.mark.parametrize(
    ("header", "user", "allowed", "status"),
    [
        ("", {}, True, 401),
        ("Basic eDp5", {}, True, 401),
        ("Bearer t", None, True, 401),
        ("Bearer t", {"username": "ann", "groups": ["dev"]}, False, 403),
        ("Bearer t", {"username": "ann", "groups": ["dev"]}, True, None),
    ],
)
async def test_a_remote_request_needs_an_authenticated_and_authorized_token(
    header: str, user: object, allowed: bool, status: int | None
) -> None:
    async with FaultServer() as server, server.client() as client:
        server.on(f"POST {REVIEWS}", answer(201, {"status": {"authenticated": bool(user), "user": user}}))
        server.on(f"POST {ACCESS}", answer(201, {"status": {"allowed": allowed}}))
        refused = await refusal(client, header, "/debug/x")
        assert (refused and refused[0]) == status
        assert all(got.json["spec"] == ALLOWED for got in server.seen(f"POST {ACCESS}"))


async def test_a_remote_request_returns_503_when_the_api_server_cannot_review_its_token() -> None:
    async with FaultServer() as server, server.client() as client:
        refused = await refusal(client, "Bearer t", "/debug/x")
    assert refused is not None
    assert refused[0] == 503
    assert (await refusal(None, "Bearer t", "/debug/x") or (0,))[0] == 503


@pytest.mark.parametrize(
    ("trusts_local", "address", "host", "status"),
    [
        (True, True, "localhost", 200),
        (True, True, "127.0.0.1:80", 200),
        (True, True, "rebound.example", 401),
        (True, False, "localhost", 401),
        (False, True, "localhost", 401),
    ],
)
async def test_debug_pages_are_served_without_a_token_to_trusted_local_requests_only(
    monkeypatch: pytest.MonkeyPatch, trusts_local: bool, address: bool, host: str, status: int
) -> None:
    pages = {"/debug/x": lambda: ("text/plain", b"in")}
    listener = await serve("a", "127.0.0.1:0", {}, pages, admit=nobody, trusts_local=trusts_local)
    monkeypatch.setattr("pyroclast.runtime.access.is_local", lambda _: address)
    try:
        assert (await get(f"http://127.0.0.1:{listener.port}/debug/x", Host=host))[0] == status
    finally:
        await listener.stop()

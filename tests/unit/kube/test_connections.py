"""Which connections are used again, what goes over them, and ways to the server that lead through a proxy."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from pyroclast.api.types import PODS, Key
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import Conflict, ConnectionFailed, KubeError, NotFound
from pyroclast.kube.credentials.authorization import StaticCredentials
from pyroclast.kube.credentials.certificates import Pem
from pyroclast.kube.credentials.config import ClusterConfig
from pyroclast.kube.http.client import Client
from tests.unit.ending import ended
from tests.unit.kube.authority import Authority, serving
from tests.unit.kube.fault_server import FaultServer, Got, Watch, answer, half, hang, status

POD = {"metadata": {"name": "p", "namespace": "ns"}}
ONE = "/api/v1/namespaces/ns/pods/p"
KEY = Key("ns", "p")


def peers(server: FaultServer) -> list[int]:
    """The port that each request came from: one for each connection."""
    return [got.writer.get_extra_info("peername")[1] for got in server.requests]


@pytest.mark.parametrize("first", [answer(200, POD), status(409, "Conflict"), status(404, "NotFound")])
async def test_a_connection_is_reused_after_a_success_or_an_error_status(server: FaultServer, client: Client, first) -> None:
    server.on(f"GET {ONE}", first, answer(200, POD))
    with contextlib.suppress(Conflict, NotFound):
        await client.get(PODS, KEY)
    assert await client.get(PODS, KEY) == POD
    assert len(set(peers(server))) == 1


@pytest.mark.parametrize("first", [half(POD), hang])
async def test_a_connection_with_an_unfinished_response_is_not_reused(server: FaultServer, client: Client, first) -> None:
    server.on(f"GET {ONE}", first, answer(200, {"metadata": {"name": "second"}}))
    with contextlib.suppress(ConnectionFailed):
        await client.request("GET", ONE, once=True, deadline=Deadline.after(0.2))
    assert (await client.get(PODS, KEY))["metadata"]["name"] == "second"
    assert len(set(peers(server))) == 2


async def test_a_late_response_to_a_cancelled_request_does_not_answer_the_next_request(
    server: FaultServer, client: Client
) -> None:
    late = asyncio.Event()

    async def slow(got: Got) -> None:
        await late.wait()
        await answer(200, {"metadata": {"name": "late"}})(got)

    server.on(f"GET {ONE}", slow, answer(200, POD))
    asking = asyncio.ensure_future(client.get(PODS, KEY))
    while not server.requests:
        await asyncio.sleep(0.01)
    await ended(asking)
    late.set()
    assert await client.get(PODS, KEY) == POD


async def test_the_connection_of_a_closed_watch_is_not_reused(server: FaultServer, client: Client) -> None:
    server.on("WATCH /api/v1/pods", Watch({"type": "ADDED", "object": POD}))
    server.on(f"GET {ONE}", answer(200, POD))
    async with contextlib.aclosing(client.watch(PODS, "", {}, silence=5.0)) as batches:
        async for lines in batches:
            if lines:
                break
    assert await client.get(PODS, KEY) == POD
    assert len(set(peers(server))) == 2


async def test_a_1xx_response_is_skipped_before_the_final_response(server: FaultServer, client: Client) -> None:
    async def step(got: Got) -> None:
        got.start(103, {"Link": "</style.css>"})
        await answer(200, POD)(got)

    server.on(f"GET {ONE}", step)
    assert await client.get(PODS, KEY) == POD


async def test_a_large_body_arrives_whole(server: FaultServer, client: Client) -> None:
    body = {"metadata": {"name": "p", "namespace": "ns", "annotations": {"a": "x" * 3_000_000}}}
    server.on(f"PUT {ONE}", answer(200, POD))
    await client.update(PODS, body)
    assert server.requests[0].json == body
    await client.update(PODS, POD)
    assert server.requests[1].json == POD


async def test_a_multi_line_authorization_header_is_refused_before_sending(server: FaultServer) -> None:
    config = ClusterConfig(server.url, credentials=StaticCredentials("Bearer a\r\nX-Evil: 1"))
    async with Client(config) as client:
        with pytest.raises(ConnectionFailed, match="Authorization is not one line of text") as caught:
            await client.request("GET", ONE, once=True)
    assert not caught.value.sent
    assert server.requests == []


async def test_a_proxy_receives_the_absolute_url_and_its_credentials(server: FaultServer) -> None:
    server.on(f"GET /prefix{ONE}", answer(200, POD))
    config = ClusterConfig("http://api.example.org:6443/prefix", proxy=server.url.replace("//", "//user:word@"))
    async with Client(config) as client:
        for _ in range(2):
            assert await client.get(PODS, KEY) == POD
    assert [got.target for got in server.requests] == [f"http://api.example.org:6443/prefix{ONE}"] * 2
    assert {got.headers["host"] for got in server.requests} == {"api.example.org:6443"}
    assert {got.headers["proxy-authorization"] for got in server.requests} == {"Basic dXNlcjp3b3Jk"}
    assert len(set(peers(server))) == 1


async def test_a_proxy_makes_a_tunnel_to_a_server_with_tls(tmp_path: Path) -> None:
    authority = Authority()
    asked: list[bytes] = []
    tunnels: list[asyncio.Task[None]] = []

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        host, _, port = asked[-1].split()[1].decode().partition(":")
        behind, onward = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        tunnels.extend([asyncio.ensure_future(pipe(reader, onward)), asyncio.ensure_future(pipe(behind, writer))])

    async def handle(request: web.BaseRequest) -> web.Response:
        return web.json_response({"path": request.path, "authorization": request.headers.get("Authorization", "")})

    async with serving(handle, authority.tls(tmp_path)) as url, await asyncio.start_server(proxy, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        config = ClusterConfig(
            url,
            authority=Pem(data=authority.pem),
            credentials=StaticCredentials.token("secret"),
            proxy=f"http://127.0.0.1:{port}",
        )
        async with Client(config) as client:
            for _ in range(2):
                assert await client.get(PODS, KEY) == {"path": ONE, "authorization": "Bearer secret"}
        await asyncio.wait(tunnels)
    assert len(asked) == 1
    assert asked[0].startswith(b"CONNECT localhost:")
    assert b"secret" not in asked[0]


async def test_an_untrusted_server_certificate_fails_before_the_request_is_sent(tmp_path: Path) -> None:
    async def handle(_: web.BaseRequest) -> web.Response:
        return web.json_response({})

    config = ClusterConfig("", authority=Pem(data=Authority().pem))
    async with serving(handle, Authority().tls(tmp_path)) as url, Client(replace(config, server=url)) as client:
        with pytest.raises(KubeError) as caught:
            await client.request("GET", ONE, once=True)
    assert isinstance(caught.value, ConnectionFailed)
    assert not caught.value.sent

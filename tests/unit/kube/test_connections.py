"""Which connections are used again, what goes over them, and ways to the server that lead through a proxy."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aiohttp import web
from structlog.testing import capture_logs

from pyroclast.api.records.pods import Pod
from pyroclast.api.types import PODS, Key
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import Conflict, ConnectionFailed, KubeError, NotFound
from pyroclast.kube.credentials.authorization import StaticCredentials
from pyroclast.kube.credentials.certificates import Pem
from pyroclast.kube.credentials.config import ClusterConfig, ConfigError
from pyroclast.kube.http import servers
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.workqueue.queue import WorkQueue, run_workers
from pyroclast.runtime.listener import Listener
from tests.unit.ending import ended
from tests.unit.kube.authority import Authority, serving
from tests.unit.kube.fault_server import FaultServer, Got, Watch, answer, cut, half, hang, status

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


async def test_credentials_appear_in_no_log_line_error_or_representation() -> None:
    config = ClusterConfig(
        "http://127.0.0.1:1", credentials=StaticCredentials("Bearer very-secret"), key=Pem(data=b"very-secret")
    )
    with capture_logs() as lines:
        async with Client(config, max_attempts=2) as client:
            with pytest.raises(KubeError) as failed:
                await client.request("GET", ONE)
    assert "very-secret" not in f"{lines} {failed.value} {failed.value!r} {config!r} {client!r}"


async def test_an_untrusted_server_certificate_fails_before_the_request_is_sent(tmp_path: Path) -> None:
    async def handle(_: web.BaseRequest) -> web.Response:
        return web.json_response({})

    config = ClusterConfig("", authority=Pem(data=Authority().pem))
    async with serving(handle, Authority().tls(tmp_path)) as url, Client(replace(config, server=url)) as client:
        with pytest.raises(KubeError) as caught:
            await client.request("GET", ONE, once=True)
    assert isinstance(caught.value, ConnectionFailed)
    assert not caught.value.sent


@dataclass
class Cluster:
    """An API server with ConfigMaps, which refuses to list the Jobs of `hidden`, and servers that explain, by status and text."""

    hidden: frozenset[str] = frozenset()
    config_maps: dict[str, str] = field(default_factory=dict)
    explains: dict[str, tuple[int, Any]] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    user: str = "ann"
    may_make_tokens: bool = True

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if path.endswith("/selfsubjectaccessreviews"):
            namespace = (await request.json())["spec"]["resourceAttributes"]["namespace"]
            may = not self.hidden if not namespace else namespace not in self.hidden
            return web.json_response({"status": {"allowed": may}}, status=201)
        if "/configmaps/" in path:
            url = self.config_maps.get(path.rpartition("/")[2])
            return web.json_response({"data": {"url": url}} if url else {"message": "no ConfigMap"}, status=200 if url else 404)
        if path.endswith("/selfsubjectreviews"):
            return web.json_response({"status": {"userInfo": {"username": self.user}}}, status=201)
        if path.endswith("/serviceaccounts/ann/token"):
            made = {"status": {"token": ",".join((await request.json())["spec"]["audiences"])}}
            return web.json_response(
                made if self.may_make_tokens else {"message": "no"}, status=201 if self.may_make_tokens else 403
            )
        server = path.split("/")[1]
        self.authorizations.append(request.headers.get("Authorization", ""))
        self.asked.append((request.method, path, await request.text()))
        status, answer = self.explains[server]
        if isinstance(answer, str):
            return web.Response(status=status, text=answer, content_type="text/html")
        return web.json_response(answer, status=status)


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def explaining(cluster: Cluster) -> AsyncIterator[Client]:
    listener = Listener(cluster)
    await listener.start("127.0.0.1", 0)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(listener.stop)
        yield await stack.enter_async_context(Client(ClusterConfig(f"http://127.0.0.1:{listener.port}"), max_attempts=1))


DOCUMENT = {"metadata": {"namespace": "a", "name": "j"}, "code": "QueueFull"}
CASES = {
    "an answer": ({"one": (200, DOCUMENT)}, DOCUMENT, "", False),
    "a page of a board that explains nothing": ({"one": (405, "<html>"), "two": (200, DOCUMENT)}, DOCUMENT, "", False),
    "the first is busy": ({"one": (503, {"message": "stands by"}), "two": (200, DOCUMENT)}, DOCUMENT, "", False),
    "nobody waits": ({"one": (404, {"message": "no"}), "two": (200, DOCUMENT)}, None, "", False),
    "refused": ({"one": (400, {"message": "no Job"})}, None, "gives no answer: no Job", True),
    "forbidden": ({"one": (403, {"message": "not you"})}, None, "gives no answer: not you", False),
    "something else answers": ({"one": (200, "hello")}, None, "gives no answer: ", False),
    "no server": ({}, None, "", False),
}


@pytest.mark.parametrize(("explains", "want", "complaint", "is_refused"), CASES.values(), ids=CASES)
async def test_the_first_server_that_explains_answers(
    cluster: Cluster, explaining: Client, explains, want, complaint, is_refused
):
    cluster.explains = explains
    urls = [f"{explaining.config.server}/{name}" for name in explains]
    answer = await servers.explained(explaining, urls, "fits", body={"kind": "Job"})
    assert (answer.document, answer.is_refused) == (want, is_refused)
    assert complaint in answer.complaint
    assert bool(answer.complaint) is bool(complaint)
    assert all((method, body) == ("POST", '{"kind":"Job"}') for method, _, body in cluster.asked)


ACCOUNT, OWN = "system:serviceaccount:team:ann", f"Bearer {','.join(servers.AUDIENCES)}"


@pytest.mark.parametrize(
    ("user", "may", "given", "host", "want"),
    [
        ("ann", True, "", "127.0.0.1", OWN),
        ("ann", False, "", "127.0.0.1", ""),
        (ACCOUNT, True, "", "127.0.0.1", OWN),
        (ACCOUNT, False, "", "127.0.0.1", ""),
        ("ann", True, "own", "127.0.0.1", "Bearer own"),
        (ACCOUNT, True, "own", "0.0.0.0", ""),
    ],
)
async def test_no_other_server_gets_credentials_of_the_api_server(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, user: str, may: bool, given: str, host: str, want: str
):
    cluster.user, cluster.may_make_tokens, cluster.explains = user, may, {"one": (200, {})}
    if given:
        (tmp_path / "token").write_text(f"{given}\n")
        monkeypatch.setenv("PYROCLAST_TOKEN_FILE", str(tmp_path / "token"))
    listener = Listener(cluster)
    await listener.start("0.0.0.0", 0)
    config = ClusterConfig(f"http://127.0.0.1:{listener.port}", credentials=StaticCredentials("Bearer secret"))
    try:
        async with Client(config, max_attempts=1) as client:
            await servers.request(client, f"http://{host}:{listener.port}", "/one", {})
    finally:
        await listener.stop()
    assert cluster.authorizations == [want]


async def test_jobs_of_namespaces_that_the_user_may_not_list_are_counted(cluster: Cluster, explaining: Client):
    cluster.hidden = frozenset({"secret"})
    named = [{"namespace": "secret", "name": "x"}, {"namespace": "open", "name": "y"}]
    cluster.explains = {
        "one": (
            200,
            {**DOCUMENT, "ahead": {"jobs": named, "others": 1}, "holders": named, "items": [dict(each) for each in named]},
        )
    }
    answer = (await servers.explained(explaining, [f"{explaining.config.server}/one"], "jobs", "a", "j")).document
    assert answer is not None
    assert answer["ahead"] == {"jobs": named[1:], "others": 2}
    assert answer["holders"] == [{"namespace": None, "name": None, "others": 1}, named[1]]
    assert answer["items"] == [{"namespace": None, "name": None}, named[1]]


async def test_servers_are_found_by_flag_variable_or_config_map(cluster: Cluster, explaining: Client, monkeypatch):
    monkeypatch.delenv("PYROCLAST_BOARD", raising=False)
    assert await servers.explainers(explaining) == []
    cluster.config_maps = {"pyroclast-board": "http://board/", "pyroclast-scheduler": "http://scheduler"}
    assert await servers.explainers(explaining) == ["http://board", "http://scheduler"]
    monkeypatch.setenv("PYROCLAST_BOARD", "https://variable")
    assert (await servers.explainers(explaining))[0] == "https://variable"
    assert (await servers.explainers(explaining, "http://flag"))[0] == "http://flag"
    with pytest.raises(ConfigError, match='--board: "flag" is no URL'):
        await servers.explainers(explaining, "flag")


async def delays_and_retries() -> None:
    queue: WorkQueue[str] = WorkQueue(first_delay=0.01)
    done: list[str] = []

    async def reconcile(key: str) -> None:
        done.append(key)
        if done.count(key) < 3:
            queue.add_rate_limited(key)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        working = group.create_task(run_workers(queue, reconcile, 2))
        queue.add_after("later", 0.05)
        queue.add_after("soon", 0.02)
        queue.add("now")
        while len(done) < 9:
            await asyncio.sleep(0.01)
        queue.add_after("never", 0.01)
        queue.close()
        await working
    assert done[0] == "now"
    assert sorted(done) == ["later"] * 3 + ["now"] * 3 + ["soon"] * 3


async def list_and_watch() -> None:
    item = {"metadata": {"namespace": "ns", "name": "a", "uid": "u", "resourceVersion": "6"}}
    async with FaultServer() as server, server.client() as client:
        server.on("GET /api/v1/pods", cut, answer(200, {"metadata": {"resourceVersion": "5"}, "items": []}))
        server.on("WATCH /api/v1/pods", Watch().cut(), Watch({"type": "ADDED", "object": item}))
        await informed(client)


async def informed(client: Client) -> None:
    informer = Informer(client, PODS, Pod)
    running = asyncio.ensure_future(informer.run())
    async with asyncio.timeout(60):
        while not len(informer):
            await asyncio.sleep(0.01)
    await ended(running)


async def connecting_while_the_number_of_the_socket_is_taken() -> None:
    """Under load sockets were seen to be closed twice: then a new one gets a number that another transport still has."""
    async with FaultServer() as server, server.client() as client:
        server.on("GET /version", answer(200, {}))
        _, other = await asyncio.open_connection("127.0.0.1", server.port)
        with next_socket_has(other.get_extra_info("socket").fileno()), pytest.raises(ConnectionFailed):
            await client.request("GET", "/version", once=True)
        assert await client.request("GET", "/version", deadline=Deadline.after(5.0)) == b"{}"
        other.close()


@contextlib.contextmanager
def next_socket_has(number: int) -> Iterator[None]:
    """Close what has that number, without telling who uses it; it is as it was afterwards."""
    kept, below = os.dup(number), []
    while below[-1:] < [number]:
        below.append(os.dup(kept))
    for each in (number, *(each for each in below if each > number)):
        os.close(each)
    try:
        yield
    finally:
        os.dup2(kept, number)
        for each in (kept, *(each for each in below if each < number)):
            os.close(each)


@pytest.mark.parametrize("scenario", [delays_and_retries, list_and_watch, connecting_while_the_number_of_the_socket_is_taken])
def test_work_queue_informer_and_client_work_on_uvloop(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    uvloop.run(scenario())

"""The first server that explains, as the user may see it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from pyroclast.kube.credentials.config import ClusterConfig, ConfigError
from pyroclast.kube.http import servers
from pyroclast.kube.http.client import Client
from pyroclast.runtime.listener import Listener


@dataclass
class Cluster:
    """An API server with ConfigMaps, which refuses to list the Jobs of `hidden`, and servers that explain, by status and text."""

    hidden: frozenset[str] = frozenset()
    config_maps: dict[str, str] = field(default_factory=dict)
    explains: dict[str, tuple[int, Any]] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if path.endswith("/selfsubjectaccessreviews"):
            namespace = (await request.json())["spec"]["resourceAttributes"]["namespace"]
            may = not self.hidden if not namespace else namespace not in self.hidden
            return web.json_response({"status": {"allowed": may}}, status=201)
        if "/configmaps/" in path:
            url = self.config_maps.get(path.rpartition("/")[2])
            return web.json_response({"data": {"url": url}} if url else {"message": "no ConfigMap"}, status=200 if url else 404)
        server = path.split("/")[1]
        self.asked.append((request.method, path, await request.text()))
        status, answer = self.explains[server]
        if isinstance(answer, str):
            return web.Response(status=status, text=answer, content_type="text/html")
        return web.json_response(answer, status=status)


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
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
async def test_the_first_server_that_explains_answers(cluster: Cluster, client: Client, explains, want, complaint, is_refused):
    cluster.explains = explains
    urls = [f"{client.config.server}/{name}" for name in explains]
    answer = await servers.explained(client, urls, "fits", body={"kind": "Job"})
    assert (answer.document, answer.is_refused) == (want, is_refused)
    assert complaint in answer.complaint
    assert bool(answer.complaint) is bool(complaint)
    assert all((method, body) == ("POST", '{"kind":"Job"}') for method, _, body in cluster.asked)


async def test_jobs_of_namespaces_that_the_user_may_not_list_are_counted(cluster: Cluster, client: Client):
    cluster.hidden = frozenset({"secret"})
    named = [{"namespace": "secret", "name": "x"}, {"namespace": "open", "name": "y"}]
    cluster.explains = {
        "one": (
            200,
            {**DOCUMENT, "ahead": {"jobs": named, "others": 1}, "holders": named, "items": [dict(each) for each in named]},
        )
    }
    answer = (await servers.explained(client, [f"{client.config.server}/one"], "jobs", "a", "j")).document
    assert answer is not None
    assert answer["ahead"] == {"jobs": named[1:], "others": 2}
    assert answer["holders"] == [{"namespace": None, "name": None, "others": 1}, named[1]]
    assert answer["items"] == [{"namespace": None, "name": None}, named[1]]


async def test_servers_are_found_by_flag_variable_or_config_map(cluster: Cluster, client: Client, monkeypatch):
    monkeypatch.delenv("PYROCLAST_BOARD", raising=False)
    assert await servers.explainers(client) == []
    cluster.config_maps = {"pyroclast-board": "http://board/", "pyroclast-scheduler": "http://scheduler"}
    assert await servers.explainers(client) == ["http://board", "http://scheduler"]
    monkeypatch.setenv("PYROCLAST_BOARD", "https://variable")
    assert (await servers.explainers(client))[0] == "https://variable"
    assert (await servers.explainers(client, "http://flag"))[0] == "http://flag"
    with pytest.raises(ConfigError, match='--board: "flag" is no URL'):
        await servers.explainers(client, "flag")

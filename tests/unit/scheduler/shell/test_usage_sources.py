"""Measurements of nodes, against real HTTP servers."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from pyroclast.kube.credentials.config import ClusterConfig
from pyroclast.kube.http.client import Client
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.shell import usage as collecting
from pyroclast_scheduler.shell.usage import BadAnswer, Collector, read_adaptor, read_elasticsearch, read_prometheus
from tests.unit.logs import captured


class Server:
    """Answers what `answer` says; `asked` are the requests: path, and form or JSON."""

    def __init__(self) -> None:
        self.answer: Any = {}
        self.status = 200
        self.body = b""
        self.asked: list[tuple[str, dict[str, Any], str]] = []

    async def handle(self, request: web.Request) -> web.Response:
        sent = await request.json() if request.content_type == "application/json" else dict(await request.post())
        self.asked.append((request.path, sent, request.headers.get("Authorization", "")))
        if self.body:
            return web.Response(body=self.body, headers={"Content-Encoding": "gzip"}, content_type="application/json")
        answer = self.answer(request.path, sent) if callable(self.answer) else self.answer
        return web.json_response(answer, status=self.status)


@pytest.fixture
async def server() -> AsyncIterator[tuple[Server, str]]:
    found = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.handle)
    async with TestServer(app) as running:
        yield found, str(running.make_url("")).rstrip("/")


def collector(url: str, clock: list[float], **metrics: str) -> Collector:
    settings = Configuration(
        (), (), metrics={"address": url, **{key.replace("__", "."): value for key, value in metrics.items()}}
    )
    return Collector(Client(ClusterConfig(server=url)), lambda: settings, now=lambda: clock[0])


def vector(**values: str) -> dict[str, Any]:
    rows = [{"metric": {"instance": name}, "value": [0, value]} for name, value in values.items()]
    return {"status": "success", "data": {"resultType": "vector", "result": rows}}


async def test_prometheus_usage_is_read_per_node_without_nan_values(server):
    found, url = server
    found.answer = lambda _, sent: vector(a="12.5", b="NaN") if "cpu" in sent["query"] else {**vector(a="40")}
    usage = collector(url, [7.0], type="prometheus")
    await usage.collect()
    (node,) = usage.usage().values()
    assert (node.cpu, node.memory, node.measured) == ({"10m": 12.5}, {"10m": 40.0}, 7.0)
    assert [path for path, *_ in found.asked] == ["/api/v1/query"] * 2


async def test_last_node_usage_is_kept_while_the_metrics_source_fails(server):
    found, url = server
    found.answer = vector(a="1")
    clock = [1.0]
    usage = collector(url, clock, type="prometheus")
    await usage.collect()
    found.status, clock[0] = 500, 2.0
    await usage.collect()
    assert usage.usage()["a"].measured == 1.0
    found.status = 200
    await usage.collect()
    assert usage.usage()["a"].measured == 2.0


async def test_elasticsearch_usage_is_read_as_percent_with_the_configured_login_and_field(server):
    found, url = server
    bucket = {"key": "a", "cpu": {"value": 0.25}, "memory": {"value": 0.5}}
    found.answer = {"aggregations": {"nodes": {"buckets": [bucket, {"key": "b", "cpu": {"value": None}}]}}}
    names = {"elasticsearch__username": "u", "elasticsearch__password": "p", "elasticsearch__hostnameFieldName": "node"}
    usage = collector(url, [0.0], type="elasticsearch", **names)
    await usage.collect()
    assert usage.usage()["a"].cpu == {"10m": 25.0}
    assert usage.usage()["a"].memory == {"10m": 50.0}
    ((path, sent, login),) = found.asked
    assert path == "/metricbeat-*/_search"
    assert sent["aggs"]["nodes"]["terms"]["field"] == "node"
    assert login.startswith("Basic ")


async def test_custom_metrics_api_usage_is_read_as_percent(server):
    found, url = server
    found.answer = lambda path, _: {
        "items": [{"describedObject": {"name": "a"}, "value": "250m" if "cpu" in path else "1"}, {"describedObject": {}}]
    }
    settings = Configuration((), (), metrics={"type": "prometheus_adaptor"})
    async with Client(ClusterConfig(server=url)) as client:
        usage = Collector(client, lambda: settings)
        await usage.collect()
    assert usage.usage()["a"].cpu == {"10m": 25.0}
    assert usage.usage()["a"].memory == {"10m": 100.0}


@pytest.mark.parametrize(
    ("metrics", "says"),
    [({"type": "graphite"}, "there are: elasticsearch, prometheus"), ({"type": "prometheus", "address": ""}, "address")],
)
async def test_an_unusable_metrics_source_is_logged_and_yields_no_usage(metrics, says, monkeypatch):
    events = captured(monkeypatch, collecting)
    settings = Configuration((), (), metrics=metrics)
    usage = Collector(Client(ClusterConfig(server="http://127.0.0.1:1")), lambda: settings)
    await usage.collect()
    assert usage.usage() == {}
    assert says in str(events)


async def test_a_compressed_answer_that_becomes_very_large_is_not_read_to_its_end(server, monkeypatch):
    found, url = server
    found.body = gzip.compress(b" " * 1_000_000)
    monkeypatch.setattr(collecting, "_LARGEST", 10_000)
    events = captured(monkeypatch, collecting)
    usage = collector(url, [0.0], type="prometheus")
    await usage.collect()
    assert usage.usage() == {}
    assert "answered more than" in str(events)


def test_malformed_prometheus_rows_are_ignored():
    rows = [None, {"metric": {}}, {"metric": {"instance": "a:9100"}, "value": [0, "3"]}, {"metric": {"instance": 3}, "value": []}]
    assert read_prometheus({"status": "success", "data": {"result": rows}}) == {"a": 3.0}


UNUSABLE = {
    read_prometheus: [{}, {"status": "error", "error": "bad"}, {"status": "success", "data": []}],
    read_adaptor: [b"", b"[]", b"{}"],
    read_elasticsearch: [{}, {"aggregations": None}, {"aggregations": {"nodes": {"buckets": [3]}}}],
}


@pytest.mark.parametrize(("read", "answer"), [(read, answer) for read, answers in UNUSABLE.items() for answer in answers])
def test_a_response_without_measurements_raises_badanswer(read, answer):
    with pytest.raises(BadAnswer):
        read(answer)

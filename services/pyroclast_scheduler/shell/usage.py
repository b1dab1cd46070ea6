"""Measurements of the real usage of nodes, collected in the background for plugins such as usage and rescheduling.

Sources are Prometheus, an adaptor that serves the custom metrics API, and Elasticsearch, where Metricbeat stores measurements.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import aiohttp
import orjson
import structlog

from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.transport import BROKEN
from pyroclast.resources import durations, quantity
from pyroclast.runtime.bodies import read_at_most
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.ports import NodeUsage

log = structlog.get_logger()


Measured = tuple[dict[str, float], dict[str, float]]
"""Cpu and memory in percent of the capacity of the node, each by name of the node."""
Source = Callable[[aiohttp.ClientSession, Mapping[str, str]], Awaitable[Measured]]
_LARGEST: Final = 100 << 20
"""The largest size of a response in bytes."""
_CPU_QUERY: Final = (
    'avg_over_time(clamp_min(100 - (avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m])) * 100), 0)[10m:30s])'
)
_MEMORY_QUERY: Final = "100*avg_over_time(((1-node_memory_MemAvailable_bytes/node_memory_MemTotal_bytes))[10m:30s])"
_INDEX: Final = "metricbeat-*"
_HOST: Final = "host.hostname"
_NODES: Final = 10_000
_PATH: Final = "/apis/custom.metrics.k8s.io/v1beta1/nodes/*/"
_WINDOW: Final = "10m"
_DEFAULT_SECONDS: Final = 30.0
_PATIENCE_SECONDS: Final = 60.0
_IDLE_SECONDS: Final = 5.0


class BadAnswer(Exception):
    """A source gave no usable response; the message says why."""


async def asked(session: aiohttp.ClientSession, settings: Mapping[str, str], path: str, **request: Any) -> dict[str, Any]:  # noqa: ANN401 - aiohttp's
    """Return the JSON object of the response to a POST to `path`, or raise BadAnswer. Certificates may be left unchecked."""
    url = settings["address"].rstrip("/") + path
    verify = settings.get("tls.insecureSkipVerify", "").lower() != "true"
    async with session.post(url, ssl=verify, **request) as response:
        body = await read_at_most(response.content, _LARGEST)
        if body is None:
            raise BadAnswer(f"{url} answered more than {_LARGEST >> 20} MiB")
        if response.status != 200:
            raise BadAnswer(f"{url} answered {response.status} {response.reason}")
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadAnswer(f"{url}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadAnswer(f"{url} answered no JSON object")
    return found


def number(value: object) -> float | None:
    """Return a finite number, also from text; None for other values."""
    try:
        found = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        return None
    return found if math.isfinite(found) else None


async def prometheus_measured(session: aiohttp.ClientSession, settings: Mapping[str, str]) -> Measured:
    """Return averages over ten minutes. The label `instance` must be the name of the node, with or without a port."""
    cpu = read_prometheus(await asked(session, settings, "/api/v1/query", data={"query": _CPU_QUERY}))
    return cpu, read_prometheus(await asked(session, settings, "/api/v1/query", data={"query": _MEMORY_QUERY}))


def read_prometheus(answer: Mapping[str, Any]) -> dict[str, float]:
    """Return the values of an instant query by node. Malformed rows are ignored, a malformed response is a BadAnswer."""
    if answer.get("status") != "success":
        raise BadAnswer(f"the query failed: {answer.get('error', 'no reason given')}")
    data = answer.get("data")
    rows = data.get("result") if isinstance(data, dict) else None
    if not isinstance(rows, list):
        raise BadAnswer("the query answered no vector")
    found: dict[str, float] = {}
    for row in rows:
        try:
            name, value = row["metric"]["instance"].rpartition(":"), number(row["value"][1])
        except (TypeError, KeyError, IndexError, AttributeError):
            continue
        if value is not None:
            found.setdefault(name[0] or name[2], value)
    return found


async def elasticsearch_measured(session: aiohttp.ClientSession, settings: Mapping[str, str]) -> Measured:
    """Return averages over ten minutes. Settings: `elasticsearch.index`, `.username`, `.password` and `.hostnameFieldName`."""
    user = settings.get("elasticsearch.username")
    headers = {"Authorization": aiohttp.encode_basic_auth(user, settings.get("elasticsearch.password", ""))} if user else {}
    index, host = settings.get("elasticsearch.index") or _INDEX, settings.get("elasticsearch.hostnameFieldName") or _HOST
    return read_elasticsearch(await asked(session, settings, f"/{index}/_search", json=_query(host), headers=headers))


def _query(host: str) -> dict[str, Any]:
    averages = {
        "cpu": {"avg": {"field": "host.cpu.usage"}},
        "memory": {"avg": {"field": "system.memory.actual.used.pct"}},
    }
    return {
        "size": 0,
        "query": {"range": {"@timestamp": {"gte": "now-10m"}}},
        "aggs": {"nodes": {"terms": {"field": host, "size": _NODES}, "aggs": averages}},
    }


def read_elasticsearch(answer: Mapping[str, Any]) -> Measured:
    """Return percentages by node. Malformed entries are ignored, a malformed response is a BadAnswer."""
    try:
        buckets = answer["aggregations"]["nodes"]["buckets"]
        rows = [(str(each["key"]), each) for each in buckets]
    except (TypeError, KeyError):
        raise BadAnswer("the search answered no averages by node") from None
    found: Measured = {}, {}
    for name, row in rows:
        for kind, values in zip(("cpu", "memory"), found, strict=True):
            average = row.get(kind)
            value = number(average.get("value")) if isinstance(average, dict) else None
            if value is not None:
                values[name] = value * 100
    return found


async def adaptor_measured(client: Client) -> Measured:
    """Return the metrics `node_cpu_usage_avg` and `node_memory_usage_avg` of all nodes, which are fractions of 1, in percent."""
    cpu = read_adaptor(await client.request("GET", f"{_PATH}node_cpu_usage_avg"))
    return cpu, read_adaptor(await client.request("GET", f"{_PATH}node_memory_usage_avg"))


def read_adaptor(body: bytes) -> dict[str, float]:
    """Return percentages by node from a MetricValueList. Malformed entries are ignored, another response is a BadAnswer."""
    try:
        items: Any = orjson.loads(body)["items"]
    except (orjson.JSONDecodeError, TypeError, KeyError):
        raise BadAnswer("the custom metrics API answered no list of metrics") from None
    found: dict[str, float] = {}
    for item in items if isinstance(items, list) else ():
        try:
            name, value = item["describedObject"]["name"], quantity.parse(item["value"])
        except (TypeError, KeyError, quantity.QuantityError):
            continue
        found[name] = value.millis / 10
    return found


class Collector:
    """The last measurements of all nodes, which stay if a source fails. `configuration`: read before each collection."""

    def __init__(
        self, client: Client, configuration: Callable[[], Configuration], *, now: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._configuration = configuration
        self._now = now
        self._usage: Mapping[str, NodeUsage] = {}
        self._trouble = ""

    def usage(self) -> Mapping[str, NodeUsage]:
        """Return the measurements by node; empty if there are none yet."""
        return self._usage

    async def run(self) -> None:
        """Collect at intervals until cancelled."""
        while True:
            settings = self._configuration().metrics
            if settings.get("type"):
                await self.collect()
            elif self._usage:
                self._usage = {}
            await asyncio.sleep(_interval(settings) if settings.get("type") else _IDLE_SECONDS)

    async def collect(self) -> None:
        """Collect once. A problem is logged when it begins, changes or ends."""
        settings = self._configuration().metrics
        trouble = ""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                measured = await self._measured(settings)
            self._usage = _usage(measured, self._now())
        except (BadAnswer, KubeError, ValueError, *BROKEN) as error:
            trouble = str(error) or type(error).__name__
        if trouble != self._trouble:
            self._trouble = trouble
            if trouble:
                log.warning("usage.not_measured", source=settings.get("type"), error=trouble)
            else:
                log.info("usage.measured_again", source=settings.get("type"), nodes=len(self._usage))

    async def _measured(self, settings: Mapping[str, str]) -> Measured:
        kind = settings["type"]
        if kind == "prometheus_adaptor":
            return await adaptor_measured(self._client)
        source = _SOURCES.get(kind)
        if source is None:
            raise BadAnswer(
                f"metrics.type {kind!r} is unknown (there are: {', '.join(sorted([*_SOURCES, 'prometheus_adaptor']))})"
            )
        if not settings.get("address"):
            raise BadAnswer("metrics.address is missing")
        async with aiohttp.ClientSession() as session:
            return await source(session, settings)


_SOURCES: Final[Mapping[str, Source]] = {"elasticsearch": elasticsearch_measured, "prometheus": prometheus_measured}


def _usage(measured: Measured, now: float) -> dict[str, NodeUsage]:
    cpu, memory = measured
    return {
        name: NodeUsage({_WINDOW: cpu.get(name, 0.0)}, {_WINDOW: memory.get(name, 0.0)}, now)
        for name in cpu.keys() | memory.keys()
    }


def _interval(settings: Mapping[str, str]) -> float:
    seconds = durations.seconds(settings.get("interval", "")) or 0.0
    return seconds if seconds > 0 else _DEFAULT_SECONDS

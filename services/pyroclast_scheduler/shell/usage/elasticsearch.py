"""Measurements from Elasticsearch, where Metricbeat stores them: one search for all nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import aiohttp

from pyroclast_scheduler.shell.usage.sources import BadAnswer, Measured, asked, number

_INDEX: Final = "metricbeat-*"
_HOST: Final = "host.hostname"
_NODES: Final = 10_000


async def measured(session: aiohttp.ClientSession, settings: Mapping[str, str]) -> Measured:
    """Return averages over ten minutes.

    Settings: `elasticsearch.index`, `.username`, `.password` and `.hostnameFieldName`.

    Raises:
        BadAnswer: see `sources.asked`.
    """
    user = settings.get("elasticsearch.username")
    headers = {"Authorization": aiohttp.encode_basic_auth(user, settings.get("elasticsearch.password", ""))} if user else {}
    index, host = settings.get("elasticsearch.index") or _INDEX, settings.get("elasticsearch.hostnameFieldName") or _HOST
    return read(await asked(session, settings, f"/{index}/_search", json=_query(host), headers=headers))


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


def read(answer: Mapping[str, Any]) -> Measured:
    """Return percentages by node. Malformed entries are ignored.

    Raises:
        BadAnswer: the response has another structure.
    """
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

"""Measurements from the node exporter in Prometheus: one query over all nodes for cpu and one for memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import aiohttp

from pyroclast_scheduler.shell.usage.sources import BadAnswer, Measured, asked, number

_CPU: Final = (
    'avg_over_time(clamp_min(100 - (avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m])) * 100), 0)[10m:30s])'
)
_MEMORY: Final = "100*avg_over_time(((1-node_memory_MemAvailable_bytes/node_memory_MemTotal_bytes))[10m:30s])"


async def measured(session: aiohttp.ClientSession, settings: Mapping[str, str]) -> Measured:
    """Return averages over ten minutes. The label `instance` must be the name of the node, with or without a port.

    Raises:
        BadAnswer: see `sources.asked`; or the query failed.
    """
    cpu = read(await asked(session, settings, "/api/v1/query", data={"query": _CPU}))
    return cpu, read(await asked(session, settings, "/api/v1/query", data={"query": _MEMORY}))


def read(answer: Mapping[str, Any]) -> dict[str, float]:
    """Return the values of an instant query by node. Malformed rows are ignored.

    Raises:
        BadAnswer: the query failed, or the response has another structure.
    """
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

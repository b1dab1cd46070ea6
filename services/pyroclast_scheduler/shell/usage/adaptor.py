"""Measurements from the custom metrics API, as an adaptor of Prometheus serves it."""

from __future__ import annotations

from typing import Any, Final

import orjson

from pyroclast.kube.http.client import Client
from pyroclast.resources import quantity
from pyroclast_scheduler.shell.usage.sources import BadAnswer, Measured

_PATH: Final = "/apis/custom.metrics.k8s.io/v1beta1/nodes/*/"


async def measured(client: Client) -> Measured:
    """Return the metrics `node_cpu_usage_avg` and `node_memory_usage_avg` of all nodes, which are fractions of 1, in percent.

    Raises:
        KubeError: the API server refuses the request, or does not serve custom metrics.
        BadAnswer: the response is not a list of metrics.
    """
    cpu = read(await client.request("GET", f"{_PATH}node_cpu_usage_avg"))
    return cpu, read(await client.request("GET", f"{_PATH}node_memory_usage_avg"))


def read(body: bytes) -> dict[str, float]:
    """Return percentages by node from a MetricValueList. Malformed entries are ignored.

    Raises:
        BadAnswer: the body is not a MetricValueList.
    """
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

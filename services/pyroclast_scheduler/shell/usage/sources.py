"""Common code of the sources of measurements: requests and types of results."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import aiohttp
import orjson

from pyroclast.runtime.bodies import read_at_most

Measured = tuple[dict[str, float], dict[str, float]]
"""Cpu and memory in percent of the capacity of the node, each by name of the node."""

Source = Callable[[aiohttp.ClientSession, Mapping[str, str]], Awaitable[Measured]]

_LARGEST: Final = 100 << 20
"""The largest size of a response in bytes."""


class BadAnswer(Exception):
    """A source gave no usable response; the message says why."""


async def asked(session: aiohttp.ClientSession, settings: Mapping[str, str], path: str, **request: Any) -> dict[str, Any]:  # noqa: ANN401 - aiohttp's
    """Return the JSON object of the response to a POST to `address` + `path`.

    The setting `tls.insecureSkipVerify: "true"` accepts any certificate.

    Raises:
        BadAnswer: the status is not 200, or the response is not a JSON object.
    """
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

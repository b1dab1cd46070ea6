"""Asking the recorder, which keeps history and usage."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote, urlsplit

import orjson

from pyroclast.api.types import CONFIG_MAPS, Key
from pyroclast.kube.client import Client
from pyroclast.kube.config import ClusterConfig
from pyroclast.kube.credentials import Anonymous
from pyroclast.kube.errors import ApiError, ConnectionFailed, KubeError
from pyroclast_cli.context import Context, Failure
from pyroclast_cli.flags import Flag

__all__ = ["RECORDER", "WINDOW_FLAGS", "asked", "history_path"]

VARIABLE: Final = "PYROCLAST_RECORDER"
WRITTEN_DOWN: Final = Key("pyroclast-system", "pyroclast-recorder")
"""The ConfigMap in which `pyroclast up` writes where its recorder is."""

UNREACHABLE: Final = 5
PREFIX: Final = "/api/v1/"
HOW: Final = (
    "kubectl --namespace pyroclast-system port-forward service/pyroclast-recorder-service 8090:80, "
    "and then --recorder http://127.0.0.1:8090"
)
RECORDER: Final = Flag(
    "recorder", "", "", f"the URL of the recorder, by default what {VARIABLE} says or `pyroclast up` wrote down"
)
WINDOW_FLAGS: Final = (
    Flag("since", "", "7d", "from when: a time like 2026-03-01T00:00:00Z, or how long ago: 30m, 12h, 7d, 4w"),
    Flag("until", "", "", "until when, in the same forms; by default now"),
)


def history_path(*parts: str) -> str:
    """The path of what is asked for; parts come from users."""
    return PREFIX + "/".join(quote(part, safe="") for part in parts)


async def asked(context: Context, path: str, query: Mapping[str, str]) -> dict[str, Any]:
    """The answer of the recorder.

    Raises:
        Failure: it is not known where it is, it does not answer, or it refuses.
    """
    server = await _server(context)
    config = ClusterConfig(server, credentials=context.client.config.credentials)
    if not server.startswith("https:"):  # a token would be there for everybody on the way to read
        config = replace(config, credentials=Anonymous())
    given = {name: value for name, value in query.items() if value}
    try:
        async with Client(config, max_attempts=2, user_agent="vcctl") as client:
            answer: dict[str, Any] = orjson.loads(await client.request("GET", path, query=given))
            return answer
    except ApiError as error:
        raise Failure(f"the recorder refuses: {error.message}") from error
    except (ConnectionFailed, orjson.JSONDecodeError) as error:
        raise Failure(f"the recorder at {server} does not answer: {error}; try {HOW}", status=UNREACHABLE) from error


async def _server(context: Context) -> str:
    """Where the recorder is."""
    given = context.text("recorder") or os.environ.get(VARIABLE, "")
    if not given:
        try:
            written = await context.client.get(CONFIG_MAPS, WRITTEN_DOWN)
            given = str((written.get("data") or {}).get("url") or "")
        except KubeError:  # it is not there, or may not be read: the same to whoever asks
            given = ""
    if not given:
        raise Failure(f"it is not known where the recorder is: {HOW}", status=UNREACHABLE)
    if urlsplit(given).scheme not in {"http", "https"} or not urlsplit(given).netloc:
        raise Failure(f'--recorder: "{given}" is no URL like http://127.0.0.1:8090')
    return given.rstrip("/")

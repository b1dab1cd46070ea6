"""Requests to the board, which passes on explanations of the scheduler.

Without a board, commands use the objects of the cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

import orjson

from pyroclast.api.types import CONFIG_MAPS, Key
from pyroclast.kube.basics.errors import ApiError, KubeError, NotFound
from pyroclast_cli.context import Context
from pyroclast_cli.views.hidden_names import without_hidden_names
from pyroclast_cli.views.servers import Server, path_of

_BOARD: Final = Server(
    "board",
    "PYROCLAST_BOARD",
    Key("pyroclast-system", "pyroclast-board"),
    "kubectl --namespace pyroclast-system port-forward service/pyroclast-board-service 8091:80, "
    "and then --board http://127.0.0.1:8091",
)
_SCHEDULER: Final = Key("pyroclast-system", "pyroclast-scheduler")
PREFIX: Final = "/explain/"
LONGEST: Final = 300
BOARD: Final = _BOARD.flag


async def explained(
    context: Context, *parts: str, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """Return the scheduler's explanation of a Job or queue. None without a board, or when no session has examined it yet.

    `body` is a Job that does not exist, for a question whether it would start. When the board does not answer, a message on
    standard error says so, and the command uses the objects of the API server.

    Raises:
        Failure: the given address is not a URL.
    """
    complaint = ""
    for server in filter(None, (await _BOARD.find(context), await _scheduler(context))):
        try:
            answer = await _BOARD.request(context, server, path_of(PREFIX, *parts), query or {}, body)
            return await without_hidden_names(context.client, answer)
        except ApiError as error:
            if error.message.lstrip().startswith("<"):
                continue  # an HTML page: this board passes no explanations on
            if isinstance(error, NotFound):
                return None
            complaint = f"{server} gives no answer: {error.message}"
        except (KubeError, orjson.JSONDecodeError) as error:
            complaint = f"{server} gives no answer: {error}"
    if complaint:
        sys.stderr.write(f"this is from objects alone: {' '.join(complaint.split())[:LONGEST]}\n")
    return None


async def _scheduler(context: Context) -> str:
    """Return the URL of the scheduler of `pyroclast up`, which answers as the board does. Empty when it is unknown."""
    try:
        written = await context.client.get(CONFIG_MAPS, _SCHEDULER)
    except KubeError:  # the ConfigMap does not exist or the user may not read it
        return ""
    return str((written.get("data") or {}).get("url") or "")

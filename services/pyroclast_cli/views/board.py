"""Asking the board, which passes on what the scheduler alone knows; without one, objects must do."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

import orjson

from pyroclast.api.types import Key
from pyroclast.kube.errors import KubeError, NotFound
from pyroclast_cli.context import Context
from pyroclast_cli.views.servers import Server, path_of

__all__ = ["BOARD", "explained"]

_BOARD: Final = Server(
    "board",
    "PYROCLAST_BOARD",
    Key("pyroclast-system", "pyroclast-board"),
    "kubectl --namespace pyroclast-system port-forward service/pyroclast-board-service 8091:80, "
    "and then --board http://127.0.0.1:8091",
)
PREFIX: Final = "/explain/"
BOARD: Final = _BOARD.flag


async def explained(context: Context, *parts: str, query: Mapping[str, str] | None = None) -> dict[str, Any] | None:
    """What the scheduler knows of a Job or a queue; None where there is no board, or where no session has found out anything.

    A board that does not answer is said, and objects must do.

    Raises:
        Failure: what was given as its URL is none.
    """
    server = await _BOARD.find(context)
    if not server:
        return None
    try:
        return await _BOARD.request(context, server, path_of(PREFIX, *parts), query or {})
    except NotFound:
        return None
    except (KubeError, orjson.JSONDecodeError) as error:
        sys.stderr.write(f"the board at {server} gives no answer, so this is from objects alone: {error}\n")
        return None

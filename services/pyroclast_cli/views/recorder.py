"""Asking the recorder, which keeps history and usage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.api.types import Key
from pyroclast_cli.context import Context
from pyroclast_cli.flags import Flag
from pyroclast_cli.views.servers import Server, path_of

__all__ = ["RECORDER", "WINDOW_FLAGS", "asked", "history_path"]

_RECORDER: Final = Server(
    "recorder",
    "PYROCLAST_RECORDER",
    Key("pyroclast-system", "pyroclast-recorder"),
    "kubectl --namespace pyroclast-system port-forward service/pyroclast-recorder-service 8090:80, "
    "and then --recorder http://127.0.0.1:8090",
)
PREFIX: Final = "/api/v1/"
RECORDER: Final = _RECORDER.flag
WINDOW_FLAGS: Final = (
    Flag("since", "", "7d", "from when: a time like 2026-03-01T00:00:00Z, or how long ago: 30m, 12h, 7d, 4w"),
    Flag("until", "", "", "until when, in the same forms; by default now"),
)


def history_path(*parts: str) -> str:
    """The path of what is asked for; parts come from users."""
    return path_of(PREFIX, *parts)


async def asked(context: Context, path: str, query: Mapping[str, str]) -> dict[str, Any]:
    """The answer of the recorder.

    Raises:
        Failure: it is not known where it is, it does not answer, or it refuses.
    """
    return await _RECORDER.asked(context, path, query)

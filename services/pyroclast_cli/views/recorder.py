"""Requests to the recorder, which stores history and usage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.api.types import Key
from pyroclast_cli.context import Context, Failure
from pyroclast_cli.flags import Flag
from pyroclast_cli.views.servers import UNREACHABLE, Server, path_of

_RECORDER: Final = Server(
    "recorder",
    "PYROCLAST_RECORDER",
    Key("pyroclast-system", "pyroclast-recorder"),
    "kubectl --namespace pyroclast-system port-forward service/pyroclast-recorder-service 8090:80, "
    "and then --recorder http://127.0.0.1:8090",
)
LONGEST: Final = 200
PREFIX: Final = "/api/v1/"
RECORDER: Final = _RECORDER.flag
WINDOW_FLAGS: Final = (
    Flag("since", "", "7d", "from when: a time like 2026-03-01T00:00:00Z, or how long ago: 30m, 12h, 7d, 4w"),
    Flag("until", "", "", "until when, in the same forms; by default now"),
)


def history_path(*parts: str) -> str:
    """Return the path of a request to the recorder, with each segment escaped, because the segments come from users."""
    return path_of(PREFIX, *parts)


async def asked(context: Context, path: str, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer of the recorder.

    Raises:
        Failure: the address of the recorder is unknown, or the recorder does not answer or refuses the request.
    """
    return await _RECORDER.asked(context, path, query)


async def causes_of(context: Context, key: Key, uid: str) -> list[dict[str, Any]] | str:
    """Return the causes for which a Job has waited, oldest first. If they are unknown, return the reason in one line."""
    try:
        found = await _RECORDER.asked(context, history_path("jobs", key.namespace, key.name), {})
    except Failure as failure:
        text = " ".join(str(failure).split())
        return text.partition(": ")[0] if failure.status == UNREACHABLE else text[:LONGEST]
    job = next((each for each in found.get("items") or () if each.get("uid") == uid), None)
    return [] if job is None else list(job.get("causes") or ())

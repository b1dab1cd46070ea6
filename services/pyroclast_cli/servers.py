"""Requests of commands to the recorder, which stores history and usage, and to the scheduler, which explains why Jobs wait."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from pyroclast.api.types import Key
from pyroclast.kube.basics.errors import ApiError, KubeError, Unauthorized
from pyroclast.kube.http import servers
from pyroclast.kube.http.servers import Answer, path_of
from pyroclast.views.readable import human_duration
from pyroclast_cli.flags import Context, Failure, Flag

UNREACHABLE: Final = 5
"""The exit status of a command whose server cannot be reached."""
LONGEST: Final = 200
PREFIX: Final = "/api/v1/"
WINDOW_FLAGS: Final = (
    Flag("since", "", "7d", "from when: a time like 2026-03-01T00:00:00Z, or how long ago: 30m, 12h, 7d, 4w"),
    Flag("until", "", "", "until when, in the same forms; by default now"),
)


def _flag(server: servers.Server) -> Flag:
    name, variable = server.name, server.variable
    return Flag(name, "", "", f"the URL of the {name}, by default what {variable} says or `pyroclast up` wrote down")


RECORDER: Final = _flag(servers.RECORDER)
BOARD: Final = _flag(servers.BOARD)


async def answered(
    context: Context, *parts: str, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
) -> Answer:
    """Return the scheduler's answer about a Job, a PodGroup or a queue. `body`: a Job that does not exist, see `vcctl fits`."""
    addresses = await servers.explainers(context.client, context.text("board"))
    return await servers.explained(context.client, addresses, *parts, query=query, body=body)


async def explained(context: Context, *parts: str, query: Mapping[str, str] | None = None) -> dict[str, Any] | None:
    """Return the scheduler's document. None when there is none; if a server gives no answer, standard error says so."""
    answer = await answered(context, *parts, query=query)
    if answer.complaint:
        sys.stderr.write(f"this is the last that the scheduler wrote: {answer.complaint}\n")
    return answer.document


async def orders(context: Context, queues: Iterable[str], *, most: int) -> list[dict[str, Any]]:
    """Return the waiting Jobs of queues by the scheduler's order, up to `most` of each; none without an answer."""
    addresses = await servers.explainers(context.client, context.text("board"))
    items: list[dict[str, Any]] = []
    for queue in queues if addresses else ():
        answer = await servers.explained(context.client, addresses, "queues", queue, query={"limit": str(most)})
        if answer.document is None:
            break
        items += answer.document.get("items") or ()
    return items


def history_path(*parts: str) -> str:
    """Return the path of a request to the recorder, with each segment escaped, because the segments come from users."""
    return path_of(PREFIX, *parts)


async def asked(context: Context, path: str, query: Mapping[str, str], *, seconds: float | None = None) -> dict[str, Any]:
    """Return the answer of the recorder, within so many seconds. Standard error says if later changes are not known.

    Raises Failure when the answer is empty and the recorder cannot know whether there was nothing.
    """
    answer = await _asked(context, path, query, seconds)
    doubt = answer.get("behind") or ""
    if not doubt and (gap := answer.get("gapSeconds")):
        doubt = f"the recorder could not see {human_duration(gap)} of that time"
    if doubt and answer.get("items", answer.get("queues")) == []:
        raise Failure(f"nothing is recorded, and it is not known whether there was nothing: {doubt}", status=UNREACHABLE)
    if answer.get("behind"):
        sys.stderr.write(f"{doubt}\n")
    return answer


async def _asked(context: Context, path: str, query: Mapping[str, str], seconds: float | None) -> dict[str, Any]:
    recorder = servers.RECORDER
    url = await recorder.find(context.client, context.text("recorder"))
    if not url:
        raise Failure(f"it is not known where the recorder is: {recorder.how}", status=UNREACHABLE)
    try:
        return await servers.request(context.client, url, path, query, seconds=seconds)
    except ApiError as error:
        advice = f"; {servers.TOKEN_HELP}" if isinstance(error, Unauthorized) else ""
        raise Failure(f"the recorder refuses: {error.message}{advice}") from error
    except (KubeError, orjson.JSONDecodeError) as error:
        raise Failure(f"the recorder at {url} does not answer: {error}; try {recorder.how}", status=UNREACHABLE) from error


async def records_of(context: Context, key: Key) -> list[dict[str, Any]] | str:
    """Return the recorder's Jobs of a name, newest first. If they are unknown, return the reason in one line."""
    try:
        path = history_path("jobs", key.namespace, key.name)
        jobs = await asked(context, path, {}, seconds=servers.PATIENCE_SECONDS)
    except Failure as failure:
        text = " ".join(str(failure).split())
        return text.partition(": ")[0] if failure.status == UNREACHABLE else text[:LONGEST]
    return list(jobs.get("items") or ())

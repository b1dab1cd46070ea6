"""The containers of a Job that have logs, and the lines of each log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from pyroclast.api import keys
from pyroclast.api.types import PODS, Key
from pyroclast.views.readable import natural_order
from pyroclast_cli.context import Context, Failure
from pyroclast_cli.views.log_lines import LogLine, read_line

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client


async def pods_of(context: Context, key: Key) -> list[dict[str, Any]]:
    """Return the started pods of the Job that the flags select, ordered by task and index.

    Raises:
        Failure: there are more pods than `--max-pods`.
    """
    selector, task = f"{keys.JOB_NAME}={key.name}", context.text("task")
    pods, _ = await context.client.list(
        PODS, key.namespace, label_selector=selector + (f",{keys.TASK_SPEC}={task}" if task else "")
    )
    most = context.number("max-pods")
    if context.is_set("failed"):
        pods = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Failed"]
    if len(pods) > most:
        raise Failure(
            f"Job {key} has {len(pods)} pods, more than --max-pods {most}: choose some by --task or --failed, or raise it"
        )
    return sorted((pod for pod in pods if started(pod)), key=lambda pod: natural_order(pod["metadata"]["name"]))


def started(pod: Mapping[str, Any], *, is_previous: bool = False) -> list[str]:
    """Return the containers with a log: containers that run or ended, or whose previous run ended."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    states = ("lastState",) if is_previous else ("state", "lastState")
    return [each["name"] for each in statuses if any({"running", "terminated"} & set(each.get(state) or {}) for state in states)]


def prefix_of(pod: Mapping[str, Any], container: str) -> str:
    """Return `[task-index]`, with the container's name if the pod has several containers."""
    labels = pod["metadata"].get("labels") or {}
    name = f"{labels.get(keys.TASK_SPEC, '')}-{labels.get(keys.TASK_INDEX, '')}".strip("-") or pod["metadata"]["name"]
    several = len(pod["spec"].get("containers") or ()) > 1
    return f"[{name}/{container}]" if several else f"[{name}]"


async def lines_of(client: Client, pod: Mapping[str, Any], query: Mapping[str, str]) -> AsyncGenerator[LogLine]:
    """Yield the lines of one log when they arrive."""
    metadata = pod["metadata"]
    async with aclosing(client.stream(PODS.path(metadata["namespace"], metadata["name"], "log"), query)) as stream:
        async for line in stream:
            yield read_line(line.decode(errors="replace"))


def say(context: Context, prefix: str, line: LogLine) -> None:
    """Print a line."""
    stamp = f"{line.stamp} " if context.is_set("timestamps") and line.stamp else ""
    context.say(f"{prefix} {stamp}{line.text}")

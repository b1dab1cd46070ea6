"""The command `vcctl logs`: the lines of all pods of a Job in the order of their times, each after the name of its pod."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any, Final

from pyroclast.kube.basics.errors import KubeError
from pyroclast.resources import durations
from pyroclast_cli.context import Context, Failure
from pyroclast_cli.flags import Flag
from pyroclast_cli.tree import Leaf
from pyroclast_cli.views.container_logs import lines_of, pods_of, prefix_of, say, started
from pyroclast_cli.views.log_following import follow
from pyroclast_cli.views.log_lines import LogLine, in_order
from pyroclast_cli.views.scope import NAMESPACE, named_job

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client


SECOND: Final = 10**9


async def _logs(context: Context) -> int:
    query = query_of(context)
    key, _ = await named_job(context)
    if context.is_set("follow"):
        if context.is_set("previous"):
            raise Failure("--previous: a try that has ended has no lines to follow; leave out -f")
        await follow(context, key, query)
        return 0
    pods = await pods_of(context, key)
    if not pods:
        raise Failure(f"Job {key} has no pod that has started, or none that the flags choose")
    is_previous = context.is_set("previous")
    containers = [(pod, name) for pod in pods for name in started(pod, is_previous=is_previous)]
    failures: list[str] = []
    async with AsyncExitStack() as stack:
        logs = []
        for pod, name in containers:
            log = _readable(context.client, pod, name, query, failures)
            logs.append(await stack.enter_async_context(aclosing(log)))
        async for prefix, line in in_order(logs):
            say(context, prefix, line)
    for failure in failures:
        sys.stderr.write(f"{failure}\n")
    return 1 if failures else 0


async def _readable(
    client: Client, pod: Mapping[str, Any], container: str, query: Mapping[str, str], failures: list[str]
) -> AsyncGenerator[tuple[str, LogLine]]:
    """Yield the lines of one container. An error is added to `failures`."""
    prefix = prefix_of(pod, container)
    try:
        async with aclosing(lines_of(client, pod, {**query, "container": container})) as lines:
            async for line in lines:
                yield prefix, line
    except KubeError as error:
        failures.append(f"{prefix} cannot be read: {error}")


def query_of(context: Context) -> dict[str, str]:
    """Return the query parameters of every log request.

    Raises:
        Failure: a flag has an invalid value.
    """
    query = {"timestamps": "true"}
    if context.number("tail") >= 0:
        query["tailLines"] = str(context.number("tail"))
    if context.is_set("previous"):
        query["previous"] = "true"
    if text := context.text("since"):
        try:
            query["sinceSeconds"] = str(max(1, durations.nanoseconds(text) // SECOND))
        except durations.DurationError as error:
            raise Failure(f'--since: {error}; write a duration such as "10m"') from error
    return query


LOGS: Final = Leaf(
    "logs",
    "show the lines of all pods of a Job by time",
    _logs,
    (
        NAMESPACE,
        Flag("follow", "f", default=False, text="go on until the Job has ended, also with pods that come later", kind="bool"),
        Flag("task", "t", "", "only the pods of this task"),
        Flag("failed", "", default=False, text="only pods that failed", kind="bool"),
        Flag("previous", "p", default=False, text="the try before this one", kind="bool"),
        Flag("since", "", "", "only lines that are not older, such as 10m", "duration"),
        Flag("tail", "", -1, "lines from the end of each pod, -1 for all", "int"),
        Flag("timestamps", "", default=False, text="show when each line was written", kind="bool"),
        Flag("max-pods", "", 50, "pods to show at most", "int"),
    ),
    takes="NAME",
    is_ours=True,
)

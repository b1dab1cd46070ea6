"""The command `vcctl logs`: the lines of all pods of a Job in the order of their times, each after the name of its pod.

With `-f`, each container is followed over restarts, and each line is printed once.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pyroclast.api import keys
from pyroclast.api.types import JOBS, PODS, Key
from pyroclast.kube.basics.errors import KubeError, NotFound, is_transient
from pyroclast.resources import durations
from pyroclast.views.jobs import phase_of
from pyroclast.views.readable import natural_order
from pyroclast_cli.flags import Context, Failure, Flag
from pyroclast_cli.tree import OwnLeaf
from pyroclast_cli.views.scope import NAMESPACE, named_job

DIGITS: Final = 9
EARLIEST: Final = (0, 0)


@dataclass(frozen=True, slots=True, order=True)
class LogLine:
    """One line. `at` is its time in whole seconds since the epoch and nanoseconds. `stamp` is the time as the node wrote it."""

    at: tuple[int, int]
    text: str
    stamp: str = field(default="", compare=False)


def read_line(line: str) -> LogLine:
    """Parse a line of a node's log with `timestamps`: RFC 3339 with up to nine digits, a space, the text.

    A line without a time has the time of the line before it, so that no line is lost.
    """
    stamp, _, text = line.partition(" ")
    whole, dot, rest = stamp.partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789")) if dot else 0
    try:
        seconds = datetime.fromisoformat(whole + (rest[digits:] if dot else ""))
    except ValueError:
        return LogLine(EARLIEST, line)
    if seconds.tzinfo is None:
        return LogLine(EARLIEST, line)
    return LogLine((int(seconds.timestamp()), int(rest[:digits].ljust(DIGITS, "0")[:DIGITS] or 0)), text, stamp)


@dataclass(slots=True)
class Printed:
    """The printed lines of one container, so that a log that is read again continues after the last printed line.

    It is read again from the time of the newest line, `last`; `count` lines have exactly that time.
    """

    last: LogLine = field(default_factory=lambda: LogLine(EARLIEST, ""))
    count: int = 0
    _skipped: int = 0

    def begin(self) -> None:
        """Prepare for a log that is read from its beginning, or from the time of `last`."""
        self._skipped = 0

    def is_new(self, line: LogLine) -> bool:
        """Return whether a line of the log was not printed yet, and record the line as printed."""
        at = line.at if line.at != EARLIEST else self.last.at
        if at < self.last.at:
            return False
        if at > self.last.at:
            self.last, self.count, self._skipped = LogLine(at, line.text, line.stamp), 1, 1
            return True
        self._skipped += 1
        if self._skipped <= self.count:
            return False
        self.count = self._skipped
        return True


async def in_order(logs: Sequence[AsyncIterator[tuple[str, LogLine]]]) -> AsyncIterator[tuple[str, LogLine]]:
    """Yield the lines of several logs in the order of their times. Of each log, only the next line is in memory."""
    heap: list[tuple[tuple[int, int], int, str, LogLine]] = []
    latest = [EARLIEST] * len(logs)

    async def take(index: int) -> None:
        try:
            prefix, line = await anext(logs[index])
        except StopAsyncIteration:
            return
        latest[index] = max(latest[index], line.at)  # the times of one log never decrease
        heapq.heappush(heap, (latest[index], index, prefix, line))

    for index in range(len(logs)):
        await take(index)
    while heap:
        _, index, prefix, line = heapq.heappop(heap)
        yield prefix, line
        await take(index)


if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client


async def pods_of(context: Context, key: Key) -> list[dict[str, Any]]:
    """Return the started pods of the Job that the flags select, ordered by task and index."""
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
    context.say(f"{stamp}{line.text}" if context.values.get("plain") else f"{prefix} {stamp}{line.text}")


PAUSE: Final = 1.0  # seconds between checks for new containers
_AT_FIRST: Final = ("tailLines", "sinceSeconds")
ENDS: Final = frozenset({"Completed", "Failed", "Terminated", "Aborted"})


@dataclass(slots=True)
class _Followed:
    """A container of a pod. `attempt` is the restart whose log was followed last, `whole` whether to its end."""

    context: Context
    pod: Mapping[str, Any]
    container: str
    query: Mapping[str, str]
    printed: Printed = field(default_factory=Printed)
    attempt: int = -1
    whole: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the log of the container is not being read now."""
        return self.task is None or self.task.done()

    async def print(self, attempt: int) -> None:
        """Print the new lines: the rest of the previous run's log, then those of the present run when they arrive."""
        try:
            if attempt > max(self.attempt, 0):
                await self._copy({"previous": "true"}, is_gone=True)
            self.attempt, self.whole = attempt, False
            await self._copy({"follow": "true"})
        except KubeError as error:
            if is_transient(error):
                return  # the next check continues
            sys.stderr.write(f"{prefix_of(self.pod, self.container)} cannot be read: {error}\n")
        self.whole = True

    async def _copy(self, more: Mapping[str, str], *, is_gone: bool = False) -> None:
        """Print the new lines of one log. With `is_gone`, the node may have deleted the log already."""
        prefix, newest = prefix_of(self.pod, self.container), self.printed.last.stamp
        since = {"sinceTime": _whole_seconds(newest)} if newest else {}
        begun = {name: value for name, value in self.query.items() if not newest or name not in _AT_FIRST}
        self.printed.begin()
        try:
            query = {**begun, **since, **more, "container": self.container}
            async with aclosing(lines_of(self.context.client, self.pod, query)) as lines:
                async for line in lines:
                    if self.printed.is_new(line):
                        say(self.context, prefix, line)
                        sys.stdout.flush()
        except KubeError as error:
            if not is_gone or is_transient(error):
                raise


async def follow(context: Context, key: Key, query: Mapping[str, str]) -> None:
    """Print all lines until the Job has ended or was deleted."""
    followed: dict[tuple[str, str], _Followed] = {}
    try:
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    is_over = await _has_ended(context, key)
                    pods = await pods_of(context, key)
                except KubeError as error:
                    if not is_transient(error):
                        raise
                    await asyncio.sleep(PAUSE)  # the server is unavailable: the output continues when it is back
                    continue
                open_logs = [each for pod in pods for each in _begin(tasks, followed, context, pod, query)]
                if is_over and not open_logs:
                    return
                await asyncio.sleep(PAUSE)
    except BaseExceptionGroup as group:
        raise _first(group) from None


def _begin(
    tasks: asyncio.TaskGroup,
    containers: dict[tuple[str, str], _Followed],
    context: Context,
    pod: Mapping[str, Any],
    query: Mapping[str, str],
) -> list[_Followed]:
    """Start to follow the pod's logs that are not being read. Return the containers whose logs may get more lines."""
    unfinished = []
    for container in started(pod):
        followed = containers.setdefault((pod["metadata"]["uid"], container), _Followed(context, pod, container, query))
        attempt = _restarts(pod, container)
        if followed.is_idle and (attempt > followed.attempt or not followed.whole):
            followed.task = tasks.create_task(followed.print(attempt))
        if not followed.is_idle:
            unfinished.append(followed)
    return unfinished


def _whole_seconds(stamp: str) -> str:
    """Return a time without fractions of a second, which `sinceTime` does not accept."""
    whole, dot, rest = stamp.partition(".")
    return whole + (rest.lstrip("0123456789") if dot else "")


async def _has_ended(context: Context, key: Key) -> bool:
    try:
        return phase_of(await context.client.get(JOBS, key)) in ENDS
    except NotFound:
        return True


def _restarts(pod: Mapping[str, Any], container: str) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return next((int(each.get("restartCount", 0)) for each in statuses if each["name"] == container), 0)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first single exception of a group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


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
    """Return the query parameters of every log request."""
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


LOGS: Final = OwnLeaf(
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
)

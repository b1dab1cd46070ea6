"""The command `vcctl logs -f`: follows the logs of all pods and of each restart of their containers.

Each line is printed once.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from pyroclast.api.types import JOBS, Key
from pyroclast.kube.basics.errors import KubeError, NotFound, is_transient
from pyroclast_cli.context import Context
from pyroclast_cli.views.container_logs import lines_of, pods_of, prefix_of, say, started
from pyroclast_cli.views.log_lines import Printed

PAUSE: Final = 1.0  # seconds between checks for new containers
_AT_FIRST: Final = ("tailLines", "sinceSeconds")
ENDS: Final = frozenset({"Completed", "Failed", "Terminated", "Aborted"})


@dataclass(slots=True)
class _Followed:
    """A container of a pod.

    Attributes:
        attempt: the number of the restart whose log was followed last.
        whole: whether that log was read to its end.
    """

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
    """Print all lines until the Job has ended or was deleted.

    Raises:
        Failure: as for `pods_of`.
        KubeError: the pods or a log cannot be read, and the error is permanent.
    """
    known: dict[tuple[str, str], _Followed] = {}
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
                open_logs = [each for pod in pods for each in _begin(tasks, known, context, pod, query)]
                if is_over and not open_logs:
                    return
                await asyncio.sleep(PAUSE)
    except BaseExceptionGroup as group:
        raise _first(group) from None


def _begin(
    tasks: asyncio.TaskGroup,
    known: dict[tuple[str, str], _Followed],
    context: Context,
    pod: Mapping[str, Any],
    query: Mapping[str, str],
) -> list[_Followed]:
    """Start to follow the pod's logs that are not being read. Return the containers whose logs may get more lines."""
    found = []
    for container in started(pod):
        followed = known.setdefault((pod["metadata"]["uid"], container), _Followed(context, pod, container, query))
        attempt = _restarts(pod, container)
        if followed.is_idle and (attempt > followed.attempt or not followed.whole):
            followed.task = tasks.create_task(followed.print(attempt))
        if not followed.is_idle:
            found.append(followed)
    return found


def _whole_seconds(stamp: str) -> str:
    """Return a time without fractions of a second, which `sinceTime` does not accept."""
    whole, dot, rest = stamp.partition(".")
    return whole + (rest.lstrip("0123456789") if dot else "")


async def _has_ended(context: Context, key: Key) -> bool:
    try:
        job = await context.client.get(JOBS, key)
    except NotFound:
        return True
    return ((job.get("status") or {}).get("state") or {}).get("phase") in ENDS


def _restarts(pod: Mapping[str, Any], container: str) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return next((int(each.get("restartCount", 0)) for each in statuses if each["name"] == container), 0)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first single exception of a group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error

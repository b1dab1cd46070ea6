"""`vcctl logs`: the lines of all pods of a Job, each behind the name of its pod."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from pyroclast.api import keys
from pyroclast.api.types import JOBS, PODS, Key
from pyroclast.kube.errors import KubeError, NotFound
from pyroclast_cli.context import Context, Failure
from pyroclast_cli.flags import Flag
from pyroclast_cli.tree import Leaf
from pyroclast_cli.views.scope import NAMESPACE, named_job

if TYPE_CHECKING:
    from pyroclast.kube.client import Client

__all__ = ["LOGS"]

PAUSE: Final = 1.0  # seconds between looks for new containers
ENDS: Final = frozenset({"Completed", "Failed", "Terminated", "Aborted"})


async def _logs(context: Context) -> int:
    key, _ = await named_job(context)
    if context.is_set("follow"):
        return await _follow(context, key)
    pods = await _pods(context, key)
    if not pods:
        raise Failure(f"Job {key} has no pod that has started, or none that the flags choose")
    failures = 0
    for pod in pods:
        for container in _started(pod, is_previous=context.is_set("previous")):
            failures += await _print(context, pod, container, _query(context, container))
    return 1 if failures else 0


async def _pods(context: Context, key: Key) -> list[dict[str, Any]]:
    """The pods of the Job that the flags select, by task and index."""
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
    return sorted((pod for pod in pods if _started(pod, is_previous=False)), key=lambda pod: _natural(pod["metadata"]["name"]))


def _natural(name: str) -> tuple[str, int]:
    head, _, last = name.rpartition("-")
    return (head, int(last)) if last.isdigit() else (name, 0)


def _started(pod: Mapping[str, Any], *, is_previous: bool) -> list[str]:
    """The containers that have lines: those that run or ended, or whose try before this one did."""
    states = "lastState" if is_previous else "state"
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return [each["name"] for each in statuses if {"running", "terminated"} & set(each.get(states) or {})]


def _query(context: Context, container: str) -> dict[str, str]:
    query = {"container": container}
    if context.number("tail") >= 0:
        query["tailLines"] = str(context.number("tail"))
    if context.is_set("previous"):
        query["previous"] = "true"
    return query


async def _print(context: Context, pod: Mapping[str, Any], container: str, query: Mapping[str, str]) -> int:
    """Print what there is; 1 if it could not be read, which is said."""
    prefix = _prefix(pod, container)
    try:
        async with aclosing(_lines(context.client, pod, query)) as lines:
            async for line in lines:
                context.say(f"{prefix} {line}")
    except KubeError as error:
        context.say(f"{prefix} cannot be read: {error}")
        return 1
    return 0


def _prefix(pod: Mapping[str, Any], container: str) -> str:
    labels = pod["metadata"].get("labels") or {}
    name = f"{labels.get(keys.TASK_SPEC, '')}-{labels.get(keys.TASK_INDEX, '')}".strip("-") or pod["metadata"]["name"]
    several = len(pod["spec"].get("containers") or ()) > 1
    return f"[{name}/{container}]" if several else f"[{name}]"


async def _lines(client: Client, pod: Mapping[str, Any], query: Mapping[str, str]) -> AsyncGenerator[str]:
    metadata = pod["metadata"]
    async with aclosing(client.stream(PODS.path(metadata["namespace"], metadata["name"], "log"), query)) as stream:
        async for line in stream:
            yield line.decode(errors="replace")


async def _follow(context: Context, key: Key) -> int:
    """Print all lines until the Job has ended, also of pods and tries that come later; each container's tries once."""
    seen: set[tuple[str, str, int]] = set()
    async with asyncio.TaskGroup() as tasks:
        while True:
            is_over = await _has_ended(context.client, key)
            for pod in await _pods(context, key):
                for container in _started(pod, is_previous=False):
                    attempt = (pod["metadata"]["uid"], container, _restarts(pod, container))
                    if attempt not in seen:
                        seen.add(attempt)
                        tasks.create_task(_print(context, pod, container, {**_query(context, container), "follow": "true"}))
            if is_over:
                return 0
            await asyncio.sleep(PAUSE)


async def _has_ended(client: Client, key: Key) -> bool:
    try:
        job = await client.get(JOBS, key)
    except NotFound:
        return True
    return ((job.get("status") or {}).get("state") or {}).get("phase") in ENDS


def _restarts(pod: Mapping[str, Any], container: str) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return next((int(each.get("restartCount", 0)) for each in statuses if each["name"] == container), 0)


LOGS: Final = Leaf(
    "logs",
    "show the lines of all pods of a Job",
    _logs,
    (
        NAMESPACE,
        Flag("follow", "f", default=False, text="go on until the Job has ended, also with pods that come later", kind="bool"),
        Flag("task", "t", "", "only the pods of this task"),
        Flag("failed", "", default=False, text="only pods that failed", kind="bool"),
        Flag("previous", "p", default=False, text="the try before this one", kind="bool"),
        Flag("tail", "", -1, "lines from the end of each pod, -1 for all", "int"),
        Flag("max-pods", "", 50, "pods to show at most", "int"),
    ),
    takes="NAME",
    is_ours=True,
)

"""Reads the pods of a Job and their output, and makes the exception for a Job that did not complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.types import PODS, Key
from pyroclast.kube.basics.errors import ApiError, KubeError, NotFound
from pyroclast.kube.http.client import Client
from pyroclast_client.errors import Evicted, JobFailed
from pyroclast_client.runner.sealing import FRAME
from pyroclast_client.states import JobStatus


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of output, and the task and index of its pod."""

    task: str
    index: int
    text: str

    def __str__(self) -> str:
        return f"[{self.task}-{self.index}] {self.text}"


@dataclass(frozen=True, slots=True)
class Pod:
    """The fields of a Job's pod that the client uses."""

    name: str
    uid: str
    task: str
    index: int
    phase: str
    created: str
    exit_code: int | None
    message: str
    reason: str
    has_started: bool
    containers: tuple[str, ...]

    @property
    def is_finished(self) -> bool:
        """Whether the pod has ended."""
        return self.phase in {"Succeeded", "Failed"}


async def pods_of(client: Client, namespace: str, job: str, uid: str) -> list[Pod]:
    """Return the pods of the Job with this UID, ordered by task and index. Of one index the latest pod is last."""
    items, _ = await client.list(PODS, namespace, label_selector=f"{keys.JOB_NAME}={job}")
    owned = [pod for item in items if (pod := pod_of(item, uid)) is not None]
    return sorted(owned, key=lambda pod: (pod.task, pod.index, pod.created))


async def log_of(client: Client, namespace: str, pod: Pod, *, tail: int | None = None, timestamps: bool = False) -> list[str]:
    """Return the lines of a pod's first container, with the frames of results. Empty when the container has not started."""
    query = {"container": pod.containers[0]} if pod.containers else {}
    if tail is not None:
        query["tailLines"] = str(tail)
    if timestamps:
        query["timestamps"] = "true"
    try:
        body = await client.request("GET", PODS.path(namespace, pod.name, "log"), query=query)
    except NotFound:
        return []
    except ApiError as error:
        if error.status == 400:  # the container is still being created
            return []
        raise
    return body.decode(errors="replace").removesuffix("\n").split("\n") if body else []


def text_of(lines: Sequence[str], tail: int | None = None) -> list[str]:
    """Return the lines of a pod log without the frames that carry results. With `tail`, only the last `tail` lines."""
    kept = [before for before in map(without_frame, lines) if before is not None]
    return kept if tail is None else kept[-tail:] if tail else []


def without_frame(line: str) -> str | None:
    """Return the text that the function printed in a line of the log. None when the whole line is a frame of the result."""
    before, frame, _ = line.partition(FRAME)
    return line if not frame else before or None


def pod_of(item: Mapping[str, Any], job_uid: str) -> Pod | None:
    """Return the pod of an API object. None when the pod belongs to another Job."""
    if not any(owner.get("uid") == job_uid for owner in item["metadata"].get("ownerReferences") or ()):
        return None
    metadata, status = item["metadata"], item.get("status") or {}
    labels = metadata.get("labels") or {}
    containers = tuple(str(each.get("name")) for each in (item.get("spec") or {}).get("containers") or ())
    statuses = {each.get("name"): each for each in status.get("containerStatuses") or ()}
    first: Mapping[str, Any] = statuses.get(containers[0]) or {} if containers else {}
    state = first.get("state") or {}
    ended = state.get("terminated") or {}
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        task=str(labels.get(keys.TASK_SPEC, "")),
        index=int(labels.get(keys.TASK_INDEX) or 0),
        phase=str(status.get("phase") or "Pending"),
        created=str(metadata.get("creationTimestamp") or ""),
        exit_code=ended.get("exitCode"),
        message=str(ended.get("message") or ""),
        reason=str(status.get("reason") or ended.get("reason") or ""),
        has_started=bool({"running", "terminated"} & set(state)),
        containers=containers,
    )


TAIL_LINES: Final = 20
EVICTIONS: Final = frozenset({"Evicted", "Preempted", "NodeLost", "NodeShutdown", "DeletionByTaintManager"})
EVICTED: Final = "PodEvicted"
ABORTED: Final = "Aborted"  # the only final phase from which a Job can be resumed
ENDED_FROM_OUTSIDE: Final = ("exit code 75", "exit code 143")
"""Of a pod that ends on SIGTERM before its deletion is observed: of the runner, and of other programs."""


async def failure(client: Client, key: Key, uid: str, status: JobStatus) -> JobFailed:
    """Return the exception that `wait` raises for a Job that ended in `status`."""
    pods = await pods_of(client, key.namespace, key.name, uid)
    culprit = next((pod for pod in pods if pod.phase == "Failed"), None)
    tail = "" if culprit is None else await _tail(client, key, culprit)
    from_outside = any(code in status.message for code in ENDED_FROM_OUTSIDE)
    is_evicted = status.reason == EVICTED or from_outside or (culprit is not None and culprit.reason in EVICTIONS)
    message = f"Job {key} ended as {status.phase}"
    if status.reason or status.message:
        message += f" ({': '.join(filter(None, (status.reason, status.message)))})"
    if culprit is not None:
        code = "" if culprit.exit_code is None else f" with exit code {culprit.exit_code}"
        message += f"; pod {culprit.name} failed{code}"
    message += f"; {_advice(key, status, culprit)}"
    if tail:
        message += f"\nThe last lines of {culprit.name if culprit else key.name}:\n{tail}"
    return (Evicted if is_evicted else JobFailed)(
        message,
        job=str(key),
        phase=status.phase,
        reason=status.reason,
        index=None if culprit is None else culprit.index,
        exit_code=None if culprit is None else culprit.exit_code,
        log_tail=tail,
    )


def _advice(key: Key, status: JobStatus, culprit: Pod | None) -> str:
    if culprit is not None:
        return f"`vcctl logs -N {key.name} -n {key.namespace}` shows all lines"
    return "`resume()` lets it go on" if status.phase == ABORTED else "submit it again, or give it `retries`"


async def _tail(client: Client, key: Key, pod: Pod) -> str:
    try:
        return "\n".join(text_of(await log_of(client, key.namespace, pod, tail=10 * TAIL_LINES), TAIL_LINES))
    except KubeError as error:
        return f"(its log cannot be read: {error})"  # the failure of the Job matters more than this error

"""Makes the exception for a Job that did not complete, from the state of its pods."""

from __future__ import annotations

from typing import Final

from pyroclast.api.types import Key
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.http.client import Client
from pyroclast_client.errors import Evicted, JobFailed
from pyroclast_client.podreading import Pod, log_of, pods_of, text_of
from pyroclast_client.states import JobStatus

TAIL_LINES: Final = 20
EVICTIONS: Final = frozenset({"Evicted", "Preempted", "NodeLost", "NodeShutdown", "DeletionByTaintManager"})
EVICTED: Final = "PodEvicted"
ABORTED: Final = "Aborted"  # the only final phase from which a Job can be resumed
ENDED_FROM_OUTSIDE: Final = "exit code 143"  # of a pod that ends on SIGTERM before its deletion is observed


async def failure(client: Client, key: Key, uid: str, status: JobStatus) -> JobFailed:
    """Return the exception that `wait` raises for a Job that ended in `status`."""
    pods = await pods_of(client, key.namespace, key.name, uid)
    culprit = next((pod for pod in pods if pod.phase == "Failed"), None)
    tail = "" if culprit is None else await _tail(client, key, culprit)
    is_evicted = (
        status.reason == EVICTED or ENDED_FROM_OUTSIDE in status.message or (culprit is not None and culprit.reason in EVICTIONS)
    )
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

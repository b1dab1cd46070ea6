"""The command `vcctl top`: the current usage of Jobs, tasks, queues and nodes, from the metrics API of the cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.types import JOBS, NODES, PODS, ResourceType
from pyroclast.kube.basics.errors import ApiError
from pyroclast.views.contract import Row
from pyroclast.views.readable import readable
from pyroclast.views.usage import Usage, job_usage, node_usage, queue_usage, task_usage
from pyroclast_cli.flags import Context, Flag
from pyroclast_cli.tree import Group, OwnLeaf
from pyroclast_cli.views.output import TABLE_FLAGS, Column, Table
from pyroclast_cli.views.scope import SCOPE_FLAGS, is_selected, namespaces_of
from pyroclast_cli.views.watching import WATCH, show

POD_METRICS: Final = ResourceType("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
NODE_METRICS: Final = ResourceType("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)
UNSERVED: Final = (404, 503)


def _percent(value: int) -> str:
    return f"{value}%"


NAMESPACE: Final = Column("NAMESPACE", "namespace")
AMOUNTS: Final = (
    Column("NAME", "name"),
    Column("CPU", "cpu", lambda value: readable("cpu", value)),
    Column("CPU%", "cpuPercent", _percent),
    Column("MEMORY", "memory", lambda value: readable("memory", value)),
    Column("MEM%", "memoryPercent", _percent),
    Column("GPU", "gpu"),
    Column("GPU%", "gpuPercent", _percent),
    Column("PODS", "pods", is_wide=True),
    Column("CPU-ASKED", "cpuAsked", lambda value: readable("cpu", value), is_wide=True),
    Column("MEMORY-ASKED", "memoryAsked", lambda value: readable("memory", value), is_wide=True),
    Column("GPU-ASKED", "gpuAsked", is_wide=True),
)


async def _measured(context: Context, kind: ResourceType, namespace: str = "") -> Sequence[Mapping[str, Any]] | None:
    """Return the items of the metrics API. None when the cluster has no metrics API."""
    try:
        return (await context.client.list(kind, namespace, limit=0))[0]
    except ApiError as error:
        if error.status not in UNSERVED:
            raise
        return None


async def _selected_jobs(context: Context) -> dict[tuple[str, str], str]:
    """Return the queue of each Job that the flags select, by namespace and name."""
    jobs, _ = await context.client.list(JOBS, namespaces_of(context), label_selector=context.text("selector"))
    return {
        (job["metadata"]["namespace"], job["metadata"]["name"]): (job.get("spec") or {}).get("queue") or "default"
        for job in jobs
        if is_selected(job, context)
    }


async def _of_pods(
    context: Context, kind: str, columns: tuple[Column, ...], rows_of: Callable[..., list[Row]], *, reference: str = ""
) -> None:
    async def read() -> Table:
        namespace = namespaces_of(context)
        queues, listed, measured = await asyncio.gather(
            _selected_jobs(context),
            context.client.list(PODS, namespace, label_selector=keys.JOB_NAME),
            _measured(context, POD_METRICS, namespace),
        )
        metas = ((pod, pod["metadata"]) for pod in listed[0])
        pods = [pod for pod, meta in metas if (meta["namespace"], meta.get("labels", {}).get(keys.JOB_NAME, "")) in queues]
        _say_unmeasured(measured)
        return Table(kind, columns, rows_of(pods, queues, Usage.of(measured)), reference, "No pod of a Job runs")

    await show(context, read, PODS, namespace=namespaces_of(context), every=EVERY)


def _say_unmeasured(measured: object) -> None:
    if measured is None:
        sys.stderr.write("vcctl top: what is used is not known: the cluster serves no metrics.k8s.io (install metrics-server)\n")


async def _jobs(context: Context) -> None:
    columns, reference = (NAMESPACE, *AMOUNTS), "vcjob.batch.volcano.sh"
    await _of_pods(context, "JobUsage", columns, lambda pods, _, usage: job_usage(pods, usage), reference=reference)


async def _tasks(context: Context) -> None:
    await _of_pods(context, "TaskUsage", (NAMESPACE, *AMOUNTS), lambda pods, _, usage: task_usage(pods, usage))


async def _queues(context: Context) -> None:
    await _of_pods(context, "QueueUsage", AMOUNTS, queue_usage, reference="queue.scheduling.volcano.sh")


async def _nodes(context: Context) -> None:
    async def read() -> Table:
        nodes, pods, measured = await asyncio.gather(
            context.client.list(NODES, label_selector=context.text("selector")),
            context.client.list(PODS, field_selector="status.phase=Running"),
            _measured(context, NODE_METRICS),
        )
        _say_unmeasured(measured)
        return Table("NodeUsage", AMOUNTS, node_usage(nodes[0], pods[0], Usage.of(None, measured)), "node", "No nodes")

    await show(context, read, NODES, PODS, every=EVERY)


EVERY: Final = 15.0
"""Seconds after which a watched list is read again, because metrics change without any watch event."""

TOP: Final = Group(
    "top",
    "compare the present use of pods with their requests",
    (
        OwnLeaf("jobs", "what Jobs use", _jobs, (*SCOPE_FLAGS, *TABLE_FLAGS, WATCH)),
        OwnLeaf("tasks", "what the tasks of Jobs use", _tasks, (*SCOPE_FLAGS, *TABLE_FLAGS, WATCH)),
        OwnLeaf("queues", "what the Jobs of each queue use", _queues, (*SCOPE_FLAGS, *TABLE_FLAGS, WATCH)),
        OwnLeaf(
            "nodes",
            "compare the use of each node with its resources",
            _nodes,
            (Flag("selector", "l", "", "labels of the nodes"), *TABLE_FLAGS, WATCH),
        ),
    ),
)

"""The kinds that the recorder watches, and the sinks that make rows of their objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from sqlalchemy import Table

from pyroclast.api.records import HyperNode, batch
from pyroclast.api.records.flows import JobFlow
from pyroclast.api.records.groups import PodGroup
from pyroclast.api.records.hyperjobs import HyperJob
from pyroclast.api.records.jobs import Command, CronJob, Job
from pyroclast.api.records.meta import Record
from pyroclast.api.records.native_groups import CompositePodGroup, NativePodGroup
from pyroclast.api.records.nodes import Node
from pyroclast.api.records.pods import Pod
from pyroclast.api.types import (
    BATCH_JOBS,
    COMMANDS,
    COMPOSITE_POD_GROUPS,
    CRON_JOBS,
    HYPER_JOBS,
    HYPER_NODES,
    JOB_FLOWS,
    JOBS,
    NATIVE_POD_GROUPS,
    NODES,
    POD_GROUPS,
    PODS,
    ResourceType,
)
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.native_groups import composite_kind_served, kind_served
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import composites, jobs, owners, pods
from pyroclast_recorder.facts.native_groups import KIND
from pyroclast_recorder.following.node_sink import Domains, NodeSink
from pyroclast_recorder.following.sinks import (
    GroupSink,
    KindSink,
    Seen,
    command_rows,
    composite_rows,
    group_rows,
    job_rows,
    native_rows,
    owner_rows,
    pod_rows,
    with_groups,
)
from pyroclast_recorder.following.stream import Sink
from pyroclast_recorder.following.tracing import JobTracer
from pyroclast_recorder.following.writer import RowTaker


class Followed(NamedTuple):
    """The record type and the sink of a watched kind.

    `served`: returns the kind as the API server serves it, or None when it is not served. Without `served`, the API server must
    serve the kind.
    """

    record: type[Record]
    sink: Sink[Any]
    served: Callable[[Client], Awaitable[ResourceType | None]] | None = None


def followed_kinds(
    database: Database,
    schedulers: frozenset[str],
    on_gap: Callable[[str, float], None],
    takers: Callable[[ResourceType], RowTaker],
    tracer: JobTracer | None,
    *,
    are_natives_followed: bool,
) -> dict[ResourceType, Followed]:
    """Return all watched kinds whose events make rows.

    `schedulers`: the schedulers whose pods are recorded, beside the pods of Jobs. `takers`: returns the writer of the rows of a
    kind. `are_natives_followed`: whether native PodGroups make rows, if the API server serves them.
    """
    of_jobs, of_groups = (tracer.rows_of, tracer.group_rows) if tracer else (job_rows, group_rows)
    of_flows = tracer.flow_rows if tracer else owner_rows
    domains = Domains()
    of_pods = with_groups(pod_rows(schedulers, domains.of), of_groups)

    def sink(kind: ResourceType, rows: Callable[..., Seen], table: Table | None, of: str | None = None) -> KindSink[Any]:
        return KindSink(database, takers(kind), rows, table, on_gap, kind=of)

    found = {
        HYPER_NODES: Followed(HyperNode, domains),
        JOBS: Followed(Job, sink(JOBS, of_jobs, jobs)),
        POD_GROUPS: Followed(PodGroup, GroupSink(database, takers(POD_GROUPS), of_groups, None, on_gap)),
        NODES: Followed(Node, NodeSink(database, takers(NODES), domains, on_gap)),
        JOB_FLOWS: Followed(JobFlow, sink(JOB_FLOWS, of_flows, owners, "JobFlow")),
        CRON_JOBS: Followed(CronJob, sink(CRON_JOBS, owner_rows, owners, "CronJob")),
        COMMANDS: Followed(Command, sink(COMMANDS, command_rows, None)),
        HYPER_JOBS: Followed(HyperJob, sink(HYPER_JOBS, owner_rows, owners, "HyperJob")),
        PODS: Followed(Pod, sink(PODS, of_pods, pods)),
    }
    if are_natives_followed:
        of_trees = sink(COMPOSITE_POD_GROUPS, composite_rows, composites)

        def of_batch(job: batch.Job, now: int, *, is_deleted: bool) -> Seen:
            # admission may set our scheduler on the pods of a Job that names another scheduler
            if job.spec.template.spec.scheduler_name in schedulers or job.spec.scheduling is not None:
                yield from owner_rows(job, now, is_deleted=is_deleted)

        found |= {
            NATIVE_POD_GROUPS: Followed(NativePodGroup, sink(NATIVE_POD_GROUPS, native_rows, jobs, KIND), kind_served),
            COMPOSITE_POD_GROUPS: Followed(CompositePodGroup, of_trees, composite_kind_served),
            BATCH_JOBS: Followed(batch.Job, sink(BATCH_JOBS, of_batch, owners, BATCH_JOBS.kind), _batch_jobs_served),
        }
    return found


async def _batch_jobs_served(client: Client) -> ResourceType | None:
    """Return the kind of native Jobs if native PodGroups are served; else None. Only the PodGroups need native Jobs."""
    return None if await kind_served(client) is None else BATCH_JOBS

"""The kinds that the recorder watches, and the sinks that make rows of their objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

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
from pyroclast_recorder.database.tables import composites, jobs, pods
from pyroclast_recorder.facts.jobs import Owner
from pyroclast_recorder.facts.native_groups import KIND
from pyroclast_recorder.following.node_sink import Domains, NodeSink
from pyroclast_recorder.following.sinks import (
    GroupSink,
    KindSink,
    OwnerSink,
    command_rows,
    composite_rows,
    group_rows,
    job_rows,
    native_rows,
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
    of_flows = tracer.flow_rows if tracer else None
    domains = Domains()
    of_pods = with_groups(pod_rows(schedulers, domains.of), of_groups)
    found = {
        HYPER_NODES: Followed(HyperNode, domains),
        JOBS: Followed(Job, KindSink(database, takers(JOBS), of_jobs, jobs, on_gap)),
        POD_GROUPS: Followed(PodGroup, GroupSink(database, takers(POD_GROUPS), of_groups, None, on_gap)),
        NODES: Followed(Node, NodeSink(database, takers(NODES), domains)),
        JOB_FLOWS: Followed(JobFlow, OwnerSink(database, takers(JOB_FLOWS), "JobFlow", on_gap, more=of_flows)),
        CRON_JOBS: Followed(CronJob, OwnerSink(database, takers(CRON_JOBS), "CronJob", on_gap)),
        COMMANDS: Followed(Command, KindSink(database, takers(COMMANDS), command_rows, None, on_gap)),
        HYPER_JOBS: Followed(HyperJob, OwnerSink(database, takers(HYPER_JOBS), "HyperJob", on_gap)),
        PODS: Followed(Pod, KindSink(database, takers(PODS), of_pods, pods, on_gap)),
    }
    if are_natives_followed:
        natives: KindSink[NativePodGroup] = KindSink(database, takers(NATIVE_POD_GROUPS), native_rows, jobs, on_gap, kind=KIND)
        found[NATIVE_POD_GROUPS] = Followed(NativePodGroup, natives, kind_served)
        trees: KindSink[CompositePodGroup] = KindSink(database, takers(COMPOSITE_POD_GROUPS), composite_rows, composites, on_gap)
        found[COMPOSITE_POD_GROUPS] = Followed(CompositePodGroup, trees, composite_kind_served)

        def is_ours(owner: Owner) -> bool:  # admission may set our scheduler on the pods of a Job that names another scheduler
            spec = owner.spec if isinstance(owner, batch.Job) else batch.JobSpec()
            return spec.template.spec.scheduler_name in schedulers or spec.scheduling is not None

        of_batch = OwnerSink(database, takers(BATCH_JOBS), BATCH_JOBS.kind, on_gap, is_kept=is_ours)
        found[BATCH_JOBS] = Followed(batch.Job, of_batch, _batch_jobs_served)
    return found


async def _batch_jobs_served(client: Client) -> ResourceType | None:
    """Return the kind of native Jobs if native PodGroups are served; else None. Only the PodGroups need native Jobs."""
    return None if await kind_served(client) is None else BATCH_JOBS

"""The kinds that are followed, and who makes rows of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pyroclast.api.records import HyperNode
from pyroclast.api.records.flows import JobFlow
from pyroclast.api.records.groups import PodGroup
from pyroclast.api.records.hyperjobs import HyperJob
from pyroclast.api.records.jobs import CronJob, Job
from pyroclast.api.records.meta import Record
from pyroclast.api.records.nodes import Node
from pyroclast.api.records.pods import Pod
from pyroclast.api.types import CRON_JOBS, HYPER_JOBS, HYPER_NODES, JOB_FLOWS, JOBS, NODES, POD_GROUPS, PODS, ResourceType
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import jobs, pods
from pyroclast_recorder.following.domains import Domains
from pyroclast_recorder.following.group_sink import GroupSink
from pyroclast_recorder.following.node_sink import NodeSink
from pyroclast_recorder.following.owner_sink import OwnerSink
from pyroclast_recorder.following.sinks import KindSink, group_rows, job_rows, pod_rows
from pyroclast_recorder.following.stream import Sink
from pyroclast_recorder.following.tracing import JobTracer
from pyroclast_recorder.following.writer import RowTaker

__all__ = ["Followed", "followed_kinds"]

Followed: TypeAlias = tuple[type[Record], Sink[Any]]
"""What the objects of a kind are decoded into, and who takes them."""


def followed_kinds(
    database: Database,
    schedulers: frozenset[str],
    on_gap: Callable[[str, float], None],
    takers: Callable[[ResourceType], RowTaker],
    tracer: JobTracer | None,
) -> dict[ResourceType, Followed]:
    """All kinds whose events make rows.

    Args:
        database: asked what was there before.
        schedulers: whose pods are recorded beside those of Jobs.
        on_gap: told the kind and the seconds of what could not be seen.
        takers: who takes the rows that a kind makes.
        tracer: makes further rows, and spans of the ends; None where nobody takes these.
    """
    of_jobs, of_groups = (tracer.rows_of, tracer.group_rows) if tracer else (job_rows, group_rows)
    of_flows = tracer.flow_rows if tracer else None
    domains = Domains()
    return {
        HYPER_NODES: (HyperNode, domains),
        JOBS: (Job, KindSink(database, takers(JOBS), of_jobs, jobs, on_gap)),
        POD_GROUPS: (PodGroup, GroupSink(database, takers(POD_GROUPS), of_groups, None, on_gap)),
        NODES: (Node, NodeSink(database, takers(NODES), domains)),
        JOB_FLOWS: (JobFlow, OwnerSink(database, takers(JOB_FLOWS), "JobFlow", on_gap, of_flows)),
        CRON_JOBS: (CronJob, OwnerSink(database, takers(CRON_JOBS), "CronJob", on_gap)),
        HYPER_JOBS: (HyperJob, OwnerSink(database, takers(HYPER_JOBS), "HyperJob", on_gap)),
        PODS: (Pod, KindSink(database, takers(PODS), pod_rows(schedulers, domains.of), pods, on_gap)),
    }

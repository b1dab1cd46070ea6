"""Network topology of jobs: the highest allowed tier of a job or of its sub-jobs, and the hypernode of its allocated pods."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from pyroclast.api import keys, records
from pyroclast.api.enums import NetworkTopologyMode
from pyroclast_scheduler.model.hypernodes import HyperNodes
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.statuses import ALLOCATED
from pyroclast_scheduler.model.subjobs import SubJob
from pyroclast_scheduler.model.tasks import Task


def has_topology(job: Job) -> bool:
    """Whether `job` or one of its subgroup policies declares a network topology."""
    spec = job.facts.group.spec
    return spec.network_topology is not None or any(policy.network_topology is not None for policy in spec.sub_group_policy)


def job_limit(job: Job, hyper_nodes: HyperNodes) -> int | None:
    """Return the highest tier that may contain all of `job`; None if the job declares none or names an unknown tier."""
    return _limit(job.facts.group.spec.network_topology, hyper_nodes)


def sub_job_limit(job: Job, sub_job: SubJob, hyper_nodes: HyperNodes) -> int | None:
    """Return the highest tier that may contain all of `sub_job`.

    Return None if the sub-job declares no topology or names an unknown tier. A soft topology has the limit of the job.
    """
    limit = _limit(sub_job.topology, hyper_nodes)
    if limit is None or sub_job.topology is None or sub_job.topology.mode is not NetworkTopologyMode.SOFT:
        return limit
    whole = job_limit(job, hyper_nodes)
    return limit if whole is None else min(limit, whole)


def locate(job: Job, hyper_nodes: HyperNodes) -> None:
    """Set `allocated_hyper_node` of `job` and of its sub-jobs to the hypernodes that contain the allocated pods."""
    for sub_job in job.sub_jobs.values():
        sub_job.allocated_hyper_node = _around(hyper_nodes, sub_job.tasks)
    noted = job.facts.group.metadata.annotations.get(keys.JOB_ALLOCATED_HYPER_NODE, "")
    known = noted if noted in hyper_nodes else ""
    parts = (sub_job.allocated_hyper_node for sub_job in job.sub_jobs.values())
    job.allocated_hyper_node = reduce(hyper_nodes.common, parts, known)


def _around(hyper_nodes: HyperNodes, tasks: Iterable[Task]) -> str:
    """Return the lowest hypernode that contains all allocated tasks of `tasks`."""
    rows = {task.row for task in tasks if task.status in ALLOCATED and task.row >= 0}
    return reduce(hyper_nodes.common, (hyper_nodes.lowest(row) for row in sorted(rows)), "")


def _limit(topology: records.NetworkTopology | None, hyper_nodes: HyperNodes) -> int | None:
    if topology is None:
        return None
    if topology.mode is NetworkTopologyMode.SOFT:
        return hyper_nodes.top.tier
    if topology.highest_tier_allowed is not None:
        return topology.highest_tier_allowed
    return hyper_nodes.tier_names.get(topology.highest_tier_name)

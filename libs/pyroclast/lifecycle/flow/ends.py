"""Whether the status of a flow has recorded how one of its Jobs ended. Until then, only the Job shows its end."""

from __future__ import annotations

from pyroclast.api.enums import FlowPhase
from pyroclast.api.records import Job, JobFlow
from pyroclast.api.types import JOB_FLOWS, Key
from pyroclast.lifecycle.flow.names import is_owned, retries_of


def flow_of(job: Job) -> Key | None:
    """Return the flow that controls `job`; None when no flow does."""
    owner = job.metadata.controller
    if owner is None or owner.kind != JOB_FLOWS.kind or owner.api_version != JOB_FLOWS.api_version:
        return None
    return Key(job.metadata.namespace, owner.name)


def end_is_recorded(flow: JobFlow | None, job: Job) -> bool:
    """Whether the status of `flow`, which controlled `job` at its creation, records how the finished `job` ended, or never needs
    to.

    A flow no longer needs its Jobs if it was deleted, was created again under the same name, is being deleted, or has ended.
    """
    if flow is None or not is_owned(flow, job) or flow.metadata.is_terminating:
        return True
    if flow.status.state.phase in (FlowPhase.SUCCEED, FlowPhase.FAILED, FlowPhase.TERMINATING):
        return True
    phase, tries = job.status.state.phase, retries_of(job)
    recorded = (each for each in flow.status.job_status_list if each.name == job.metadata.name)
    return any(each.state == phase and each.retries >= tries for each in recorded)

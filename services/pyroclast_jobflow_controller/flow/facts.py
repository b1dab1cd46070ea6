"""Collects the facts of a flow for one decision."""

from __future__ import annotations

import msgspec

from pyroclast.api.records import Job, JobFlow
from pyroclast.api.types import JOB_FLOWS, Key
from pyroclast.lifecycle.flow.facts import FlowFacts
from pyroclast.lifecycle.flow.names import is_owned
from pyroclast_jobflow_controller.caches import Caches
from pyroclast_jobflow_controller.flow.memory import FlowMemory


def facts_of(caches: Caches, flow: JobFlow, memory: FlowMemory, now: float) -> FlowFacts:
    """Return the facts of `flow` at `now`, in seconds since the epoch."""
    namespace = flow.metadata.namespace
    jobs: dict[str, Job] = dict(memory.ghosts)
    labelled: dict[str, Job] = {}
    for job in caches.jobs.members(str(flow.key)).values():
        if is_owned(flow, job):
            jobs[job.metadata.name] = job
        elif not _is_of_flow(job):
            labelled[job.metadata.name] = job

    def job_named(name: str) -> Job | None:
        return caches.jobs.get(Key(namespace, name))

    def template(name: str) -> msgspec.Raw | None:
        found = caches.templates.get(Key(namespace, name))
        return found.spec if found is not None and not found.metadata.is_terminating else None

    exit_codes = {
        name: code for name, (uid, code) in memory.exit_codes.items() if name not in jobs or jobs[name].metadata.uid == uid
    }
    return FlowFacts(
        flow,
        memory.graph,
        now,
        jobs=jobs,
        labelled=labelled,
        job_named=job_named,
        template=template,
        answers=memory.answers,
        refused=memory.refused,
        exit_codes=exit_codes,
        cancelled=frozenset(memory.cancelled),
    )


def _is_of_flow(job: Job) -> bool:
    """Whether a JobFlow is the controller of `job`.

    Such a Job belongs to that flow alone, also when the flow is a deleted namesake.
    """
    owner = job.metadata.controller
    return owner is not None and owner.kind == JOB_FLOWS.kind and owner.api_version == JOB_FLOWS.api_version

"""Computes the Jobs of a HyperJob, their domains, and the status of the HyperJob.

A domain is a place where Jobs can be created. At present each domain is a namespace of this cluster. The controller resolves the
names of domains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase, SplitMode
from pyroclast.api.records import Condition, HyperJob, Job, JobState, Namespace, ReplicatedJob, reading
from pyroclast.api.types import HYPER_JOBS, JOBS
from pyroclast.lifecycle.ownership import controller_reference
from pyroclast.lifecycle.times import format_time
from pyroclast_job_controller.core.hyperjob_sizes import fitted

_MOST_JOBS: Final = 10_000
"""Most Jobs of a HyperJob, because their phases must fit into an object of 1.5 MB."""


@dataclass(frozen=True, slots=True)
class HyperJobPart:
    """One Job of a HyperJob: its entry, its name and its domain."""

    entry: ReplicatedJob
    name: str
    domain: str


@dataclass(frozen=True, slots=True)
class Problem:
    """The reason why a HyperJob or one of its Jobs cannot be placed: one word and a sentence."""

    reason: str
    message: str


def split(hyper_job: HyperJob) -> tuple[HyperJobPart, ...] | Problem:
    """Return the Jobs of a HyperJob, or its problem.

    The Jobs of an entry are distributed in turn over the entry's domains. At most `maxDomains` domains are used.
    """
    spec, own = hyper_job.spec, hyper_job.metadata.namespace
    names = Counter(entry.name for entry in spec.replicated_jobs)
    for place, entry in enumerate(spec.replicated_jobs):
        where = f"spec.replicatedJobs[{place}]"
        if names[entry.name] > 1:
            return Problem("DuplicateName", f"{where}.name: {entry.name} is there twice; names must differ")
        if entry.split_policy is not None and entry.split_policy.mode is SplitMode.AUTO:
            text = f"{where}.splitPolicy.mode: auto is not supported, as the room in domains is not known; use static"
            return Problem("AutoSplitNotSupported", text)
    if _wanted(hyper_job) > _MOST_JOBS:
        return Problem("TooManyJobs", f"{_wanted(hyper_job)} Jobs are asked for; a HyperJob may have {_MOST_JOBS}")
    limit = spec.max_domains if spec.max_domains is not None and spec.max_domains > 0 else None
    wanted = dict.fromkeys(name for entry in spec.replicated_jobs for name in entry.cluster_names or (own,))
    allowed = set(list(wanted)[:limit])
    parts = []
    for place, entry in enumerate(spec.replicated_jobs):
        domains = [name for name in dict.fromkeys(entry.cluster_names or (own,)) if name in allowed]
        if not domains and entry.replicas > 0:
            text = f"spec.replicatedJobs[{place}].clusterNames: none is left, as spec.maxDomains is {limit}; raise it"
            return Problem("TooManyDomains", text)
        parts += [
            HyperJobPart(entry, f"{hyper_job.metadata.name}-{entry.name}-{number}", domains[number % len(domains)])
            for number in range(entry.replicas)
        ]
    return tuple(parts)


def is_allowed(hyper_job: HyperJob, namespace: Namespace) -> bool:
    """Return whether `namespace` accepts Jobs of `hyper_job`. Other namespaces than its own need an annotation for that."""
    if namespace.metadata.name == hyper_job.metadata.namespace:
        return True
    given = namespace.metadata.annotations.get(keys.HYPER_JOBS_FROM, "").split(",")
    return bool({"*", hyper_job.metadata.namespace} & {each.strip() for each in given})


def manifest(hyper_job: HyperJob, part: HyperJobPart, namespace: str) -> dict[str, Any]:
    """Return the Job to create for `part`."""
    meta = hyper_job.metadata
    made: dict[str, Any] = {
        "name": part.name,
        "namespace": namespace,
        "labels": {keys.HYPER_JOB_UID: meta.uid},
        "annotations": {keys.HYPER_JOB: str(meta.key)},
    }
    if by := meta.annotations.get(keys.SUBMITTED_BY):
        made["annotations"][keys.SUBMITTED_BY] = by
    if namespace == meta.namespace:
        made["ownerReferences"] = [controller_reference(HYPER_JOBS, meta)]
    spec = msgspec.json.decode(part.entry.template_spec) if part.entry.template_spec else {}
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": made, "spec": spec}


def has_ended(hyper_job: HyperJob, name: str) -> bool:
    """Return whether the status says that the Job `name` has finished. Such a Job is not created again after its deletion."""
    return any(name in each.job_states and each.job_states[name].phase.is_finished for each in _states(hyper_job))


def status(hyper_job: HyperJob, jobs: Mapping[str, Job], problem: Problem | None, *, now: float) -> dict[str, Any]:
    """Return the merge patch of the status for the Jobs by name. Empty when the status is current."""
    before = {name: state for each in _states(hyper_job) for name, state in each.job_states.items()}
    states: dict[str, JobState] = {}
    rows = []
    for entry in hyper_job.spec.replicated_jobs:
        names = [f"{hyper_job.metadata.name}-{entry.name}-{number}" for number in range(min(entry.replicas, _MOST_JOBS))]
        row = {name: state for name in names if (state := _state(jobs.get(name), before.get(name))) is not None}
        states |= row
        rows.append(_row(entry.name, row, [jobs[name] for name in names if name in jobs]))
    wanted = _wanted(hyper_job)
    body = {
        "conditions": _conditions(hyper_job, states.values(), wanted, problem, now),
        "replicatedJobsStatus": fitted(hyper_job, rows),
        "splitCount": len(states),
        "observedGeneration": hyper_job.metadata.generation,
    }
    there = hyper_job.status
    same = reading.convert(body, type(there)) == there
    return {} if same else {"metadata": {"resourceVersion": hyper_job.metadata.resource_version}, "status": body}


def _wanted(hyper_job: HyperJob) -> int:
    """Return how many Jobs the HyperJob should have. A negative number counts as none."""
    return sum(max(0, entry.replicas) for entry in hyper_job.spec.replicated_jobs)


def _states(hyper_job: HyperJob) -> tuple[Any, ...]:
    return hyper_job.status.replicated_jobs_status


def _state(job: Job | None, before: JobState | None) -> JobState | None:
    """Return the state of a Job. For a Job that was deleted after its end, return the state at its end. Otherwise None."""
    if job is not None:
        return job.status.state
    return before if before is not None and before.phase.is_finished else None


def _row(name: str, states: Mapping[str, JobState], jobs: Iterable[Job]) -> dict[str, Any]:
    all_of_them = [job.status for job in jobs]
    numbers = {
        field: sum(getattr(each, field) for each in all_of_them)
        for field in ("pending", "running", "succeeded", "failed", "terminating", "unknown")
    }
    written = {job: {key: value for key, value in msgspec.to_builtins(state).items() if value} for job, state in states.items()}
    return {"name": name, "jobStates": written, **numbers}


def _conditions(
    hyper_job: HyperJob, states: Iterable[JobState], wanted: int, problem: Problem | None, now: float
) -> list[dict[str, Any]]:
    phases = Counter(state.phase for state in states)
    minimum = hyper_job.spec.min_available if hyper_job.spec.min_available is not None else wanted
    good = phases[JobPhase.RUNNING] + phases[JobPhase.COMPLETING] + phases[JobPhase.COMPLETED]
    bad = phases[JobPhase.FAILED] + phases[JobPhase.TERMINATED]
    done, lost = phases[JobPhase.COMPLETED], bad > 0 and wanted - bad < minimum
    made = sum(phases.values())
    placed = problem or (Problem("AllPlaced", f"{made} of {wanted} Jobs are made") if made == wanted else None)
    found = [
        ("Placed", problem is None and made == wanted, placed or Problem("Placing", f"{made} of {wanted} Jobs are made")),
        ("Available", good >= minimum, Problem("JobsRunning", f"{good} Jobs run or are done, {minimum} are wanted")),
        ("Completed", wanted > 0 and done == wanted, Problem("JobsCompleted", f"{done} of {wanted} Jobs have completed")),
        ("Failed", lost, Problem("JobsFailed", f"{bad} Jobs have failed, {minimum} of {wanted} are wanted")),
    ]
    known = {condition.type: condition for condition in hyper_job.status.conditions}
    return [_condition(type_, holds, why, known.get(type_), now) for type_, holds, why in found]


def _condition(type_: str, holds: bool, why: Problem, known: Condition | None, now: float) -> dict[str, Any]:
    value = "True" if holds else "False"
    since = known.last_transition_time if known is not None and known.status == value else None
    condition = {"type": type_, "status": value, "reason": why.reason, "message": why.message}
    return {**condition, "lastTransitionTime": since or format_time(now)}

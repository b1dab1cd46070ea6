"""Computes the Jobs of a HyperJob, their domains, and the status of the HyperJob.

A domain is a place where Jobs can be created. At present each domain is a namespace of this cluster. The controller resolves the
names of domains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase, SplitMode
from pyroclast.api.records import Condition, HyperJob, Job, JobState, Namespace, ReplicatedJob, reading
from pyroclast.api.types import HYPER_JOBS, JOBS
from pyroclast.lifecycle.merging import controller_reference
from pyroclast.lifecycle.times import format_time

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
    rows = hyper_job.status.replicated_jobs_status
    return any(name in row.job_states and row.job_states[name].phase.is_finished for row in rows)


def status(hyper_job: HyperJob, jobs: Mapping[str, Job], problem: Problem | None, *, now: float) -> dict[str, Any]:
    """Return the merge patch of the status for the Jobs by name. Empty when the status is current."""
    before = {name: state for row in hyper_job.status.replicated_jobs_status for name, state in row.job_states.items()}
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


def _state(job: Job | None, before: JobState | None) -> JobState | None:
    """Return the state of a Job. For a Job that was deleted after its end, return the state at its end. Otherwise None."""
    if job is not None:
        return job.status.state
    return before if before is not None and before.phase.is_finished else None


def _row(name: str, states: Mapping[str, JobState], jobs: Iterable[Job]) -> dict[str, Any]:
    statuses = [job.status for job in jobs]
    counted = ("pending", "running", "succeeded", "failed", "terminating", "unknown")
    numbers = {field: sum(getattr(each, field) for each in statuses) for field in counted}
    return {"name": name, "jobStates": {job: _written(state) for job, state in states.items()}, **numbers}


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


@dataclass(frozen=True, slots=True)
class HyperFacts:
    """The facts about a HyperJob at one moment, with its Jobs by name.

    `is_empty`: whether the watch shows none of its Jobs any more. `namespaces`: the namespaces that its entries name, by name;
    None for one that does not exist.
    """

    hyper_job: HyperJob
    jobs: Mapping[str, Job]
    is_empty: bool
    namespaces: Mapping[str, Namespace | None]


@dataclass(frozen=True, slots=True)
class HyperDecision:
    """The actions for a HyperJob, in this order: delete Jobs, write the finalizers, create the missing Jobs without a problem.

    `finalizers`: None when they stay unchanged. `problems`: the problem of each Job that cannot be created, by its name.
    `problem`: the problem of the HyperJob as a whole.
    """

    delete: tuple[Job, ...] = ()
    finalizers: tuple[str, ...] | None = None
    missing: tuple[HyperJobPart, ...] = ()
    problems: Mapping[str, Problem] | None = None
    problem: Problem | None = None


def decide(facts: HyperFacts) -> HyperDecision:
    """Return the decision that follows from the facts. A deleted HyperJob loses its finalizer after its last Job is gone."""
    hyper_job, meta = facts.hyper_job, facts.hyper_job.metadata
    if meta.is_terminating:
        if keys.HYPER_JOB_FINALIZER not in meta.finalizers:
            return HyperDecision()
        others = tuple(name for name in meta.finalizers if name != keys.HYPER_JOB_FINALIZER)
        return HyperDecision(_deletions(facts, frozenset()), others if facts.is_empty else None)
    parts = split(hyper_job)
    if isinstance(parts, Problem):
        return HyperDecision(problem=parts)
    missing = tuple(part for part in parts if part.name not in facts.jobs and not has_ended(hyper_job, part.name))
    obstacles = {name: _obstacle(hyper_job, name, facts.namespaces.get(name)) for name in {part.domain for part in missing}}
    is_apart = any(found is None and name != meta.namespace for name, found in obstacles.items())
    return HyperDecision(
        _deletions(facts, {part.name for part in parts}),
        (*meta.finalizers, keys.HYPER_JOB_FINALIZER) if is_apart and keys.HYPER_JOB_FINALIZER not in meta.finalizers else None,
        missing,
        {part.name: found for part in missing if (found := obstacles[part.domain]) is not None},
    )


def _deletions(facts: HyperFacts, wanted: frozenset[str] | set[str]) -> tuple[Job, ...]:
    return tuple(job for name, job in facts.jobs.items() if name not in wanted and not job.metadata.is_terminating)


def _obstacle(hyper_job: HyperJob, name: str, namespace: Namespace | None) -> Problem | None:
    """Return the reason why no Job of `hyper_job` can be created in the domain `name`. None when it can."""
    own = hyper_job.metadata.namespace
    if name == own:
        return None
    if namespace is None:
        text = f"{name} is no namespace of this cluster; other clusters cannot be used yet, so give namespaces"
        return Problem("ClusterNotSupported", text)
    if not is_allowed(hyper_job, namespace):
        annotation = f"training.volcano.sh/hyperjobs-from: {own}"
        return Problem("NamespaceNotAllowed", f"namespace {name} takes no HyperJobs from {own}; annotate it with {annotation}")
    if namespace.metadata.is_terminating:
        return Problem("NamespaceTerminating", f"namespace {name} is being deleted")
    return None


_MOST_STORED: Final = 1_400_000
"""Most bytes of a HyperJob's spec and rows. The store accepts 1.5 MiB, which includes the metadata and conditions."""

_MOST_OPERATIONS: Final = 1000
"""Most operations in one patch. A larger patch is as long as the whole status. The API server accepts 10,000 operations."""

_OPTIONAL: Final = ("message", "reason", "lastTransitionTime")
"""The fields that are omitted from the state of a Job, in this order. The Job itself has them."""

_ENDS: Final = frozenset(phase.value for phase in JobPhase if phase.is_finished)

Row: TypeAlias = dict[str, Any]
"""A row of `replicatedJobsStatus` in its JSON form."""


def fitted(hyper_job: HyperJob, rows: Sequence[Row]) -> list[Row]:
    """Return `rows` in the longest form that the API server can store.

    First the messages are omitted, then the reasons, then the times, and at last the Jobs that have not ended.
    """
    room = _MOST_STORED - len(msgspec.json.encode(hyper_job.spec))
    found = [dict(row) for row in rows]
    for field in _OPTIONAL:
        if len(msgspec.json.encode(found)) <= room:
            return found
        for row in found:
            states = row["jobStates"].items()
            row["jobStates"] = {name: {key: state[key] for key in state if key != field} for name, state in states}
    if len(msgspec.json.encode(found)) > room:
        for row in found:
            row["jobStates"] = {name: state for name, state in row["jobStates"].items() if state["phase"] in _ENDS}
    return found


def status_patch(hyper_job: HyperJob, body: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the JSON patch that changes the status of `hyper_job` to `body`. None when the whole status must be written."""
    status = hyper_job.status
    rows = body["replicatedJobsStatus"]
    if [row["name"] for row in rows] != [row.name for row in status.replicated_jobs_status]:
        return None
    # the API server answers with a conflict if the object has another version
    found = [_set("/metadata/resourceVersion", hyper_job.metadata.resource_version)]
    for place, (row, before) in enumerate(zip(rows, status.replicated_jobs_status, strict=True)):
        path = f"/status/replicatedJobsStatus/{place}"
        known = {name: _written(state) for name, state in before.job_states.items()}
        states = row["jobStates"]
        if known:
            found += [_set(f"{path}/jobStates/{name}", state) for name, state in states.items() if known.get(name) != state]
            found += [{"op": "remove", "path": f"{path}/jobStates/{name}"} for name in known.keys() - states.keys()]
        elif states:
            found.append(_set(f"{path}/jobStates", states))
        found += [
            _set(f"{path}/{key}", row[key]) for key in row.keys() - {"name", "jobStates"} if row[key] != getattr(before, key)
        ]
    for key in ("conditions", "splitCount", "observedGeneration"):
        found.append(_set(f"/status/{key}", body[key]))
    return found if len(found) <= _MOST_OPERATIONS else None


def _written(state: JobState) -> dict[str, Any]:
    return {key: value for key, value in msgspec.to_builtins(state).items() if value}


def _set(path: str, value: Any) -> dict[str, Any]:  # noqa: ANN401 - a JSON value
    return {"op": "add", "path": path, "value": value}

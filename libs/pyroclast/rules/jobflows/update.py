"""Rules for a flow that exists: an entry that has started must not change, and a running flow is not deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyroclast.api.keys import FORCE_DELETE
from pyroclast.rules.jobflows.creation import validate_create
from pyroclast.rules.jobflows.entries import possible_rounds, round_of
from pyroclast.rules.lookups import ANY_JOB, COMPLETE_PHASES, NOTHING_KNOWN, FlowKnowledge, JobOptions
from pyroclast.rules.meaning import same_meaning
from pyroclast.rules.values import mapping, mappings, string_items, text
from pyroclast.rules.verdicts import ALLOWED, Verdict, denied

_LISTS = ("pendingJobs", "runningJobs", "failedJobs", "completedJobs", "terminatedJobs", "unKnowJobs")
_WAITING = "Waiting"


def validate_update(
    flow: Mapping[str, Any],
    old: Mapping[str, Any],
    known: FlowKnowledge = NOTHING_KNOWN,
    options: JobOptions = ANY_JOB,
) -> Verdict:
    """Return the verdict on changing `old` to `flow`. The status of `old` shows which entries have started."""
    spec, before = mapping(flow.get("spec")), mapping(old.get("spec"))
    if same_meaning(spec, before):
        return ALLOWED
    is_same = same_meaning(spec.get("parameters"), before.get("parameters"))
    if same_meaning(spec.get("flows"), before.get("flows")) and is_same:
        return ALLOWED
    phase = text(mapping(mapping(old.get("status")).get("state")).get("phase"))
    if phase in COMPLETE_PHASES:
        return denied(f"the entries of a jobflow that is {phase} can not be changed: it starts nothing any more; make a new flow")
    verdict = validate_create(flow, known, options)
    if not verdict.allowed:
        return verdict
    if not is_same and _started(old):
        return denied("jobflow updates may not change parameters after entries have started; make a new flow with vcctl flow run")
    touched = list(_touched(spec, old))
    if not touched:
        return verdict
    return denied(
        f"jobflow updates may not change entries that have started: {', '.join(touched)}; "
        "add entries, change those that wait, or make a new flow"
    )


def jobs_made(flow: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the Jobs that the flow has created, by its status."""
    status = mapping(flow.get("status"))
    listed = {name for part in _LISTS for name in string_items(status.get(part))}
    known = {text(job.get("name")) for _, job in mappings(status.get("jobStatusList"))}
    return frozenset(listed | known)


def _started(flow: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the created Jobs, and of entries that were decided without a Job."""
    conditions = mapping(mapping(flow.get("status")).get("conditions"))
    return jobs_made(flow) | {name for name, condition in conditions.items() if mapping(condition).get("phase") != _WAITING}


def _touched(spec: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[str]:
    flow_name = text(mapping(old.get("metadata")).get("name"))
    started = _started(old)
    first_rounds: dict[str, int] = {}
    for job in started:
        loop, number = round_of(job)
        if number is not None:
            first_rounds[loop] = min(number, first_rounds.get(loop, number))
    entries = {text(entry.get("name")): entry for _, entry in mappings(spec.get("flows"))}
    seen: set[str] = set()
    for _, entry in mappings(mapping(old.get("spec")).get("flows")):
        name = text(entry.get("name"))
        if name in seen or not _has_started(f"{flow_name}-{name}", entry, started, first_rounds):
            continue
        seen.add(name)
        if name not in entries:
            yield f"{name} (removed)"
        elif not same_meaning(entries[name], entry):
            yield f"{name} (changed)"


def _has_started(job_name: str, entry: Mapping[str, Any], started: frozenset[str], first_rounds: Mapping[str, int]) -> bool:
    """Whether the Job of the entry exists, or a round of its loop. `first_rounds`: the first started round of each loop."""
    if job_name in started:
        return True
    return isinstance(entry.get("for"), dict) and job_name in first_rounds and first_rounds[job_name] < possible_rounds(entry)


def validate_delete(flow: Mapping[str, Any], name: str) -> Verdict:
    """Return the verdict on deleting a flow, which is allowed without Jobs, or when it is already being deleted."""
    metadata = mapping(flow.get("metadata"))
    if text(mapping(metadata.get("annotations")).get(FORCE_DELETE)) == "true" or metadata.get("deletionTimestamp"):
        return ALLOWED
    phase = text(mapping(mapping(flow.get("status")).get("state")).get("phase"))
    if phase in COMPLETE_PHASES or not jobs_made(flow):
        return ALLOWED
    return denied(
        f"jobflow {name} can not be deleted because it is {phase or 'Pending'}, not complete; "
        f'wait until it is, or annotate it with {FORCE_DELETE}: "true" first'
    )

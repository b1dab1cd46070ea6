"""The rows of Jobs, of their PodGroups with the predicted starts, and of their owners. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import orjson

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase, PodGroupPhase
from pyroclast.api.records import batch, reading
from pyroclast.api.records.flows import JobFlow
from pyroclast.api.records.groups import PodGroup
from pyroclast.api.records.hyperjobs import HyperJob
from pyroclast.api.records.jobs import Command, CronJob, Job, Task
from pyroclast.api.records.meta import Meta, OwnerReference, Wire
from pyroclast.api.records.pods import PodSpec
from pyroclast.api.run_lengths import alike_keys, digest, worth_key
from pyroclast.api.waiting import Waiting, read_waiting
from pyroclast.lifecycle.flow.outputs import outputs_of
from pyroclast.lifecycle.gang import arrays
from pyroclast.lifecycle.gang.members import needed_pods
from pyroclast.resources.pods import as_stored, effective
from pyroclast_recorder.facts.pods import job_of
from pyroclast_recorder.facts.units import LARGEST, clipped, seconds, whole_amounts

Owner = JobFlow | CronJob | HyperJob | batch.Job

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
SUSPENDED: Final = "Suspended"
_ENDS: Final = frozenset({COMPLETE, "Completed", FAILED})
"""The types of the conditions of an ended native Job or HyperJob."""


def owner_facts(owner: Owner, now: int, *, is_deleted: bool) -> dict[str, Any]:
    """Return the row of an owner, without the columns `cluster` and `version`. `now`: seconds since the epoch."""
    meta = owner.metadata
    phase, ended = _end_of(owner)
    return {
        "uid": meta.uid,
        "kind": type(owner).__name__,
        "namespace": meta.namespace,
        "name": meta.name,
        "submitted_by": clipped(meta.annotations.get(keys.SUBMITTED_BY, ""), 253) or None,
        "phase": clipped(phase, 63) or None,
        "created": seconds(meta.creation_timestamp),
        "ended": ended,
        "removed": now if is_deleted else None,
    }


def _end_of(owner: Owner) -> tuple[str, int | None]:
    """Return the phase of an owner and the time of its end; None before the end and for a CronJob."""
    if isinstance(owner, JobFlow):
        return owner.status.state.phase, seconds(owner.status.completion_time)
    if isinstance(owner, CronJob):
        return SUSPENDED if owner.spec.suspend else "", None
    holds = {each.type: each for each in owner.status.conditions if each.status == "True"}
    if (end := next((each for name, each in holds.items() if name in _ENDS), None)) is not None:
        return end.type, seconds(end.last_transition_time)
    return SUSPENDED if SUSPENDED in holds else "", None


def prediction_facts(group: PodGroup) -> dict[str, Any] | None:
    """Return the row of `predictions` of a PodGroup; None when it has no estimated start or no Job."""
    job, text = job_of(group), group.metadata.annotations.get(keys.WAITING)
    said = read_waiting(text) if text else None
    return None if job is None or said is None else prediction_row(job, said)


def prediction_row(job: str, said: Waiting) -> dict[str, Any] | None:
    """Return the row of `predictions` for the waiting `said` of a PodGroup; None without a valid estimated start.

    `job`: the uid of the PodGroup's row in `jobs`.
    """
    if said.start is None:
        return None
    at, (earliest, likely, latest) = seconds(said.seen), map(seconds, said.start)
    if at is None or earliest is None or likely is None or latest is None or not earliest <= likely <= latest:
        return None
    return {"job": job, "at": at, "p10": earliest, "p50": likely, "p90": latest, "basis": clipped(said.basis)}


UNKNOWN_USER: Final = "unknown"
LABELS_BYTES: Final = 2048
MOST_PHASES: Final = 64
"""The most phases of a Job in the database. Of more phases, the first half and the last half of this number are stored."""

ADMITTED: Final = frozenset({PodGroupPhase.INQUEUE, PodGroupPhase.RUNNING, PodGroupPhase.UNKNOWN, PodGroupPhase.COMPLETED})
PLACED: Final = frozenset({PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED})


class _Template(Wire, frozen=True, kw_only=True):
    spec: PodSpec = PodSpec()


def job_facts(job: Job, now: int, *, is_deleted: bool) -> dict[str, Any]:
    """Return the row of a Job, without the columns `cluster` and `version`.

    `now`: the time of the event, by the clock of the API server.
    """
    meta, spec, state = job.metadata, job.spec, job.status.state
    ended = state.phase.is_finished or state.phase is JobPhase.ABORTED
    templates = [(arrays.sized(task), _template(task)) for task in spec.tasks]
    return {
        "uid": meta.uid,
        "seen": now,
        "namespace": meta.namespace,
        "name": meta.name,
        "queue": clipped(spec.queue, 253),
        "submitted_by": clipped(meta.annotations.get(keys.SUBMITTED_BY) or UNKNOWN_USER, 253),
        **_made_by(meta),
        "priority_class": clipped(spec.priority_class_name, 253) or None,
        "shape": clipped(", ".join(_shape(task, pod) for task, pod in templates)),
        "image": clipped(next((each.image for _, pod in templates for each in pod.containers), ""), 512) or None,
        "estimate": clipped(spec.running_estimate or "", 63) or None,
        "labels": kept_labels(meta),
        "requests": _requests(templates),
        "phase": str(state.phase) or str(JobPhase.PENDING),
        "reason": clipped(state.reason, 128) or None,
        "message": clipped(state.message) or None,
        "gang_size": spec.min_available if spec.min_available is not None else sum(needed_pods(task) for task, _ in templates),
        "retries": job.status.retry_count,
        "created": seconds(meta.creation_timestamp),
        "started": _first_time(job, JobPhase.RUNNING),
        "ended": seconds(state.last_transition_time) if ended else None,
        "removed": now if is_deleted else None,
    }


def phase_facts(job: Job) -> list[dict[str, Any]]:
    """Return the rows of `job_phases`: the phases that the Job has reached.

    The message of the present phase is why the Job entered it; for a Job of a flow that has ended, what the Job put out, as JSON.
    """
    rows, state = [], job.status.state
    outputs = outputs_of(job)[0] if state.phase.is_finished else ""
    why = outputs or clipped(": ".join(filter(None, (state.reason, state.message)))) or None
    for each in job.status.conditions:
        at = seconds(each.last_transition_time)
        if at is not None and each.status:
            message = why if each.status == state.phase else None
            rows.append({"job": job.metadata.uid, "at": at, "name": clipped(each.status, 63), "message": message})
    return _thinned(rows)


def group_facts(group: PodGroup, now: int) -> dict[str, Any] | None:
    """Return the columns that a PodGroup adds to the row of its Job; None if no Job owns the PodGroup."""
    job, phase = job_of(group), group.status.phase
    if job is None:
        return None
    return {"uid": job, "let_in": now if phase in ADMITTED else None, "placed": now if phase in PLACED else None}


def alike_facts(group: PodGroup) -> dict[str, Any] | None:
    """Return the row of `job_alikes` with the keys by which the scheduler recognises similar Jobs.

    None if no Job owns the PodGroup.
    """
    job, meta, spec = job_of(group), group.metadata, group.spec
    if job is None:
        return None
    keys_of_job = alike_columns(meta, meta.namespace, spec.queue, spec.min_member, spec.min_resources or {})
    return {"job": job, **keys_of_job, "at": seconds(meta.creation_timestamp)}


def alike_columns(meta: Meta, namespace: str, queue: str, members: int, resources: Mapping[str, str | int]) -> dict[str, str]:
    """Return the columns with the keys of similar Jobs, and with the key by which estimates are judged."""
    alike = alike_keys(meta, namespace, queue, members, resources)
    return {"alike": ",".join(map(digest, alike)), "owner": digest(worth_key(meta, namespace))}


def command_facts(command: Command) -> dict[str, Any]:
    """Return the row of a Command. Admission writes its user, and no user may write another one."""
    meta, target = command.metadata, command.target or OwnerReference()
    user = meta.annotations.get(keys.SUBMITTED_BY, "") if keys.AUTHORIZED_FOR in meta.annotations else ""
    return {
        "uid": meta.uid,
        "at": seconds(meta.creation_timestamp),
        "namespace": meta.namespace,
        "kind": clipped(target.kind, 63),
        "name": clipped(target.name, 253),
        "target": clipped(target.uid, 63),
        "action": clipped(command.action, 63),
        "submitted_by": clipped(user, 253) or None,
        "message": clipped(": ".join(filter(None, (command.reason, command.message)))) or None,
    }


def cause_facts(group: PodGroup) -> list[dict[str, Any]]:
    """Return the rows of `job_causes`: the causes for which the gang could not be scheduled."""
    job = job_of(group)
    rows = []
    for each in group.status.conditions if job else ():
        at = seconds(each.last_transition_time)
        if at is not None and each.type == "Unschedulable" and each.status == "True":
            reason = clipped(each.reason or each.type, 63)
            rows.append({"job": job, "at": at, "name": reason, "message": clipped(each.message) or None})
    return rows


def _thinned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    half = MOST_PHASES // 2
    return rows if len(rows) <= MOST_PHASES else [*rows[:half], *rows[-half:]]


def _first_time(job: Job, phase: JobPhase) -> int | None:
    """Return the time at which the Job first entered `phase`; None if it never did."""
    times = [seconds(each.last_transition_time) for each in job.status.conditions if each.status == phase]
    if job.status.state.phase is phase:
        times.append(seconds(job.status.state.last_transition_time))
    return min((time for time in times if time is not None), default=None)


def _template(task: Task) -> PodSpec:
    raw = bytes(task.template)
    try:
        return reading.reader(_Template).read(raw)[0].spec if raw else PodSpec()
    except (msgspec.DecodeError, RecursionError):
        return PodSpec()


def _made_by(meta: Meta) -> dict[str, str | None]:
    """Return the columns of the owner of a Job.

    A label and an annotation name a HyperJob, because a HyperJob in another namespace cannot be an owner reference.
    """
    if meta.owner_references:
        owner = meta.owner_references[0]
        named = owner.kind, owner.name, owner.uid
    elif uid := meta.labels.get(keys.HYPER_JOB_UID):
        named = "HyperJob", meta.annotations.get(keys.HYPER_JOB, "").rpartition("/")[2], uid
    else:
        return dict.fromkeys(("owner_kind", "owner_name", "owner_uid"))
    kind, name, uid = named
    return {"owner_kind": clipped(kind, 63), "owner_name": clipped(name, 253), "owner_uid": clipped(uid, 63)}


def _requests(templates: Iterable[tuple[Task, PodSpec]]) -> str:
    """Return the sum of the requests of all pods that may run at the same time, as JSON."""
    total: Counter[str] = Counter()
    for task, pod in templates:
        for name, amount in whole_amounts(effective(as_stored(msgspec.to_builtins(pod)), "requests")).items():
            total[name] = min(total[name] + amount * max(0, arrays.at_once(task).replicas), LARGEST)
    return orjson.dumps(total, option=orjson.OPT_SORT_KEYS).decode()


def _shape(task: Task, pod: PodSpec) -> str:
    asked: Mapping[str, Any] = effective(as_stored(msgspec.to_builtins(pod)), "requests")
    amounts = " ".join(f"{name}={amount}" for name, amount in sorted(asked.items()))
    return f"{task.replicas}×{task.name}" + (f" ({amounts})" if amounts else "")


def kept_labels(meta: Meta) -> str | None:
    """Return as many labels as fit into 2 KiB, as JSON; None when there are none."""
    kept: dict[str, str] = {}
    size = 2
    for name, value in sorted(meta.labels.items()):
        name, value = clipped(name, 317), clipped(value, 63)
        size += len(orjson.dumps({name: value}))
        if size > LABELS_BYTES:
            break
        kept[name] = value
    return orjson.dumps(kept).decode() if kept else None

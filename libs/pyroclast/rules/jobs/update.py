"""Rules for changing a Job: only its scale and its priority may change, and the message names the other changed fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from pyroclast.rules.errors import invalid
from pyroclast.rules.jobs.arrays import check_change, pods_at_once
from pyroclast.rules.jobs.create import check_class, check_pods
from pyroclast.rules.jobs.defaults import default
from pyroclast.rules.jobs.tasks import check_partitions, total_replicas
from pyroclast.rules.lookups import ANY_JOB, JobOptions
from pyroclast.rules.meaning import same_meaning
from pyroclast.rules.podgroups import BOTH_TIERS, check_topology
from pyroclast.rules.values import Json, integer, mapping, mappings, optional_integer, text
from pyroclast.rules.verdicts import ALLOWED, Finding, Verdict, applied, broken, denied, first_only, found, verdict_of

_FREE = frozenset({"minAvailable", "priorityClassName", "suspend", "tasks", "volumes"})
_FREE_IN_TASK = frozenset({"replicas", "minAvailable"})
_FREE_IN_ARRAY_TASK = _FREE_IN_TASK | {"array"}  # which has its own rule


def changed_fields(spec: Mapping[str, Any], old: Mapping[str, Any]) -> list[str]:
    """Return the paths of the immutable fields whose meaning differs. Both specs have the same number of tasks."""
    changed = [f"spec.{key}" for key in _changed(spec, old, free=_FREE)]
    before = dict(mappings(old.get("tasks")))
    for index, task in mappings(spec.get("tasks")):
        free = _FREE_IN_ARRAY_TASK if "array" in task and "array" in before[index] else _FREE_IN_TASK
        changed += [f"spec.tasks[{index}].{key}" for key in _changed(task, before[index], free=free)]
    if not same_meaning(_without_made_names(spec.get("volumes")), _without_made_names(old.get("volumes")), of_job=True):
        changed.append("spec.volumes")
    return changed


def _changed(new: Mapping[str, Any], old: Mapping[str, Any], *, free: frozenset[str]) -> list[str]:
    keys = sorted((new.keys() | old.keys()) - free)
    return [key for key in keys if not same_meaning({key: new.get(key)}, {key: old.get(key)}, of_job=True)]


def _without_made_names(volumes: Json) -> list[dict[str, Any]]:
    """Return the volumes without the claim names that the controller generates for new claims."""
    return [
        {key: value for key, value in volume.items() if key != "volumeClaimName" or "volumeClaim" not in volume}
        for _, volume in mappings(volumes)
    ]


ABOVE_TOTAL = "job 'minAvailable' must not be greater than total replicas"
NEEDS_MINIMUM = "job 'minAvailable' must be > 0 unless all replicas are 0"
STAYS_WITHIN_REPLICAS = "'minAvailable' must be <= 'replicas'"
TASKS_CHANGED = "job updates may not add or remove tasks"
FIELDS_CHANGED = (
    "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and `PriorityClassName`"
)
SHOWN_FIELDS = 5


def validate_update(job: Mapping[str, Any], old: Mapping[str, Any], options: JobOptions = ANY_JOB) -> Verdict:
    """Return the verdict on changing `old` to `job`. Metadata and status may change freely; an unchanged spec has no findings."""
    spec, before = mapping(job.get("spec")), mapping(old.get("spec"))
    if spec == before:
        return ALLOWED
    tasks = [task for _, task in mappings(spec.get("tasks"))]
    name = text(mapping(job.get("metadata")).get("name"))
    findings = list(
        chain(*(_check_task(task, f"spec.tasks[{n}]", name) for n, task in enumerate(tasks)), _check_spec(spec, tasks, before))
    )
    if total_replicas(tasks) > total_replicas(task for _, task in mappings(before.get("tasks"))):
        findings += check_pods(tasks, "spec", options)
    for (n, task), (_, earlier) in zip(enumerate(tasks), mappings(before.get("tasks")), strict=False):
        findings += check_change(task, earlier, f"spec.tasks[{n}]")
    if spec.get("priorityClassName") != before.get("priorityClassName"):
        findings += check_class(spec, "spec", options)
    verdict = verdict_of(first_only(findings), trim=False)
    if not verdict.allowed:
        return verdict
    if len(tasks) != sum(1 for _ in mappings(before.get("tasks"))):
        return denied(TASKS_CHANGED)
    changed = changed_fields(_completed(job), _completed(old))
    if not changed:
        return ALLOWED
    more = f" and {len(changed) - SHOWN_FIELDS} more" if len(changed) > SHOWN_FIELDS else ""
    return denied(f"{FIELDS_CHANGED}; changed: {', '.join(changed[:SHOWN_FIELDS])}{more}")


def _completed(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the spec with its defaults: to omit a default field, as `kubectl apply` does with a whole task, changes nothing."""
    return mapping(applied(job, default(job)).get("spec"))


def _check_task(task: Mapping[str, Any], path: str, job_name: str) -> Iterator[Finding]:
    name, replicas = text(task.get("name")), integer(task.get("replicas"))
    available = optional_integer(task.get("minAvailable"))
    if replicas < 0:
        yield broken(f"{path}.replicas", replicas, f"'replicas' must be >= 0 in task: {name}")
    if available is not None and available < 0:
        yield broken(f"{path}.minAvailable", available, f"'minAvailable' must be >= 0 in task: {name}")
    if available is not None and available > (most := pods_at_once(task)):
        sentence = f"{STAYS_WITHIN_REPLICAS} in task: {name}"
        yield found(sentence, invalid(f"{path}.minAvailable", available, f"{sentence}; there are {most} replicas"))
    if faults := check_partitions(task, path, job_name):  # Volcano reports all faults of partitions in one sentence on an update
        said = "".join(each.sentence for each in faults if not each.extra)
        yield found(said, *(error for each in faults for error in each.errors))


def _check_spec(spec: Mapping[str, Any], tasks: list[Mapping[str, Any]], before: Mapping[str, Any]) -> Iterator[Finding]:
    minimum, total = integer(spec.get("minAvailable")), total_replicas(tasks)
    if minimum > total:
        yield found(ABOVE_TOTAL, invalid("spec.minAvailable", minimum, f"{ABOVE_TOTAL}; there are {total} replicas"))
    if minimum < 0:
        yield broken("spec.minAvailable", minimum, "job 'minAvailable' must be >= 0")
    if minimum == 0 and total > 0 and not _has_no_minimum(before):
        yield found(NEEDS_MINIMUM, invalid("spec.minAvailable", minimum, NEEDS_MINIMUM))
    if error := check_topology(spec.get("networkTopology"), "spec.networkTopology"):
        yield found(BOTH_TIERS, error)


def _has_no_minimum(spec: Mapping[str, Any]) -> bool:
    """Whether the Job was created with a minimum of 0, which creation allows; then it may keep that minimum."""
    return not integer(spec.get("minAvailable")) and total_replicas(task for _, task in mappings(spec.get("tasks"))) > 0

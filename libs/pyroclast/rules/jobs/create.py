"""Rules for a new Job, and for specs from which Jobs will be created: in JobTemplates, CronJobs, HyperJobs and flows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyroclast.rules.errors import forbidden, invalid, required, unsupported
from pyroclast.rules.jobs.defaults import DEFAULT_QUEUE, default
from pyroclast.rules.jobs.made import check_made, check_priority
from pyroclast.rules.jobs.plugins import check_mpi_master, check_plugins, check_volumes, host_list_warnings
from pyroclast.rules.jobs.policies import check_estimate, check_policies, check_retry
from pyroclast.rules.jobs.tasks import check_dependencies, check_minimum, check_task, pod_name_warnings, total_replicas
from pyroclast.rules.jobs.timing import check_timing
from pyroclast.rules.jobs.warnings import ROOT_REFUSED, check_queue, pod_specs, spec_warnings
from pyroclast.rules.lookups import ANY_JOB, ROOT_QUEUE, JobOptions, QueueLookup
from pyroclast.rules.names import qualified_name
from pyroclast.rules.podgroups import BOTH_TIERS, check_topology
from pyroclast.rules.values import integer, mapping, mappings, text
from pyroclast.rules.verdicts import Finding, Verdict, applied, broken, found, untold, verdict_of

NO_TASKS = "No task specified in job spec"
TOO_FEW_REPLICAS = "job 'minAvailable' should not be greater than total replicas in tasks"


def validate_create(job: Mapping[str, Any], queues: QueueLookup, options: JobOptions = ANY_JOB) -> Verdict:
    """Return the verdict on a new Job with all its faults, which begins with Volcano's sentences in Volcano's order."""
    spec = mapping(job.get("spec"))
    name = text(mapping(job.get("metadata")).get("name"))
    findings = check_spec(spec, "spec", options, name=name, queues=queues)
    findings += check_made(job, options) if not findings else ()
    queue = queues.get(text(spec.get("queue")) or DEFAULT_QUEUE)
    warnings = (
        *spec_warnings(spec, "spec", queue),
        *host_list_warnings(spec, "spec", name),
        *pod_name_warnings((task for _, task in mappings(spec.get("tasks"))), "spec.tasks", name),
    )
    return verdict_of(findings, warnings=warnings)


def check_spec(
    spec: Mapping[str, Any], path: str, options: JobOptions, *, name: str, queues: QueueLookup | None = None
) -> list[Finding]:
    """Return all faults of the spec of a Job at `path`, in Volcano's order.

    Without `queues` the spec is a template: rules that need the Job's final name or its queue are skipped.
    """
    tasks = [task for _, task in mappings(spec.get("tasks"))]
    no_tasks = found(NO_TASKS, required(f"{path}.tasks", f"{NO_TASKS}; a job needs at least one"))
    prelude = check_mpi_master(spec.get("plugins"), tasks, f"{path}.plugins") if tasks else [no_tasks]
    rest = [
        *_check_topology(spec, path),
        *_check_tasks(tasks, path, name, named=queues is not None, pod_level_resources=options.pod_level_resources),
        *(_check_name(name) if queues is not None else ()),
        *_check_total(spec, tasks, path),
        *check_policies(spec.get("policies"), f"{path}.policies", said_path="spec.policies"),
        *check_plugins(spec.get("plugins"), f"{path}.plugins", options.plugins),
        *check_volumes(spec.get("volumes"), f"{path}.volumes"),
        *(check_queue(text(spec.get("queue")) or DEFAULT_QUEUE, queues, f"{path}.queue") if queues is not None else ()),
        *check_dependencies(tasks, f"{path}.tasks"),
        *check_estimate(spec, path),
        *check_retry(spec, path),
        *check_pods(tasks, path, options),
        *_check_placement(spec, path, options),
        *check_class(spec, path, options),
        *check_priority(spec, path),
        *check_timing(spec, path, name if queues is not None else ""),
    ]
    return [*prelude, *_extra(rest)] if prelude else rest


def _check_topology(spec: Mapping[str, Any], path: str) -> Sequence[Finding]:
    topology = spec.get("networkTopology")
    error = check_topology(topology, f"{path}.networkTopology") if topology else None
    return [found(BOTH_TIERS, error)] if error else ()


def _check_tasks(
    tasks: list[Mapping[str, Any]], path: str, job_name: str, *, named: bool, pod_level_resources: bool
) -> list[Finding]:
    """Return the faults of each task. Volcano stops at the first duplicate name; later faults but those of replicas are extra."""
    findings: list[Finding] = []
    first_with: dict[str, int] = {}
    stopped = False
    for index, task in enumerate(tasks):
        where = f"{path}.tasks[{index}]"
        name = text(task.get("name"))
        minimum = check_minimum(task, where, job_name)
        findings += _extra(minimum) if stopped else minimum
        of_task = check_task(task, index, where, job_name, named=named, pod_level_resources=pod_level_resources)
        if name in first_with:
            sentence = f"duplicated task name {name}"
            error = invalid(f"{where}.name", name, f"{sentence}; it is the name of task {first_with[name]} already")
            twice = found(f" {sentence};", error)
            findings.append(replace(twice, extra=stopped))
            stopped = True
        first_with.setdefault(name, index)
        findings += _extra(of_task) if stopped else of_task
    return findings


def _check_name(name: str) -> Sequence[Finding]:
    problems = qualified_name(name)
    if not problems:
        return ()
    return [broken("metadata.name", name, f"create job with name {name} validate failed [{' '.join(problems)}]")]


def _check_total(spec: Mapping[str, Any], tasks: list[Mapping[str, Any]], path: str) -> Sequence[Finding]:
    minimum, counted = integer(spec.get("minAvailable")), _until_name_comes_again(tasks)
    total = total_replicas(counted)
    if not tasks or total >= minimum:
        return ()
    up_to = f" up to task {len(counted) - 1}, whose name is taken" if len(counted) < len(tasks) else ""
    error = invalid(f"{path}.minAvailable", minimum, f"{TOO_FEW_REPLICAS}; there are {total} replicas{up_to}")
    return [found(f" {TOO_FEW_REPLICAS};", error)]


def too_many_pods(total: str, most: str) -> str:
    """Return the sentence about a Job of `total` pods."""
    return f"the replicas of all tasks sum up to {total} pods; one Job may have at most {most}"


def check_pods(tasks: Iterable[Mapping[str, Any]], path: str, options: JobOptions) -> Sequence[Finding]:
    """Return a fault when the tasks at `path` have more pods than the installation allows for one Job."""
    total = total_replicas(tasks)
    if total <= options.max_pods:
        return ()
    sentence = too_many_pods(str(total), str(options.max_pods))
    return [Finding(f"{sentence};", (invalid(f"{path}.tasks", total, sentence),), extra=True)]


def check_class(spec: Mapping[str, Any], path: str, options: JobOptions) -> Sequence[Finding]:
    """Return a fault when no pod of the namespace may have the PriorityClass of the Job, which orders the Job in its queue."""
    name = text(spec.get("priorityClassName"))
    if not name or not (quota := options.forbids_class(name)):
        return ()
    why = f'the ResourceQuota {quota} allows no pods of the PriorityClass "{name}"'
    return [untold(forbidden(f"{path}.priorityClassName", why))]


def _check_placement(spec: Mapping[str, Any], path: str, options: JobOptions) -> Iterator[Finding]:
    """Yield a fault for each part of the Job by which its pods would evade the scheduler, and so the limits of their queue."""
    if options.schedulers is None:
        return
    of_job, *of_pods = pod_specs(spec, path)
    for place, holder in (of_job, *of_pods):
        name = text(holder.get("schedulerName"))
        if name and name not in options.schedulers:
            yield untold(unsupported(f"{place}.schedulerName", name, sorted(options.schedulers)))
    for place, pod in of_pods:
        if node := text(pod.get("nodeName")):
            why = f"the scheduler chooses the node; select {node} by its labels, with nodeSelector or affinity"
            yield untold(forbidden(f"{place}.nodeName", why))


def _until_name_comes_again(tasks: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the tasks that Volcano checks: up to and including the first task with a duplicate name."""
    names: set[str] = set()
    for index, task in enumerate(tasks):
        if (name := text(task.get("name"))) in names:
            return tasks[: index + 1]
        names.add(name)
    return tasks


def _extra(findings: Iterable[Finding]) -> list[Finding]:
    return [replace(finding, extra=True) for finding in findings]


def check_template_spec(
    spec: Mapping[str, Any], path: str, options: JobOptions = ANY_JOB, *, name: str, job_name: str = "job"
) -> list[Finding]:
    """Return all faults of the spec of a template at `path`, which is checked like the future Job, with its defaults.

    Rules for the Job's name are skipped, and those for its queue, which may be created later, except that it is not `root`.
    `job_name`: the name of the future Job, or of one of them, if it is known, for the names of the objects that are made for it.
    """
    job = applied({"spec": spec}, default({"spec": spec}))
    findings = check_spec(job["spec"], path, options, name=name)
    if spec.get("queue") == ROOT_QUEUE:
        error = invalid(f"{path}.queue", ROOT_QUEUE, f"{ROOT_REFUSED}; name a queue below it")
        findings.append(Finding(f"{ROOT_REFUSED};", (error,), extra=True))
    made = {**job, "metadata": {"name": job_name, "namespace": "default"}}
    return findings or _extra(check_made(made, options, path))

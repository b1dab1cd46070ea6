"""Trials: the decisions of the next session about a gang, on a copy of the cluster, with the active actions and plugins.

The gang is made from the Job as the job controller would make it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from pyroclast.api import records
from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.records import reading
from pyroclast.lifecycle.gang import arrays, members, podgroups, pods
from pyroclast.lifecycle.gang.groups import volcano_group
from pyroclast.lifecycle.times import format_time
from pyroclast.resources.pods import NO_ADDITIONS, Additions, as_stored
from pyroclast.rules.jobs import defaults
from pyroclast.rules.verdicts import applied
from pyroclast_scheduler.cycle import run_cycle
from pyroclast_scheduler.model.causes import WaitingRecord
from pyroclast_scheduler.model.dimensions import Dimensions
from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.resource_sums import Contribution, QueueSums
from pyroclast_scheduler.model.shapes import ShapeBook
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.model.tasks import TaskFacts, task_of
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.outcome import Commit
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.session.session import Action, PluginFactory

MOST_PODS: Final = 20_000
"""The largest number of pods of a gang in a trial. A larger gang would take too long between two sessions."""


class TooManyPods(ValueError):
    """The gang is too large for a trial."""


def job_of(body: Mapping[str, Any]) -> records.Job:
    """Return the record of a Job.

    Raises:
        ValueError: the body is not a valid Job.
    """
    return members.named(reading.convert(dict(body), records.Job, strict=False))


def as_created(body: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Return a Job as the API server would create it from a manifest at time `now`, with the defaults of admission."""
    whole = applied(dict(body), defaults.default(body))
    meta = dict(whole.get("metadata") or {})
    name = meta.get("name") or f"{meta.get('generateName') or 'job-'}tried"
    namespace, created = meta.get("namespace") or "default", format_time(now)
    whole["metadata"] = {**meta, "name": name, "namespace": namespace, "uid": "tried", "creationTimestamp": created}
    whole.pop("status", None)
    return whole


def gang_of(
    body: Mapping[str, Any],
    priorities: Mapping[str, int],
    default: int,
    *,
    additions: Additions = NO_ADDITIONS,
    phase: PodGroupPhase = PodGroupPhase.PENDING,
) -> JobFacts:
    """Return the facts of the gang of a Job whose pods are all pending.

    `priorities`: the values of PriorityClasses by name. `default`: the value without a class. `additions`: what the API server
    adds to the amounts of the pods.

    Raises:
        ValueError: the body is not a valid Job, or a quantity is invalid.
        TooManyPods: the gang is too large for a trial.
    """
    job = job_of(body)
    if sum(arrays.at_once(task).replicas for task in job.spec.tasks) > MOST_PODS:
        raise TooManyPods(f"it has more than {MOST_PODS} pods")
    manifest = podgroups.manifest(job, priorities, additions)
    manifest["metadata"] |= {"uid": f"tried-{job.metadata.uid}", "creationTimestamp": job.metadata.creation_timestamp}
    manifest["status"] = {"phase": str(phase)}
    group = reading.convert(manifest, records.PodGroup, strict=False)
    book, tasks = ShapeBook(), []
    for task in map(arrays.at_once, job.spec.tasks):
        tasks += _tasks(job, task, book, priorities, additions)
    priority = priorities.get(group.spec.priority_class_name, default) if group.spec.priority_class_name else default
    return JobFacts.of(volcano_group(group), tasks, priority=priority, queue=group.spec.queue)


def _tasks(
    job: records.Job, task: records.Task, book: ShapeBook, priorities: Mapping[str, int], additions: Additions
) -> list[TaskFacts]:
    """Return the pods of a task, which differ only in their names and indices."""
    if not task.replicas:
        return []
    manifest = pods.build(job, task, 0)
    manifest["spec"] = as_stored(manifest["spec"], additions)
    manifest["spec"].setdefault("priority", priorities.get(manifest["spec"].get("priorityClassName") or "", 0))
    uid, replace = f"tried-{job.metadata.uid}-{task.name}", msgspec.structs.replace
    manifest["metadata"] |= {"uid": uid, "creationTimestamp": job.metadata.creation_timestamp}
    first = task_of(reading.convert(manifest, records.Pod, strict=False), book)
    return [
        replace(
            first,
            uid=f"{uid}-{index}",
            name=members.pod_name(job.metadata.name, task.name, index),
            index=index,
        )
        for index in range(task.replicas)
    ]


@dataclass(frozen=True, slots=True)
class Engine:
    """The decision code of the scheduler's loop. `features`: kept from trial to trial, and not shared with sessions."""

    configuration: Configuration
    actions: Mapping[str, Action]
    plugins: Mapping[str, PluginFactory]
    ports: Ports
    features: NodeFeatures = field(default_factory=NodeFeatures)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a trial: whether the minimum of the gang is placed at once, and how many pods are evicted for it.

    `record`: the cause if the gang does not start; None if it is unknown.
    """

    starts: bool
    evictions: int = 0
    record: WaitingRecord | None = None


def tried(snapshot: Snapshot, gang: JobFacts, engine: Engine, *, instead: str = "") -> Verdict:
    """Return the decision of the next session about `gang`. `instead`: the key of the job that `gang` replaces.

    Unschedulable jobs are not examined, since nothing changes for them. No decision is committed, and `snapshot` does not change.
    """
    commits: list[Commit] = []
    outcome = run_cycle(
        _with(snapshot, gang, engine.features, instead),
        engine.configuration,
        actions=engine.actions,
        plugins=engine.plugins,
        ports=replace(engine.ports.rehearsing(), commit=commits.append),
        uid="trial",
    )
    bound = sum(len(binds.placed) for commit in commits for binds in commit.binds if binds.job == gang.key)
    evicted = sum(len(commit.evictions) for commit in commits)
    own = {task.uid for task in gang.tasks}
    promised = sum(uid in own for uid in outcome.promised)
    starts = bound + promised >= max(1, gang.min_available) if gang.tasks else False
    return Verdict(starts, evicted, None if starts else outcome.records.get(gang.key))


def _with(snapshot: Snapshot, gang: JobFacts, features: NodeFeatures, instead: str) -> Snapshot:
    """Return a copy of the cluster in which the session examines only `gang`."""
    replaced = snapshot.all_jobs.get(instead)
    jobs = {key: facts for key, facts in snapshot.all_jobs.items() if key != instead}
    sums = dict(snapshot.queue_sums)
    dimensions = snapshot.dimensions
    if replaced is not None:
        _count(sums, replaced.contribution, dimensions, -1)
    _count(sums, gang.contribution, dimensions, 1)
    return replace(
        snapshot,
        columns=snapshot.columns.copy(),
        ports={row: Counter(ports) for row, ports in snapshot.ports.items()},
        jobs=[gang],
        candidates=(),
        all_jobs={**jobs, gang.key: gang},
        queue_sums=sums,
        is_coupled=snapshot.is_coupled or any(task.shape.is_coupled for task in gang.tasks),
        features=features,
        touched=None,
    )


def _count(sums: dict[str, QueueSums], contribution: Contribution, dimensions: Dimensions, sign: int) -> None:
    nothing = dimensions.sums({})
    before = sums.pop(contribution.queue, QueueSums(nothing, nothing, nothing, nothing, nothing))
    jobs = before.jobs + sign
    if not jobs:
        return
    allocated, pending, elastic, inqueue, whole = (dimensions.sums(part) * sign for part in contribution.parts)
    sums[contribution.queue] = QueueSums(
        before.allocated + allocated,
        before.pending + pending,
        before.elastic + elastic,
        before.inqueue + inqueue,
        before.inqueue_whole + whole,
        jobs,
    )

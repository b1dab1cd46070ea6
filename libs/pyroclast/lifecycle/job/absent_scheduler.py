"""Jobs that wait because no scheduler runs under the name that their pods request."""

from __future__ import annotations

from collections.abc import Iterator

from pyroclast.api.enums import JobPhase, PodGroupPhase
from pyroclast.api.records import Task
from pyroclast.api.schedulers import SILENT_SECONDS
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.lifecycle.gang import pods
from pyroclast.lifecycle.job.facts import JobFacts
from pyroclast.lifecycle.times import parse_time


def absent_scheduler(facts: JobFacts) -> str:
    """Return `NoScheduler: …` when the Job has waited for half a minute and no scheduler runs for its pods.

    Empty when a scheduler runs for the pods, and when the running schedulers are unknown.
    """
    found = next(_absences(facts), "")
    return f"{PendingReason.NO_SCHEDULER}: {found}" if found and facts.now >= _due(facts) else ""


def recheck_at(facts: JobFacts) -> float | None:
    """Return the time at which `absent_scheduler` will return another result without any event, in seconds since the epoch.

    None when time alone does not change the result.
    """
    return _due(facts) if facts.now < _due(facts) and next(_absences(facts), "") else None


def scheduler_names(facts: JobFacts) -> tuple[str, ...]:
    """Return the distinct names of the schedulers that the pods of the Job request.

    A task without a scheduler name in its pod template uses `spec.schedulerName` of the Job.
    """
    own = facts.job.spec.scheduler_name
    return tuple(dict.fromkeys(_asked_by(task) or own for task in facts.job.spec.tasks))


def _asked_by(task: Task) -> str:
    """Return `schedulerName` of the pod template of `task`; empty when the template has no such field."""
    if b"schedulerName" not in bytes(task.template):  # few templates have the field, and to decode a template takes longer
        return ""
    return str((pods.template_of(task).get("spec") or {}).get("schedulerName") or "")


def _absences(facts: JobFacts) -> Iterator[str]:
    """Yield a sentence for each requested scheduler that does not run; nothing when the Job needs no scheduler now."""
    known = facts.schedulers
    waits = facts.job.status.state.phase in (JobPhase.NEW, JobPhase.PENDING)
    if known is None or not waits or (facts.group is not None and facts.group.status.phase is PodGroupPhase.RUNNING):
        return
    for name in scheduler_names(facts):
        if (absence := known.absence(name)) and (known.is_known(name) or not _is_served_without_lease(facts, name)):
            yield absence


def _is_served_without_lease(facts: JobFacts, name: str) -> bool:
    """Whether a scheduler without a Lease named `name` schedules pods under `name`.

    Such a scheduler runs without leader election, or is one of several profiles of one process. The node and the conditions of
    the pods show that it works. The PodGroup shows it only when `name` is one of our schedulers, because our schedulers
    process PodGroups without pods regardless of the scheduler name.
    """
    mine = [pod for pod in facts.pods.by_name.values() if pod.spec.scheduler_name == name]
    if any(pod.spec.node_name or any(each.type == "PodScheduled" for each in pod.status.conditions) for pod in mine):
        return True
    if name not in facts.own_schedulers or facts.group is None:
        return False
    return facts.group.status.phase is not PodGroupPhase.PENDING or bool(facts.group.status.conditions)


def _due(facts: JobFacts) -> float:
    """Return half a minute after the creation of the Job: a scheduler that starts together with the Job is not absent."""
    created = facts.job.metadata.creation_timestamp
    return (parse_time(created) if created else facts.now) + SILENT_SECONDS

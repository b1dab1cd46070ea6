"""A Job whose pods nobody schedules, since no scheduler of that name is at work."""

from __future__ import annotations

from collections.abc import Iterator

from pyroclast.api.enums import JobPhase, PodGroupPhase
from pyroclast.api.records import Task
from pyroclast.api.schedulers import SILENT_SECONDS
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.lifecycle.gang import pods
from pyroclast.lifecycle.job.facts import JobFacts
from pyroclast.lifecycle.times import parse_time

__all__ = ["absent_scheduler", "recheck_at", "scheduler_names"]


def absent_scheduler(facts: JobFacts) -> str:
    """`NoScheduler: …`, once the Job has waited for half a minute; empty where somebody serves it, and where nobody knows."""
    found = next(_absences(facts), "")
    return f"{PendingReason.NO_SCHEDULER}: {found}" if found and facts.now >= _due(facts) else ""


def recheck_at(facts: JobFacts) -> float | None:
    """When `absent_scheduler` has another answer although nothing happens, in seconds since the epoch."""
    return _due(facts) if facts.now < _due(facts) and next(_absences(facts), "") else None


def scheduler_names(facts: JobFacts) -> tuple[str, ...]:
    """The schedulers that the pods of the Job ask for, each once: those of its tasks, else its own."""
    own = facts.job.spec.scheduler_name
    return tuple(dict.fromkeys(_asked_by(task) or own for task in facts.job.spec.tasks))


def _asked_by(task: Task) -> str:
    """The scheduler that the template of a task names; empty for none."""
    if b"schedulerName" not in bytes(task.template):  # hardly any does, and reading it takes longer
        return ""
    return str((pods.template_of(task).get("spec") or {}).get("schedulerName") or "")


def _absences(facts: JobFacts) -> Iterator[str]:
    """A sentence per name that nobody serves; none for a Job that needs no scheduler now."""
    known = facts.schedulers
    waits = facts.job.status.state.phase in (JobPhase.NEW, JobPhase.PENDING)
    if known is None or not waits or (facts.group is not None and facts.group.status.phase is PodGroupPhase.RUNNING):
        return
    for name in scheduler_names(facts):
        if (absence := known.absence(name)) and (known.is_known(name) or not _is_served_without_lease(facts, name)):
            yield absence


def _is_served_without_lease(facts: JobFacts, name: str) -> bool:
    """Whether somebody schedules under `name` who has no Lease of that name.

    That is a scheduler which runs without leader election, or one of several profiles of one process. It shows on pods. On the
    PodGroup it shows only if `name` is one of ours: our schedulers take PodGroups without pods, whoever they are for.
    """
    mine = [pod for pod in facts.pods.by_name.values() if pod.spec.scheduler_name == name]
    if any(pod.spec.node_name or any(each.type == "PodScheduled" for each in pod.status.conditions) for pod in mine):
        return True
    if name not in facts.own_schedulers or facts.group is None:
        return False
    return facts.group.status.phase is not PodGroupPhase.PENDING or bool(facts.group.status.conditions)


def _due(facts: JobFacts) -> float:
    """Half a minute after the Job came: a scheduler that starts with it is not missing."""
    created = facts.job.metadata.creation_timestamp
    return (parse_time(created) if created else facts.now) + SILENT_SECONDS

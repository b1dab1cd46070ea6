"""Who is reserved for: named jobs first, then the most important, then who has waited longest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyroclast.api import keys
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.plugins.reservation.demand import Cluster, is_waiting, need_of
from pyroclast_scheduler.plugins.reservation.eligibility import missing_pods, obstacle
from pyroclast_scheduler.plugins.reservation.settings import Settings
from pyroclast_scheduler.session.session import Session

__all__ = ["choose", "is_named"]


def choose(
    session: Session, cluster: Cluster, jobs: Sequence[Job], states: Mapping[str, Reservation], settings: Settings
) -> list[Reservation]:
    """A new reservation in each scope where nobody has one, or somebody less important.

    A job that could not start on an empty cluster is passed over, and so is one that was let in and lacks pods.
    """
    now = session.ports.now
    best: dict[str, Job] = {}
    for job in jobs:
        scope = job.facts.queue if settings.by_queue else ""
        if job.facts.key in states or now - job.facts.created < settings.least_wait or not is_waiting(session, job):
            continue
        if (scope not in best or _rank(job) < _rank(best[scope])) and _can_ever_start(session, cluster, job):
            best[scope] = job
    found = []
    for scope, job in best.items():
        holders = [session.job(state.job) for state in states.values() if state.scope == scope]
        if all(holder is None or _weight(job) < _weight(holder) for holder in holders):
            found.append(
                Reservation(
                    job=job.facts.key,
                    uid=job.facts.uid,
                    scheduler=session.ports.scheduler,
                    scope=scope,
                    is_named=is_named(job),
                    since=now,
                )
            )
    return found


def is_named(job: Job) -> bool:
    """Whether the user asked for a reservation."""
    return job.facts.group.metadata.annotations.get(keys.RESERVATION_TARGET) == "true"


def _weight(job: Job) -> tuple[bool, int]:
    return (not is_named(job), -job.facts.priority)


def _rank(job: Job) -> tuple[bool, int, float, str]:
    return (*_weight(job), job.facts.created, job.facts.uid)


def _can_ever_start(session: Session, cluster: Cluster, job: Job) -> bool:
    if missing_pods(job) or not (need_of(session, job).total > 0).any():
        return False
    return not obstacle(session, cluster, job)

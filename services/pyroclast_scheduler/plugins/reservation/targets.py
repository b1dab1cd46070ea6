"""The choice of targets: named jobs first, then by priority, then by age."""

from __future__ import annotations

from collections.abc import Mapping

from pyroclast.api.enums import PodGroupPhase
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.plugins.reservation.candidates import Candidates, Weight, is_named, weight
from pyroclast_scheduler.plugins.reservation.demand import Cluster, is_waiting, need_of
from pyroclast_scheduler.plugins.reservation.eligibility import missing_pods, obstacle
from pyroclast_scheduler.plugins.reservation.settings import ReservationSettings
from pyroclast_scheduler.session.session import Session


def choose(
    session: Session, cluster: Cluster, candidates: Candidates, states: Mapping[str, Reservation], settings: ReservationSettings
) -> list[Reservation]:
    """Return a new reservation in each scope without a target, or with a less important one.

    Jobs that could not start on an empty cluster, and enqueued jobs that lack pods, are skipped. Only one job of each kind is
    examined.
    """
    found: list[Reservation] = []
    for scope in candidates.scopes:
        holders = [session.job(state.job) for state in states.values() if state.scope == scope]
        below = min((weight(holder.facts) for holder in holders if holder is not None), default=None)
        job = _best(session, cluster, candidates, states, settings, scope=scope, below=below)
        if job is not None:
            found.append(
                Reservation(
                    job=job.facts.key,
                    uid=job.facts.uid,
                    scheduler=session.ports.scheduler,
                    scope=scope,
                    is_named=is_named(job.facts),
                    since=session.ports.now,
                )
            )
    return found


def _best(
    session: Session,
    cluster: Cluster,
    candidates: Candidates,
    states: Mapping[str, Reservation],
    settings: ReservationSettings,
    *,
    scope: str,
    below: Weight | None,
) -> Job | None:
    """Return the best job of a scope that may start. `below`: it must be more important than targets of this weight."""
    hopeless: set[tuple[bytes, PodGroupPhase]] = set()
    for facts in candidates.of(scope, session.snapshot.all_jobs):
        if below is not None and weight(facts) >= below:
            return None  # all later candidates are less important too
        if facts.key in states or session.ports.now - facts.created < settings.least_wait:
            continue
        job = session.job(facts.key)
        if job is None or not is_waiting(session, job):
            continue
        kind = session.kind(job)
        if kind is not None and (kind, job.phase) in hopeless:
            continue
        if _can_ever_start(session, cluster, job):
            return job
        if kind is not None:
            hopeless.add((kind, job.phase))
    return None


def _can_ever_start(session: Session, cluster: Cluster, job: Job) -> bool:
    if missing_pods(job) or not (need_of(session, job).total > 0).any():
        return False
    return not obstacle(session, cluster, job)

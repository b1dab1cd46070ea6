"""Who is reserved for: named jobs first, then the most important, then who has waited longest."""

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

__all__ = ["choose"]


def choose(
    session: Session, cluster: Cluster, candidates: Candidates, states: Mapping[str, Reservation], settings: ReservationSettings
) -> list[Reservation]:
    """A new reservation in each scope where nobody has one, or somebody less important.

    A job that could not start on an empty cluster is passed over, and so is one that was let in and lacks pods. Of jobs of one
    kind, one is asked.
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
    """The best job of a scope that may start; `below`: it must go before holders of this weight."""
    hopeless: set[tuple[bytes, PodGroupPhase]] = set()
    for facts in candidates.of(scope, session.snapshot.all_jobs):
        if below is not None and weight(facts) >= below:
            return None  # nor does anyone behind it
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

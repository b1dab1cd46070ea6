"""The jobs for which nodes are reserved: the candidates, best first, and the choice among them.

Named jobs come first, then priority decides, then age. The candidates are kept from session to session. Whether a target can
start at all is asked when it is chosen, and again in each period of its reservation.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from pyroclast.api import keys
from pyroclast.api.enums import PodGroupPhase
from pyroclast_scheduler.model import demand
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.model.tasks import TaskStatus
from pyroclast_scheduler.plugins.reservation.demand import WAITING_PHASES, Cluster, is_waiting, need_of
from pyroclast_scheduler.plugins.reservation.state import ReservationSettings, covers
from pyroclast_scheduler.session.plugin_session import PluginSession

Weight: TypeAlias = tuple[bool, int]
_Rank: TypeAlias = tuple[bool, int, float, int, str, str]
_MOST_GONE: Final = 50  # entries above twice the number of waiting jobs, before those of deleted jobs are dropped


def obstacle(session: PluginSession, cluster: Cluster, job: Job) -> str:
    """Return why `job` cannot start even on empty nodes; empty if it can, once all its pods exist."""
    queue = session.queues[job.facts.queue]
    if not queue.facts.is_open:
        return f"queue {queue.name} is closed"
    if session.promises.lacks_pods(job):
        return "its pods do not come"
    need = need_of(session, job)
    for name, limit in _capabilities(session, job):
        if (job.allocated + need.total > limit).any():
            return f"it asks for more than queue {name} may have"
    nodes = cluster.nodes(job)
    if not covers(nodes, np.flatnonzero(nodes.passing), need):
        return "the nodes that it may use do not hold it even when they are empty"
    return ""


def missing_pods(job: Job) -> int:
    """Return how many pods of its minimum an enqueued job lacks: pods that do not exist or are behind a scheduling gate."""
    if job.phase is not PodGroupPhase.INQUEUE:
        return 0
    lacking = job.tally.missing(job.facts.min_available, job.facts.role_minimum)
    there = sum(task.status is TaskStatus.PENDING and not task.facts.gates for task in job.tasks)
    return max(0, lacking - there)


def may_let_in(session: PluginSession, job: Job) -> bool:
    """Whether the queue and its ancestors have room for the minimum of `job` beside their allocated amounts."""
    minimum = job.facts.minimum(session.dimensions)
    if minimum is None:
        return True
    return all(not (minimum + _allocated(session, name) > limit).any() for name, limit in _capabilities(session, job))


def _capabilities(session: PluginSession, job: Job) -> Iterator[tuple[str, Floats]]:
    """Yield the capability of the queue and of each ancestor that has one."""
    name, seen = job.facts.queue, set[str]()
    while name in session.queues and name not in seen:
        seen.add(name)
        queue = session.queues[name].facts
        if queue.capability:
            yield name, demand.capability(queue.capability, session.dimensions)
        name = queue.parent


def _allocated(session: PluginSession, name: str) -> Floats:
    """Return the allocated amounts of a queue and its descendants, including other members of a ring."""
    total = session.dimensions.sums(session.queues[name].elsewhere)
    found, added = {name}, {name}
    while added:
        added = {each.name for each in session.queues.values() if each.facts.parent in added} - found
        found |= added
    for own in found:
        sums = session.queue_sums.get(own)
        if sums is not None:
            total += sums.allocated
        total += session.moves.queue_changes.get(own, 0.0)
    return total


class Candidates:
    """Named jobs first, then by priority, then by age; by queue if each queue has its own target.

    A changed job is among the jobs of the next session, so that unchanged jobs are read only once.
    """

    is_derived: Final = True

    def __init__(self) -> None:
        self._number = 0
        self._by_queue = False
        self._known: dict[str, tuple[str, _Rank]] = {}
        self._scopes: dict[str, list[_Rank]] = {}
        self._swept = 0

    def open(self, snapshot: Snapshot, *, by_queue: bool) -> None:
        """Apply the changes since the last session. This method must be called for each session."""
        is_next = snapshot.number == self._number + 1 and by_queue == self._by_queue
        self._number, self._by_queue = snapshot.number, by_queue
        if not is_next:
            self._known.clear()
            self._scopes.clear()
        for facts in snapshot.jobs if is_next else snapshot.all_jobs.values():
            self._take(facts)
        if len(self._known) > 2 * self._swept + _MOST_GONE:
            for key in [key for key in self._known if key not in snapshot.all_jobs]:
                self._drop(key)
            self._swept = len(self._known)

    @property
    def scopes(self) -> Sequence[str]:
        """The queues with waiting jobs; one empty name for the whole cluster if targets are not chosen by queue."""
        return sorted(self._scopes)

    def of(self, scope: str, known: Mapping[str, JobFacts]) -> Iterator[JobFacts]:
        """Yield the jobs of a scope, best first. `known`: the present facts of all jobs."""
        return (facts for rank in self._scopes.get(scope, ()) if (facts := known.get(rank[-1])) is not None)

    def _take(self, facts: JobFacts) -> None:
        entry = (facts.queue if self._by_queue else "", _rank(facts))
        is_candidate = facts.is_ours and facts.phase in WAITING_PHASES
        if is_candidate and self._known.get(facts.key) == entry:
            return
        self._drop(facts.key)
        if is_candidate:
            self._known[facts.key] = entry
            insort(self._scopes.setdefault(entry[0], []), entry[1])

    def _drop(self, key: str) -> None:
        known = self._known.pop(key, None)
        if known is None:
            return
        scope, rank = known
        whose = self._scopes[scope]
        del whose[bisect_left(whose, rank)]
        if not whose:
            del self._scopes[scope]


def is_named(facts: JobFacts) -> bool:
    """Whether the user requested a reservation."""
    return facts.group.metadata.annotations.get(keys.RESERVATION_TARGET) == "true"


def weight(facts: JobFacts) -> Weight:
    """Return the sort key, lower is better: named jobs, then priority. An older job does not replace an existing target."""
    return (not is_named(facts), -facts.priority)


def _rank(facts: JobFacts) -> _Rank:
    return (*weight(facts), *facts.arrived, facts.uid, facts.key)


def choose(
    session: PluginSession,
    cluster: Cluster,
    candidates: Candidates,
    states: Mapping[str, Reservation],
    settings: ReservationSettings,
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
    session: PluginSession,
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
        is_complete = not missing_pods(job) and bool((need_of(session, job).total > 0).any())
        if is_complete and not obstacle(session, cluster, job):
            return job
        if kind is not None:
            hopeless.add((kind, job.phase))
    return None

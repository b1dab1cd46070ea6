"""The extensions of reservation: the choice of targets, the locked nodes, and the jobs that may not use these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from pyroclast_scheduler.eviction.victims import Residents, allowed, split
from pyroclast_scheduler.model.fit_errors import Code, Refusal
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.model.reservations import Reservation, read
from pyroclast_scheduler.model.tasks import ALLOCATED, Task
from pyroclast_scheduler.plugins.reservation.demand import Cluster, LastingPods, is_waiting, need_of
from pyroclast_scheduler.plugins.reservation.state import ReservationSettings, covers, earliest, estimate, next_state, promised
from pyroclast_scheduler.plugins.reservation.targets import Candidates, choose, may_let_in, missing_pods, obstacle
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions, GangEviction, Vote
from pyroclast_scheduler.session.plugin_session import PluginSession

_REASON: Final = "reserve"
_MEMORY: Final = "reservation"
PATIENCE: Final = 5
"""The schedule periods without a new pod after which a job with missing pods loses its reservation."""


def evict_lower(session: PluginSession, job: Job, rows: Sequence[int]) -> None:
    """Evict pods of other jobs with lower priority from `rows`, of any queue; a gang as a whole or not at all."""
    residents = Residents(session)
    by_owner: dict[str, tuple[Job, list[Task]]] = {}

    def is_lower(owner: Job, task: Task) -> bool:
        is_below = owner is not job and owner.facts.granted(task.facts) < job.facts.preemptor_priority
        return is_below and session.is_preemptable(owner, task)

    for owner, task in (each for row in rows for each in residents.on(row, is_lower)):
        by_owner.setdefault(owner.facts.key, (owner, []))[1].append(task)
    bundles = []
    for owner, tasks in by_owner.values():
        for bundle in split(owner, tasks):
            if bundle.is_whole:
                bundle.tasks = [task for task in owner.tasks if task.status in ALLOCATED and task.row >= 0]
            bundles.append(bundle)
    candidates = [(bundle.job, task) for bundle in bundles for task in bundle.tasks if is_lower(bundle.job, task)]
    if not candidates:
        return
    wish = GangEviction(job, session.hyper_nodes.top, is_reclaim=False)
    statement = session.statement()
    gone: set[str] = set()
    for bundle in allowed(bundles, session.unified_evictable(wish, candidates)):
        for task in bundle.tasks:
            if task.uid not in gone:
                gone.add(task.uid)
                statement.evict(bundle.job, session.plan(task.facts.shape), task, _REASON)
    statement.commit()


class ReservationPlugin:
    """The plugin reservation. For its arguments, see `ReservationSettings`. The plugin needs the actions elect and reserve."""

    def __init__(self, arguments: Arguments) -> None:
        self._settings = ReservationSettings.of(arguments)

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of this plugin for one session."""
        book = _Book(session, self._settings, session.ports.memory.setdefault(_MEMORY, _Memory()))
        return Extensions(
            target_job=book.target,
            reserve_nodes=book.reserve,
            closed_to=book.refusals,
            retry_when=lambda _task, _plan: (),  # the cache wakes the jobs that may use released nodes
            job_enqueueable=book.enqueueable,
            is_enqueue_told=True,
        )


class _Memory:
    """State that is kept between sessions, so that each session only reads changes."""

    is_derived: Final = True

    def __init__(self) -> None:
        self.candidates = Candidates()
        self.lasting = LastingPods()


class _Book:
    """The reservations of a session, by key of the job."""

    def __init__(self, session: PluginSession, settings: ReservationSettings, memory: _Memory) -> None:
        self._session = session
        self._settings = settings
        self._cluster = Cluster(session, memory.lasting)
        self._candidates = memory.candidates
        self._candidates.open(session.snapshot, by_queue=settings.by_queue)
        known = session.ports.reservations
        if known is None:  # the first session: read the reservations in the PodGroups
            known = read((facts.group for facts in session.snapshot.all_jobs.values()), session.ports.scheduler)
        self.states: dict[str, Reservation] = {}
        for key, state in known.items():
            facts = session.snapshot.all_jobs.get(key)
            if facts is not None and facts.uid == state.uid:
                self.states[key] = state
        session.reserved.begin(self.states, known)
        self._masks: dict[str, Bools] = {}
        self._renew()

    def target(self, jobs: Sequence[Job]) -> Job | None:
        """Choose a target among all waiting jobs in scopes without one, or with a less important one. Return a chosen job."""
        del jobs
        first: Job | None = None
        for chosen in choose(self._session, self._cluster, self._candidates, self.states, self._settings):
            for old in [key for key, state in self.states.items() if state.scope == chosen.scope]:
                self._release(old, f"{chosen.job} goes before it")
            self.states[chosen.job] = chosen
            job = self._session.job(chosen.job)
            if job is not None:
                first = first or job
                self._session.note(
                    job, "Normal", "ReservationTarget", "nodes are reserved for it, one after another, until it starts"
                )
        if first is not None:
            self._renew()
        return first

    def enqueueable(self, job: Job) -> Vote:
        """Permit a target to be enqueued before other jobs, within the capability of its queue."""
        return Vote.PERMIT if job.facts.key in self.states and may_let_in(self._session, job) else Vote.ABSTAIN

    def reserve(self) -> None:
        """Advance every reservation by one step, or end it."""
        for key, state in list(self.states.items()):
            job = self._session.job(key)
            if job is None or not is_waiting(self._session, job):
                self._release(
                    key, "it has its places" if job is not None and self._session.job_ready(job) else "it waits no longer"
                )
                continue
            self.states[key] = state = self._counted(job, state)
            if why := self._why_given_up(job, state):
                self._release(key, why)
                continue
            self.states[key] = self._next(job, state)
        self._renew()

    def refusals(self, job: Job) -> list[Refusal]:
        """Return the nodes that are locked for other jobs, unless `job` ends before they are needed."""
        found = []
        for key, state in self.states.items():
            if key != job.facts.key and key in self._masks and not self._ends_before(job, state):
                is_known = key.partition("/")[0] == job.facts.namespace  # readers may not know jobs of other namespaces
                reason = f"waiting for nodes reserved for {f'job {key}' if is_known else 'a job of another namespace'}"
                found.append(Refusal(self._masks[key], reason, Code.UNRESOLVABLE))
        return found

    def _counted(self, job: Job, state: Reservation) -> Reservation:
        """Return `state` with the present number of missing pods and the period in which it changed."""
        missing = missing_pods(job)
        if missing == state.missing:
            return state
        return msgspec.structs.replace(state, missing=missing, missing_since=self._session.ports.period)

    def _why_given_up(self, job: Job, state: Reservation) -> str:
        """Return why the reservation ends; empty while the target may still start."""
        if state.missing and self._session.ports.period - state.missing_since >= PATIENCE:
            return f"{state.missing} pods of its gang are missing or wait behind a scheduling gate"
        return obstacle(self._session, self._cluster, job)

    def _next(self, job: Job, state: Reservation) -> Reservation:
        session, ports = self._session, self._session.ports
        need = need_of(session, job)
        others = {node for key, each in self.states.items() if key != state.job for node in each.nodes}
        nodes = self._cluster.nodes(job, others)
        following = next_state(state, nodes, need, self._settings, period=ports.period, now=ports.now)
        if self._settings.is_preemptive:
            evict_lower(session, job, [nodes.rows[lock.node] for lock in following.locks])
        rows = [nodes.rows[lock.node] for lock in following.locks]
        gone = sorted(state.nodes - following.nodes)
        blame = f"node {gone[0]} is no longer kept" if gone else ""
        if covers(nodes, rows, need):
            ends, late = self._cluster.ends(job, rows, self._settings.assumed)
            found = earliest(ends, lambda free: covers(nodes, free, need))
            following = promised(following, found, late or blame, ports.now)
        elif following.promise is not None:  # a locked node is gone and not replaced yet
            following = promised(following, None, blame or "the nodes hold less than it asks for", ports.now)
        if following.promise is not None or following.promise != state.promise:
            session.note(job, "Normal", "ReservationPromised", str(following))
        return following

    def _ends_before(self, job: Job, state: Reservation) -> bool:
        until = state.open_until
        if not self._settings.fills or until is None:
            return False
        seconds = estimate(job.facts.running_estimate, self._settings.assumed)
        return seconds is not None and self._session.ports.now + seconds <= until

    def _release(self, key: str, why: str) -> None:
        state = self.states.pop(key)
        job = self._session.job(key)
        if job is not None:
            self._session.note(job, "Normal", "ReservationReleased", state.released(why))

    def _renew(self) -> None:
        self._masks = {key: self._cluster.mask(state.nodes) for key, state in self.states.items() if state.locks}

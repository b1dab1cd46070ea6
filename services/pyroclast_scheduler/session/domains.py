"""Placement of a job inside a domain: a hypernode, or the nodes that share one value of a label.

Every trial is a statement that is undone. The best trial is repeated at the end. Jobs with a network topology, with subgroup
policies or with a topology key are placed in this way.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Final, Protocol, TypeVar

import numpy as np

from pyroclast_scheduler.model.fit_errors import FitErrors
from pyroclast_scheduler.model.hypernodes import TOP, HyperNode, job_limit, locate, sub_job_limit
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.model.subjobs import SubJob
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.extension_points import Purpose
from pyroclast_scheduler.session.repacking import place
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Move, Statement
from pyroclast_scheduler.session.task_placement import find, pending_tasks

NO_DOMAIN: Final = "no value of node label "
"""The start of the message that no domain has room for a gang."""

_MOST_CHOICES: Final = 256  # combinations of domains that are tried for evictions; each costs a search for victims

_MOST_BETTER: Final = 32  # further combinations that are tried for a smaller loss


@dataclass(frozen=True, slots=True)
class _Domain:
    """One value of the label, its code in the array of the label, and its nodes."""

    value: str
    code: int
    nodes: Bools


def place_in_domain(session: Session, job: Job, tasks: deque[Task]) -> Statement | None:
    """Place `tasks` in the best domain and remove those placed or infeasible; None if the gang is ready in no domain."""
    key = job.facts.group.spec.topology_key

    def fill(nodes: Bools) -> Statement | None:
        return _filled(session, job, deque(tasks), nodes)

    nodes, count = best_domain(session, job, key, None, fill, lambda: session.job_ready(job))
    forget_errors(job)
    if nodes is not None:
        return _filled(session, job, tasks, nodes)
    if count and tasks:
        text = f"{NO_DOMAIN}{key} has nodes with room for the gang"
        for task in tasks:
            job.fail(task, FitErrors(f"{text}: {count} values were tried"))
    else:
        place(session, job, tasks)  # sets the fit errors of all nodes
    return None


def best_domain(  # noqa: PLR0917
    session: Session,
    job: Job,
    key: str,
    within: Bools | None,
    fill: Callable[[Bools], Statement | None],
    is_ready: Callable[[], bool],
) -> tuple[Bools | None, int]:
    """Return the nodes of the fullest of the domains that accept most pods, None if none accepts any, and the number of domains.

    Each domain is tried with `fill`, and the trial is undone.
    """
    best: tuple[tuple[bool, int, float, str], Bools] | None = None
    found = _domains(session, job, key, within)
    for domain in found:
        forget_errors(job)
        statement = fill(domain.nodes)
        if statement is None:
            continue
        count = sum(len(move.tasks) for move in statement.moves)
        rank = (not is_ready(), -count, -_fullness(session, domain), domain.value)
        statement.discard()
        if count and (best is None or rank < best[0]):
            best = rank, domain.nodes
    return (None if best is None else best[1]), len(found)


class Room(Protocol):
    """Evictions and placements that are applied and not committed, such as a `Statement`."""

    @property
    def moves(self) -> Sequence[Move]:
        """The evictions and placements in order."""
        ...

    def commit(self) -> None:
        """Send them to the cluster."""

    def discard(self) -> None:
        """Undo them."""


R = TypeVar("R", bound=Room)


def in_best_domain(session: Session, job: Job, find: Callable[[], R | None], rank: Callable[[R], tuple[float, ...]]) -> R | None:
    """Return what `find` finds with the smallest `rank` over the combinations of domains, applied; None if there is nothing.

    `find` is called once if `job` needs no domain. In each combination it finds the same again.
    """
    keys = _keys(job)
    if not keys:
        return find()
    domains = session.label_refusals.chosen
    found = [sorted(_domains(session, job, key, None), key=lambda each: each.value) for key in keys.values()]
    best: tuple[tuple[float, ...], int] | None = None
    combinations = [
        dict(zip(keys, (domain.code for domain in each), strict=True)) for each in islice(product(*found), _MOST_CHOICES)
    ]
    try:
        for at, chosen in enumerate(combinations):
            if best is not None and at > best[1] + _MOST_BETTER:
                break
            domains[job.facts.key] = chosen
            room = find()
            if room is not None:
                loss = rank(room)
                room.discard()
                best = (loss, at) if best is None or loss < best[0] else best
        if best is None:
            return None
        domains[job.facts.key] = combinations[best[1]]
        return find()
    finally:
        domains.pop(job.facts.key, None)


def forget_errors(job: Job) -> None:
    """Remove all fit errors of `job`."""
    job.fit_errors.clear()
    job.failed_roles.clear()


def _keys(job: Job) -> dict[str, str]:
    """Return the label whose value must be equal on all nodes, by part of `job`; an empty name stands for the whole job."""
    spec = job.facts.group.spec
    if spec.tree is None:
        return {"": spec.topology_key} if spec.topology_key else {}
    return {part.name: part.topology_key for path in spec.tree.paths() for part in path if part.topology_key}


def _filled(session: Session, job: Job, tasks: deque[Task], nodes: Bools) -> Statement | None:
    """Place as many of `tasks` on `nodes` as fit, also beyond the minimum, since later pods could not use another domain."""
    statement = place(session, job, tasks, within=nodes, is_alone=True)
    while statement is not None and tasks and session.job_ready(job):
        more = place(session, job, tasks, within=nodes, is_alone=True)
        if more is None or not more.moves:
            break
        statement.merge(more)
    return statement


def _domains(session: Session, job: Job, key: str, within: Bools | None) -> list[_Domain]:
    """Return the domains whose nodes are open to `job`, limited to nodes `within`."""
    column, domains = session.features.label(key), session.features.domains(key)
    closed = session.closed_to(job)
    allowed = session.nodes.usable if closed is None else session.nodes.usable & ~closed
    allowed = allowed if within is None else allowed & within
    codes = np.unique(domains.codes[allowed & domains.has]).tolist()
    return [_Domain(str(column.values[code]), code, allowed & (domains.codes == code)) for code in codes]


def _fullness(session: Session, domain: _Domain) -> float:
    """Return the mean, over all resources, of the used fraction of the domain's amounts after the trial placement."""
    rows = np.flatnonzero(domain.nodes)
    whole = session.columns.allocatable[:, rows].sum(axis=1)
    taken = whole - session.columns.idle(rows).sum(axis=1)
    has = whole > 0
    return float((taken[has] / whole[has]).mean()) if has.any() else 0.0


PendingTasks = dict[str, deque[Task]]  # pending tasks by UID of their sub-job


def pending_by_sub_job(session: Session, job: Job) -> PendingTasks:
    """Return the pending tasks of each sub-job in order, and set `allocated_hyper_node` of the job and its sub-jobs."""
    locate(job, session.hyper_nodes)
    pending = ((uid, pending_tasks(session, job, sub_job)) for uid, sub_job in job.sub_jobs.items())
    return {uid: tasks for uid, tasks in pending if tasks}


def required_parts(session: Session, job: Job) -> set[str]:
    """Return the UIDs of the sub-jobs that are placed first: as many of each policy as its minimum still lacks, in order."""
    ready = Counter(each.group for each in job.sub_jobs.values() if session.sub_job_ready(job, each))
    least = {f"{job.facts.key}/{policy.name}": policy.min_sub_groups for policy in job.facts.group.spec.sub_group_policy}
    waiting = [each for each in job.sub_jobs.values() if not session.sub_job_ready(job, each)]
    required: set[str] = set()
    for each in sorted(waiting, key=lambda each: session.sub_job_key(job, each)):
        if ready[each.group] < least.get(each.group, 0):
            ready[each.group] += 1
            required.add(each.uid)
    return required


@dataclass(slots=True)
class _Try:
    """The result of placing a job inside one hypernode."""

    hyper_node: HyperNode
    statement: Statement
    left: PendingTasks
    score: float


def place_job(session: Session, job: Job, pending: PendingTasks) -> Statement | None:
    """Place pending tasks of `job` in the best hypernode in which the job is ready or pipelined; None if there is none.

    Tasks that are placed or infeasible are removed from `pending`.
    """
    before = {uid: each.allocated_hyper_node for uid, each in job.sub_jobs.items()}
    for gradient in session.hyper_node_gradient(job, None, session.hyper_nodes.top, Purpose.ALLOCATE):
        best: _Try | None = None
        for hyper_node in gradient:
            found = _try(session, job, pending, hyper_node)
            for uid, name in before.items():
                job.sub_jobs[uid].allocated_hyper_node = name
            is_kept = bool(found.statement.moves) and (session.job_ready(job) or session.job_pipelined(job))
            found.statement.discard()
            if is_kept and (best is None or found.score > best.score):
                best = found
        if best is not None:
            made = _try(session, job, pending, best.hyper_node)
            pending.clear()
            pending.update(made.left)
            job.allocated_hyper_node = session.hyper_nodes.common(job.allocated_hyper_node, best.hyper_node.name)
            return made.statement
    _say_why(session, job, pending)
    return None


def _try(session: Session, job: Job, pending: PendingTasks, hyper_node: HyperNode) -> _Try:
    """Place sub-jobs inside `hyper_node` in their order, in turns, until the job is ready or no further task fits."""
    forget_errors(job)
    left = {uid: deque(tasks) for uid, tasks in pending.items()}
    waiting, required = [job.sub_jobs[uid] for uid in left], required_parts(session, job)
    whole, score = session.statement(), 0.0
    while waiting:
        sub_job = min(waiting, key=lambda each: (each.uid not in required, session.sub_job_key(job, each)))
        waiting.remove(sub_job)
        placed = _place_sub_job(session, job, sub_job, left[sub_job.uid], hyper_node)
        if placed is None:
            del left[sub_job.uid]
            continue
        statement, gained, rest = placed
        whole.merge(statement)
        score += gained
        left[sub_job.uid] = rest
        if rest:
            waiting.append(sub_job)
        else:
            del left[sub_job.uid]
        if session.job_ready(job):
            break
    return _Try(hyper_node, whole, left, score)


def _place_sub_job(
    session: Session, job: Job, sub_job: SubJob, tasks: deque[Task], inside: HyperNode
) -> tuple[Statement, float, deque[Task]] | None:
    """Place tasks of one sub-job in the best hypernode below `inside`. Return statement, score and remaining tasks."""
    hyper_nodes = session.hyper_nodes
    if sub_job.nominated_hyper_node:
        nominated = _place_nominated(session, job, sub_job, tasks)
        if nominated is not None:
            return nominated, 0.0, deque()
        sub_job.nominated_hyper_node = ""
    for gradient in session.hyper_node_gradient(job, sub_job, inside, Purpose.ALLOCATE):
        fitting: list[HyperNode] = []
        for hyper_node in gradient:
            statement = _place_in(session, job, sub_job, deque(tasks), hyper_node)
            if statement is not None and statement.moves:
                fitting.append(hyper_node)
                statement.discard()
        if not fitting:
            continue
        scores = session.hyper_node_scores(job, sub_job, fitting)
        at = int(scores.argmax())
        rest = deque(tasks)
        final = _place_in(session, job, sub_job, rest, fitting[at])
        if final is None:
            continue
        sub_job.allocated_hyper_node = hyper_nodes.common(sub_job.allocated_hyper_node, fitting[at].name)
        return final, float(scores[at]), rest
    return None


def _place_nominated(session: Session, job: Job, sub_job: SubJob, tasks: deque[Task]) -> Statement | None:
    """Place every task on its nominated node in the nominated hypernode; None if one task does not fit."""
    hyper_nodes, snapshot = session.hyper_nodes, session.snapshot
    pinned = hyper_nodes.get(sub_job.nominated_hyper_node)
    rows = [snapshot.rows.get(task.facts.nominated, -1) for task in tasks]
    if pinned is None or any(row < 0 or not pinned.nodes[row] for row in rows):
        return None
    queue = session.queues[job.facts.queue]
    statement = session.statement()
    for task, row in zip(tasks, rows, strict=True):
        plan = session.plan(task.facts.shape)
        within = np.zeros(len(session.names), dtype=np.bool_)
        within[row] = True
        is_open = session.allocatable(queue, plan, 1, task) and session.pre_predicate(task, plan) is None
        batch = find(session, job, task, plan, 1, within=within) if is_open else None
        if batch is None:
            statement.discard()
            return None
        put = statement.pipeline if batch.is_promise else statement.allocate
        if not put(job, plan, [task], batch.rows):
            statement.discard()
            return None
    sub_job.allocated_hyper_node = hyper_nodes.common(sub_job.allocated_hyper_node, pinned.name)
    return statement


def _place_in(session: Session, job: Job, sub_job: SubJob, tasks: deque[Task], hyper_node: HyperNode) -> Statement | None:
    for task in sub_job.tasks:
        job.fit_errors.pop(task.uid, None)
    job.failed_roles.intersection_update({task.facts.role for task in job.tasks if task.uid in job.fit_errors})
    if hyper_node.name == TOP:
        return place(session, job, tasks, sub_job=sub_job)
    return place(session, job, tasks, sub_job=sub_job, within=hyper_node.nodes, hyper_node=hyper_node.name)


def _say_why(session: Session, job: Job, pending: PendingTasks) -> None:
    """Set fit errors if no hypernode was tried, so that no node has refused the tasks."""
    if job.fit_errors or not pending:
        return
    each_limit = (sub_job_limit(job, job.sub_jobs[uid], session.hyper_nodes) for uid in pending)
    limits = [limit for limit in (job_limit(job, session.hyper_nodes), *each_limit) if limit is not None]
    tier = f" up to tier {min(limits)}" if limits else ""
    at = f" beside the pods in {job.allocated_hyper_node}" if job.allocated_hyper_node else ""
    for tasks in pending.values():
        for task in tasks:
            job.fit_errors[task.uid] = FitErrors(f"no hypernode{tier} has room for its gang{at}")

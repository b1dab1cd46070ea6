"""Places the tasks of a job or sub-job, and searches nodes for one task: what all actions use that fill free or releasing room.

The problem is to place k members of a gang with the rules of all plugins at once, or none. The obvious way asks every plugin
about every node for every pod. Instead, tasks that are equal in shape, role and terms form a run. One search answers for a
run:

1. The plan of the shape has the mask of feasible nodes and the scores, both kept from pod to pod and updated for touched nodes
   only.
2. Refusals that depend on other pods (coupled refusals) are added as masks, with limits per domain.
3. The placer takes as many pods of the run as one state allows: all of them in closed form, or one if scores may change by
   anything.

Invariant: a statement is returned only if the job is ready or pipelined; otherwise everything is undone. The cost is one
search per run and one update per touched node, never nodes times pods.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import takewhile

import numpy as np

from pyroclast_scheduler.model.fit_errors import Code, FitErrors, count_refusals
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.model.subjobs import SubJob
from pyroclast_scheduler.model.tasks import READY, Task, TaskStatus
from pyroclast_scheduler.placement import placer
from pyroclast_scheduler.placement.placer import Batch, CandidateScorers
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Statement


def find(
    session: Session,
    job: Job,
    task: Task,
    plan: PlacementPlan,
    count: int,
    *,
    within: Bools | None = None,
    only_pipelined: bool = False,
) -> Batch | None:
    """Return the nodes of the next pods, at least one and at most `count`; None if no node is feasible for the next pod.

    `task` is the first pod, and the next `count` - 1 pods are equal in the sense of `alike`. `within`: a mask of the allowed
    nodes. `only_pipelined`: whether the pods are pipelined also to nodes with free room. The caller must apply the batch before
    it searches again.
    """
    allowed = within
    refusals = session.coupled_refusals(task, plan)
    for refusal in refusals or ():
        allowed = ~refusal.nodes if allowed is None else allowed & ~refusal.nodes
    locked = session.closed_to(job)
    if locked is not None:
        allowed = ~locked if allowed is None else allowed & ~locked
    if session.all_of("objection") or (refusals is not None and not all(refusal.is_steady for refusal in refusals)):
        count = 1
    scorers = CandidateScorers(
        partial(session.relative_scores, plan) if session.all_of("relative_node_order") else None,
        partial(session.batch_scores, job, task, plan) if session.all_of("batch_node_order") else None,
        partial(session.best_node, task, plan) if session.all_of("best_node") else None,
    )
    best = partial(
        placer.find,
        plan,
        count,
        session.moves.log,
        allowed=allowed,
        preferred=session.nodes.preferred,
        scorers=scorers,
        limits=[refusal.limit for refusal in refusals or () if refusal.limit is not None],
        only_pipelined=only_pipelined,
    )
    batch: Batch | None = session.ports.observe("Scoring", "stage", best)
    return batch


def alike(session: Session, tasks: Sequence[Task]) -> int:
    """Return how many of `tasks`, all of one shape, are equal to the first one for (anti-)affinity terms and claims."""
    first = tasks[0].facts
    if first.shape.has_claims:
        return 1
    if not session.snapshot.is_coupled:
        return len(tasks)
    labels = first.pod.metadata.labels
    signature: tuple[object, ...] | None = None
    for i, task in enumerate(tasks):
        if task.facts.pod.metadata.labels == labels:
            continue
        signature = session.term_counts.signature(first) if signature is None else signature
        if session.term_counts.signature(task.facts) != signature:
            return i
    return len(tasks)


def explain(session: Session, job: Job, task: Task, plan: PlacementPlan, *, within: Bools | None = None) -> FitErrors:
    """Return why no node of the session is feasible for `task`. `within`: a mask of the nodes that were tried."""
    refusals = session.job_refusals(job)
    refusals += plan.refusals()
    refusals += session.coupled_refusals(task, plan) or ()
    usable, foreign = session.nodes.usable, session.nodes.foreign
    if within is not None:
        usable, foreign = usable & within, None if foreign is None else foreign & within
    return count_refusals(usable, refusals).beside(0 if foreign is None else int(foreign.sum()))


def ranked(session: Session, job: Job, task: Task, plan: PlacementPlan, nodes: Bools, *, among: Bools) -> list[int]:
    """Return the rows of `nodes`, own ones first, best score `among` these nodes first. Room is not checked."""
    rows = np.flatnonzero(nodes)
    if not len(rows):
        return []
    scores = plan.scores(session.moves.log)[rows]
    for extra in (session.relative_scores(plan, among), session.batch_scores(job, task, plan, among)):
        if extra is not None:
            scores = scores + extra[rows]
    order = np.argsort(-scores, kind="stable")
    if session.nodes.preferred is not None:
        order = order[np.argsort(~session.nodes.preferred[rows[order]], kind="stable")]
    ordered: list[int] = rows[order].tolist()
    return ordered


def fits(session: Session, job: Job, task: Task, plan: PlacementPlan, row: int) -> bool:
    """Whether `task` could be pipelined to node `row` in the present state."""
    closed = session.closed_to(job)
    if not plan.room(np.array([row], dtype=np.intp), future=True)[0] or (closed is not None and closed[row]):
        return False
    return not any(refusal.nodes[row] for refusal in session.coupled_refusals(task, plan) or ())


def resolvable(session: Session, job: Job, task: Task, plan: PlacementPlan) -> Bools:
    """Return a mask of the nodes that evictions could make feasible for `task`."""
    closed = session.closed_to(job)
    mask = plan.mask if closed is None else plan.mask & ~closed
    for refusal in session.coupled_refusals(task, plan) or ():
        if refusal.code is not Code.UNSCHEDULABLE:
            mask = mask & ~refusal.nodes
    return mask


def pending_tasks(session: Session, job: Job, sub_job: SubJob | None = None) -> deque[Task]:
    """Return the pending tasks of `job` or `sub_job` with requests, in order. Tasks behind scheduling gates are left out."""
    if not job.tally[TaskStatus.PENDING]:
        return deque()
    tasks = job.tasks if sub_job is None else sub_job.tasks
    return deque(session.waiting_in_order(task for task in tasks if not task.facts.shape.is_best_effort))


def place_in_order(
    session: Session,
    job: Job,
    tasks: deque[Task],
    *,
    sub_job: SubJob | None = None,
    within: Bools | None = None,
    hyper_node: str = "",
    is_alone: bool = False,
) -> Statement | None:
    """Place tasks until `job` (or `sub_job`) is ready. Return the statement if it is ready or pipelined afterwards.

    Return None, with everything undone, otherwise. Tasks that are placed or infeasible are removed from `tasks`.

    Args:
        session: the session.
        job: the job of the tasks.
        tasks: the tasks in order, see `pending_tasks`.
        sub_job: the sub-job that must become ready; None: the job must.
        within: a mask of the allowed nodes; None: all nodes.
        hyper_node: the name of these nodes in explanations; empty for all nodes.
        is_alone: whether no other job waits, so that all tasks beyond the minimum may be placed in one turn.
    """
    attempt = _TaskPlacement(session, job, sub_job, within, hyper_node)
    queue = session.queues[job.facts.queue]
    while tasks:
        is_live = session.reorder(tasks)
        plan = session.plan(tasks[0].facts.shape)
        run = [tasks[0]] if is_live else list(takewhile(partial(_alike, tasks[0]), tasks))
        count = session.allocatable(queue, plan, len(run), run[0])
        if count == 0:
            job.is_limited = True
            _drop(tasks, len(run))
            continue
        if tasks[0].facts.role and not tasks[0].facts.shape.has_claims and attempt.has_failed(tasks[0].facts.role):
            _skip(job, [tasks.popleft() for _ in run], like=run[0])
            continue
        count = min(count, attempt.wanted(plan, len(run), is_alone=is_alone))
        if job.is_ready and session.job_ready(job) and not (count := session.promises.leaves(job, plan, count)):
            job.is_limited = True
            _drop(tasks, len(run))
            continue
        missed = attempt.place_run(plan, [tasks.popleft() for _ in range(count)])
        if missed:
            if not attempt.may_go_on(missed[0]):
                break
            while tasks and _alike(missed[0], tasks[0]) and alike(session, [missed[0], tasks[0]]) > 1:
                missed.append(tasks.popleft())
            _skip(job, missed[1:], like=missed[0])
        elif attempt.has_placed and attempt.is_ready():
            return attempt.statement
    if attempt.is_ready() or attempt.is_pipelined():
        return attempt.statement
    attempt.statement.discard()
    return None


class _TaskPlacement:
    """One trial to place tasks of a job or sub-job."""

    def __init__(self, session: Session, job: Job, sub_job: SubJob | None, within: Bools | None, hyper_node: str) -> None:
        self.session, self.job, self.sub_job, self.within, self.hyper_node = session, job, sub_job, within, hyper_node
        self.statement, self.has_placed = session.statement(), False

    def has_failed(self, role: str) -> bool:
        """Whether no node was feasible for a task of the same role in the same sub-job."""
        if role not in self.job.failed_roles or self.sub_job is None or not self.job.is_divided:
            return role in self.job.failed_roles
        return any(task.facts.role == role and task.uid in self.job.fit_errors for task in self.sub_job.tasks)

    def is_ready(self) -> bool:
        session, job, sub_job = self.session, self.job, self.sub_job
        return session.job_ready(job) if sub_job is None else session.sub_job_ready(job, sub_job)

    def is_pipelined(self) -> bool:
        session, job, sub_job = self.session, self.job, self.sub_job
        return session.job_pipelined(job) if sub_job is None else session.sub_job_pipelined(job, sub_job)

    def wanted(self, plan: PlacementPlan, available: int, *, is_alone: bool) -> int:
        """Return how many equal tasks are placed before another job: up to the minimum, or all if none waits."""
        session, job = self.session, self.job
        if not self.is_ready():
            if self.sub_job is not None and job.is_divided:
                lacking = self.sub_job.tally.missing(self.sub_job.min_available, {})
            else:
                lacking = job.tally.missing(job.facts.min_available, job.facts.role_minimum)
            return min(available, max(1, lacking))
        if not is_alone or available == 1:
            return 1
        if not job.is_ready:  # no plugin knows gangs: pods beyond the minimum must leave promised room, and are asked about later
            available = min(available, max(1, job.tally.missing(job.facts.min_available, {})))
        queue = session.queues[job.facts.queue]
        return 1 + bisect_left(range(1, available), True, key=lambda more: session.overused(queue, plan.request * more))

    def place_run(self, plan: PlacementPlan, run: list[Task]) -> list[Task]:
        """Place equal tasks, but those that a plugin objects to. Return the infeasible ones, the first with fit errors."""
        session, job = self.session, self.job
        self.has_placed = False
        why = session.pre_predicate(run[0], plan)
        if why is not None:
            nodes = int(session.nodes.usable.sum())
            job.fail(run[0], FitErrors(nodes=nodes, reasons={why: nodes}))
            return run
        same = 0
        while run:
            task = run[0]
            batch = None
            nominated = self._nominated(task)
            if nominated is not None:
                batch = find(session, job, task, plan, 1, within=nominated)
            if batch is None:
                same = same or alike(session, run)
                batch = find(session, job, task, plan, 1 if nominated is not None else same, within=self.within)
            if batch is None:
                job.fail(task, explain(session, job, task, plan, within=self.within).inside(self.hyper_node))
                return run
            placed, run = run[: len(batch.rows)], run[len(batch.rows) :]
            same = max(0, same - len(placed))
            put = self.statement.pipeline if batch.is_promise else self.statement.allocate
            self.has_placed = put(job, plan, placed, batch.rows)
        return run

    def may_go_on(self, missed: Task) -> bool:
        """Whether the job may still become ready with other tasks, although no node is feasible for `missed`."""
        job, facts = self.job, self.job.facts
        if facts.min_available >= len(facts.tasks):
            return False
        if self.sub_job is not None and self.sub_job.min_available >= len(self.sub_job.tasks):
            return False
        if job.is_divided or missed.facts.shape.has_claims:
            return True
        failed = job.failed_roles
        roles = facts.role_minimum
        if facts.min_available < sum(roles.values()):
            left = sum(task.status is TaskStatus.PENDING and task.facts.role not in failed for task in job.tasks)
            return job.tally.ready + left >= facts.min_available
        for role in failed:
            counts = job.tally.roles.get(role)
            if roles.get(role) and counts is not None:
                allocated = sum(counts[status] for status in READY) + counts[-1]
                if allocated < roles[role]:
                    return False
        return True

    def _nominated(self, task: Task) -> Bools | None:
        """Return a mask with the nominated node of `task`; None if there is none among the allowed nodes."""
        row = self.session.snapshot.rows.get(task.facts.nominated)
        if row is None or (self.within is not None and not self.within[row]):
            return None
        mask = np.zeros(len(self.session.names), dtype=np.bool_)
        mask[row] = True
        return mask


def _alike(a: Task, b: Task) -> bool:
    """Whether results for one task apply to the other. Pods with claims are never alike."""
    if a.facts.shape.has_claims:
        return a is b
    return a.facts.shape is b.facts.shape and a.facts.role == b.facts.role


def _drop(tasks: deque[Task], count: int) -> None:
    for _ in range(count):
        tasks.popleft()


def _skip(job: Job, tasks: list[Task], *, like: Task) -> None:
    """Set the fit errors of tasks that need no trial, because `like` or an earlier task of the role is infeasible."""
    for task in tasks:
        role = task.facts.role
        if role:
            job.fail(task, FitErrors(f"Task {task.facts.name} with role spec {role} has already predicated failed, skip"))
        else:
            job.fail(task, job.fit_errors[like.uid])

"""The search for nodes for a task, which all actions use: it combines feasibility and scores of all plugins."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from pyroclast_scheduler.model.fit_errors import Code, FitErrors, count_refusals
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.placement import placer
from pyroclast_scheduler.placement.placer import Batch, CandidateScorers
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.session import Session


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
    if session.has_objections or (refusals is not None and not all(refusal.is_steady for refusal in refusals)):
        count = 1
    scorers = CandidateScorers(
        partial(session.relative_scores, plan) if session.has_relative_scores else None,
        partial(session.batch_scores, job, task, plan) if session.has_batch_scores else None,
        partial(session.best_node, task, plan) if session.has_best_node else None,
    )
    limits = [refusal.limit for refusal in refusals or () if refusal.limit is not None]
    best = partial(
        placer.find,
        allowed=allowed,
        preferred=session.nodes.preferred,
        scorers=scorers,
        limits=limits,
        only_pipelined=only_pipelined,
    )
    batch: Batch | None = session.ports.observe("Scoring", "stage", partial(best, plan, count, session.moves.log))
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
    """Return the rows of `nodes` with the best score first, own nodes before those of other schedulers. Room is not checked.

    `among`: the mask of all nodes whose scores are compared, `nodes` and others.
    """
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
    mask = plan.mask
    locked = session.closed_to(job)
    if locked is not None:
        mask = mask & ~locked
    for refusal in session.coupled_refusals(task, plan) or ():
        if refusal.code is not Code.UNSCHEDULABLE:
            mask = mask & ~refusal.nodes
    return mask

"""Finding nodes for the next pods of one shape: as many at once as can be decided without looking again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyroclast_scheduler.framework.jobs import Task
from pyroclast_scheduler.framework.plans import Plan
from pyroclast_scheduler.framework.points import Point
from pyroclast_scheduler.framework.reasons import FitErrors, Refusal, count_refusals
from pyroclast_scheduler.framework.session import Session
from pyroclast_scheduler.model.columns import Bools, Floats
from pyroclast_scheduler.placement.greedy import NEVER, Rows

__all__ = ["Batch", "coupled_refusals", "explain", "find", "ranked"]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows for the next pods, in order. `is_promise`: the room is there only when what is being released is gone."""

    rows: Rows
    is_promise: bool = False


def find(session: Session, plan: Plan, task: Task, count: int, *, within: Bools | None = None) -> Batch | None:
    """The nodes of the next pods, at least one and at most `count`; None where no node takes the next pod.

    Room that is there now goes before room that is promised, and own nodes before those of other schedulers; only then do
    scores count. The caller applies the batch before asking for the next.
    """
    allowed = within
    coupled = coupled_refusals(session, plan, task)
    if coupled is not None:
        open_nodes = ~np.logical_or.reduce([refusal.nodes for refusal in coupled]) if coupled else None
        allowed = open_nodes if allowed is None else allowed if open_nodes is None else allowed & open_nodes
        count = 1
    groups: list[Bools | None] = [allowed]
    if session.preferred is not None:
        own = session.preferred
        groups = [own, ~own] if allowed is None else [own & allowed, ~own & allowed]
    for is_promise in (False, True):
        first = plan.future_first() if is_promise else plan.first(session.log)
        for mask in groups:
            values = first if mask is None else np.where(mask, first, NEVER)
            rows = _pick(session, plan, task, values, count, is_promise=is_promise)
            if len(rows):
                return Batch(rows, is_promise)
    return None


def explain(session: Session, plan: Plan, task: Task) -> FitErrors:
    """Why `task` fits on none of the session's nodes."""
    refusals: list[Refusal] = plan.refusals()
    refusals.extend(coupled_refusals(session, plan, task) or ())
    return count_refusals(session.usable, refusals)


def ranked(session: Session, plan: Plan, task: Task, nodes: Bools) -> list[int]:
    """The rows of `nodes`, best score first, own ones before those of other schedulers; room is not asked for."""
    rows = np.flatnonzero(nodes)
    if not len(rows):
        return []
    scores = plan.score(rows, 1)[:, 0]
    extra = _together(session, plan, task, nodes)
    if extra is not None:
        scores = scores + extra[rows]
    order = np.argsort(-scores, kind="stable")
    if session.preferred is not None:
        order = order[np.argsort(~session.preferred[rows[order]], kind="stable")]
    return [int(row) for row in rows[order]]


def coupled_refusals(session: Session, plan: Plan, task: Task) -> list[Refusal] | None:
    """Refusals that depend on where other pods are; None if that does not matter to `task`."""
    found: list[Refusal] | None = None
    for ask in session.hooks(Point.COUPLED_FILTER):
        refusals = ask(task, plan)
        if refusals is not None:
            found = [*(found or ()), *refusals]
    return found


def _pick(session: Session, plan: Plan, task: Task, first: Floats, count: int, *, is_promise: bool) -> Rows:
    candidates = first != NEVER
    if session.has(Point.BATCH_NODE_ORDER) and candidates.any():
        extra = _together(session, plan, task, candidates)
        if extra is not None:
            return plan.place(np.where(candidates, first + extra, NEVER), 1, future=is_promise)
    return plan.place(first, count, future=is_promise)


def _together(session: Session, plan: Plan, task: Task, candidates: Bools) -> Floats | None:
    """The scores that depend on which nodes are candidates; None if they say nothing."""
    found = [scores for ask in session.hooks(Point.BATCH_NODE_ORDER) if (scores := ask(task, plan, candidates)) is not None]
    return np.sum(found, axis=0) if found else None

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

__all__ = ["Batch", "explain", "find"]


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
    coupled = _coupled(session, plan, task)
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
    refusals.extend(_coupled(session, plan, task) or ())
    return count_refusals(session.usable, refusals)


def _coupled(session: Session, plan: Plan, task: Task) -> list[Refusal] | None:
    found: list[Refusal] | None = None
    for ask in session.hooks(Point.COUPLED_FILTER):
        refusals = ask(task, plan)
        if refusals is not None:
            found = [*(found or ()), *refusals]
    return found


def _pick(session: Session, plan: Plan, task: Task, first: Floats, count: int, *, is_promise: bool) -> Rows:
    if session.has(Point.BATCH_NODE_ORDER):
        candidates = first != NEVER
        extra = np.zeros(len(first))
        is_extra = False
        if candidates.any():
            for ask in session.hooks(Point.BATCH_NODE_ORDER):
                scores = ask(task, plan, candidates)
                if scores is not None:
                    extra, is_extra = extra + scores, True
        if is_extra:
            return plan.place(np.where(candidates, first + extra, NEVER), 1, future=is_promise)
    return plan.place(first, count, future=is_promise)

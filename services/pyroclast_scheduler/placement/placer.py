"""Chooses nodes for the next pods of one shape, as many pods at once as one evaluation can decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pyroclast_scheduler.model.fit_errors import DomainLimit
from pyroclast_scheduler.model.node_columns import Bools, Floats, Rows
from pyroclast_scheduler.placement.plans import NEVER, PlacementPlan


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows for the next pods, in order. `is_promise`: the room is only free after releasing pods are gone (pipelined)."""

    rows: Rows
    is_promise: bool = False


@dataclass(frozen=True, slots=True)
class CandidateScorers:
    """Scores by plugins that rate all candidates together. Each function receives the mask of candidates.

    Attributes:
        relative: scores that depend only on the mask, and stay valid while the mask does not change.
        moving: scores that may change with every placed pod.
        best: receives the scores and returns the row to choose in their place, or None.
    """

    relative: Callable[[Bools], Floats | None] | None = None
    moving: Callable[[Bools], Floats | None] | None = None
    best: Callable[[Floats], int | None] | None = None


def find(
    plan: PlacementPlan,
    count: int,
    log: Sequence[Rows],
    *,
    allowed: Bools | None = None,
    preferred: Bools | None = None,
    scorers: CandidateScorers = CandidateScorers(),
    limits: Sequence[DomainLimit] = (),
    only_pipelined: bool = False,
) -> Batch | None:
    """Return the nodes of the next pods, at least one and at most `count`; None if no node is feasible for the next pod.

    Free room is used before releasing room, and preferred nodes before others; the score decides last. The caller must apply the
    batch before it searches again. The result equals that of placing the pods one after another.

    Args:
        plan: the plan of the pods' shape.
        count: the number of pods.
        log: the rows that changed since the start of the session.
        allowed: a mask of the allowed nodes; None for all nodes.
        preferred: a mask of the preferred nodes; None for no preference.
        scorers: the plugins that rate all candidates together.
        limits: how many more of these pods each topology domain accepts.
        only_pipelined: whether the pods are pipelined also to nodes with free room, of which they use nothing.
    """
    is_plain = allowed is None and preferred is None and scorers.best is None and not limits
    if is_plain:
        rows = plan.ahead.next(count, len(log))
        if len(rows) and (scorers.moving is None or scorers.moving(plan.ahead.candidates) is None):
            return Batch(rows)
    groups: list[Bools | None] = [allowed]
    if preferred is not None:
        groups = [preferred, ~preferred] if allowed is None else [preferred & allowed, ~preferred & allowed]
    for is_promise in (False, True):
        first = plan.future_first() if is_promise else plan.first(log)
        for mask in groups:
            values = first if mask is None else np.where(mask, first, NEVER)
            candidates = values != NEVER
            if not candidates.any():
                continue
            further = plan.ahead.further(count, len(log)) if is_plain and not is_promise else count
            rows = _pick(plan, values, candidates, further, scorers, limits=limits, future=is_promise or only_pipelined)
            if len(rows):
                if further > count:
                    plan.ahead.keep(rows, candidates, len(log))
                return Batch(rows[:count], is_promise)
    return None


def _pick(
    plan: PlacementPlan,
    values: Floats,
    candidates: Bools,
    count: int,
    scorers: CandidateScorers,
    *,
    limits: Sequence[DomainLimit],
    future: bool,
) -> Rows:
    relative = None if scorers.relative is None else scorers.relative(candidates)
    moving = None if scorers.moving is None else scorers.moving(candidates)
    extra = relative if moving is None else moving if relative is None else relative + moving
    scores = values if extra is None else np.where(candidates, values + extra, NEVER)
    best = None if scorers.best is None else scorers.best(scores)
    if best is not None:
        return np.array([best] if candidates[best] else [], dtype=np.intp)
    if moving is not None:
        count = 1
    if limits and count > 1:
        rows = _within(limits, plan, scores, count, extra, future=future)
    else:
        rows = plan.place(scores, count, future=future, extra=extra)
    if relative is None or scorers.relative is None:
        return rows
    return _steady(plan, rows, candidates, scorers.relative, future=future)


def _steady(
    plan: PlacementPlan, rows: Rows, candidates: Bools, relative: Callable[[Bools], Floats | None], *, future: bool
) -> Rows:
    """Return as many of the first `rows` as can be used while the relative scores of candidates keep their differences.

    Candidates only become fewer, so that a relation that is true at the end was true all the time.
    """
    before = relative(candidates)
    while len(rows) > 1:
        taken, counts = np.unique(rows[:-1], return_counts=True)
        full = taken[counts >= plan.room(taken, future=future)]
        if not len(full):
            return rows
        left = candidates.copy()
        left[full] = False
        after = relative(left)
        change = (0.0 if after is None else after) - (0.0 if before is None else before)
        if not left.any() or np.ptp(np.broadcast_to(change, left.shape)[left]) == 0:
            return rows
        rows = rows[: len(rows) // 2]
    return rows


def _within(
    limits: Sequence[DomainLimit], plan: PlacementPlan, scores: Floats, count: int, extra: Floats | None, *, future: bool
) -> Rows:
    """Return rows for the next pods, at least one, while their topology domains accept pods."""
    if len(limits) == 1 and limits[0].room[limits[0].codes[scores != NEVER]].max() <= 1:
        rows = _best_of_each(scores, limits[0])[:count]
    else:
        rows = plan.place(scores, count, future=future, extra=extra)
    room = [limit.room.copy() for limit in limits]
    open_lowest = [None if limit.lowest is None else int(limit.lowest.sum()) for limit in limits]
    kept: list[int] = []
    for row in rows.tolist():
        places = [int(limit.codes[row]) for limit in limits]
        if any(left[place] <= 0 for left, place in zip(room, places, strict=True)):
            continue
        kept.append(row)
        has_risen = False
        for i, (limit, place) in enumerate(zip(limits, places, strict=True)):
            if limit.lowest is not None and limit.lowest[place] and room[i][place] == limit.room[place]:
                open_lowest[i] = (open_lowest[i] or 0) - 1
                has_risen |= open_lowest[i] == 0
            room[i][place] -= 1
        if has_risen:
            break
    return np.array(kept, dtype=np.intp)


def _best_of_each(scores: Floats, limit: DomainLimit) -> Rows:
    """Return the best candidate of each domain, best domain first; of equal candidates the first row."""
    best = np.full(len(limit.room), NEVER)
    np.maximum.at(best, limit.codes, scores)
    rows = np.flatnonzero((scores == best[limit.codes]) & (scores != NEVER))
    _, first = np.unique(limit.codes[rows], return_index=True)
    rows = np.sort(rows[first])
    return rows[np.argsort(-scores[rows], kind="stable")]

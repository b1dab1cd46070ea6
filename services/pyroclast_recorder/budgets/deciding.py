"""What is to be written of a budget, and when. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pyroclast.api import keys
from pyroclast.api.budgets import Budget, BudgetError, Period, Span, Spent, period_at, read_budget, read_spent
from pyroclast.lifecycle.times import parse_time
from pyroclast_recorder.facts.units import MEBIBYTE, is_in_mebibytes

__all__ = ["BudgetedQueue", "Use", "budgeted", "crossed", "hours_in", "in_period", "is_worth_a_write", "spent_by"]

THOUSANDTHS: Final = 1000
HOUR: Final = 3600
LEAST_CHANGE: Final = 0.001
"""Of the limit; less is not worth a write."""

ROUNDING: Final = 1e-9

ROOT: Final = "root"

Use = Mapping[tuple[str, str], tuple[int, int]]
"""By queue and resource what was asked for and what of it is doubtful, as the tables have it."""


@dataclass(frozen=True, slots=True)
class BudgetedQueue:
    """A queue with a budget. `members`: the queues that count in it; None: all, also those that are gone.

    `said`: what its annotation says was spent; `text` as it is written there.
    """

    name: str
    uid: str
    budget: Budget
    span: Span
    members: frozenset[str] | None
    said: Spent | None
    text: str


class Crossed(NamedTuple):
    """A share of a limit that was reached."""

    share: float
    resource: str
    spent: float
    limit: float


def budgeted(queues: Iterable[Mapping[str, Any]], now: float) -> list[BudgetedQueue]:
    """The queues with a budget that makes sense; the scheduler and admission tell of others."""
    listed = list(queues)
    parents = {_name(each): str((each.get("spec") or {}).get("parent") or "") for each in listed}
    found = []
    for queue in listed:
        annotations = queue["metadata"].get("annotations") or {}
        if keys.QUEUE_BUDGET not in annotations:
            continue
        try:
            budget = read_budget(annotations[keys.QUEUE_BUDGET])
        except BudgetError:
            continue
        name, text = _name(queue), annotations.get(keys.QUEUE_BUDGET_SPENT) or ""
        span = period_at(budget.period, budget.zone, now, first=_created(queue))
        members = None if name == ROOT else frozenset(each for each in parents if name in _path(each, parents))
        found.append(BudgetedQueue(name, queue["metadata"].get("uid", ""), budget, span, members, read_spent(text), text))
    return found


def spent_by(queue: BudgetedQueue, use: Use, as_of: int) -> Spent:
    """What a queue has spent. `use`: since its period began; `as_of`: until when that is added up."""
    asked = dict.fromkeys(queue.budget.limits, 0.0)
    doubtful = dict.fromkeys(queue.budget.limits, 0.0)
    for (name, resource), (amount, doubt) in use.items():
        if resource in asked and (queue.members is None or name in queue.members):
            asked[resource] += hours_in(resource, amount)
            doubtful[resource] += hours_in(resource, doubt)
    return Spent(as_of, queue.span.begin, asked, doubtful)


def hours_in(resource: str, amount: int) -> float:
    """Hours of a core, a byte or a device of an amount in the tables."""
    return amount / HOUR * MEBIBYTE if is_in_mebibytes(resource) else amount / HOUR / THOUSANDTHS


def is_worth_a_write(queue: BudgetedQueue, new: Spent, period: float, heartbeat: float) -> bool:
    """Whether `new` differs enough from what is written, or that is so old that nobody would believe it soon.

    `period`: seconds between two writes at least; `heartbeat`: after so many it is written in any case.
    """
    old = queue.said
    if old is None or old.since != new.since or old.amounts.keys() != new.amounts.keys():
        return True
    age = new.as_of - old.as_of
    if age < 0 or age >= heartbeat:  # below 0: the annotation is of a clock, or of a cluster, that was ahead
        return True
    return age >= period - 1 and any(
        _differ(old.amounts[name], new.amounts[name], limit)
        or _differ(old.doubtful.get(name, 0.0), new.doubtful.get(name, 0.0), limit)
        for name, limit in queue.budget.limits.items()
    )


def crossed(queue: BudgetedQueue, new: Spent) -> Iterator[Crossed]:
    """For each resource the highest share to warn at that was not reached when the last amount was written, and is now."""
    old = queue.said.amounts if queue.said is not None and queue.said.since == new.since else {}
    for name, limit in queue.budget.limits.items():
        if limit <= 0:
            continue
        reached = [each for each in queue.budget.warn_at if old.get(name, 0.0) < each * limit <= new.amounts[name]]
        if reached:
            yield Crossed(max(reached), name, new.amounts[name], limit)


def in_period(budget: Budget) -> str:
    """The period of a budget in a sentence."""
    return "" if budget.period is Period.NONE else f" for this {budget.period}"


def _differ(old: float, new: float, limit: float) -> bool:
    return abs(new - old) >= LEAST_CHANGE * limit * (1 - ROUNDING) and new != old


def _path(name: str, parents: Mapping[str, str]) -> set[str]:
    seen: set[str] = set()
    while name in parents and name not in seen:
        seen.add(name)
        name = parents[name] or ROOT
    return seen


def _name(queue: Mapping[str, Any]) -> str:
    return str(queue["metadata"]["name"])


def _created(queue: Mapping[str, Any]) -> int:
    try:
        return int(parse_time(queue["metadata"].get("creationTimestamp") or ""))
    except (ValueError, OverflowError):
        return 0

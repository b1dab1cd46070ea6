"""Decisions about budgets: the spent amounts of each queue, and when they are written. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pyroclast.api import keys
from pyroclast.api.budgets import (
    Budget,
    BudgetError,
    Period,
    Span,
    Spent,
    hours_text,
    period_at,
    read_budget,
    read_hours,
    read_spent,
)
from pyroclast.lifecycle.times import parse_time
from pyroclast_recorder.facts.units import MEBIBYTE, is_in_mebibytes
from pyroclast_recorder.queue_tree import ROOT, is_below

THOUSANDTHS: Final = 1000
HOUR: Final = 3600
LEAST_CHANGE: Final = 0.001
"""The least change that is written, as a part of the limit."""

ROUNDING: Final = 1e-9


class Slot(NamedTuple):
    """The usage of a resource that is charged to a queue. `ancestors`: those of the queue at that time; see `usage_hours`."""

    queue: str
    ancestors: str
    resource: str


Use = Mapping[Slot, tuple[int, int]]
"""The requested amount and the doubtful part of the amount, in the units of the tables."""


@dataclass(frozen=True, slots=True)
class BudgetedQueue:
    """A queue with a budget.

    `span`: the present period of the budget. `members`: this queue and the queues that are below it now; None for all queues.
    `said`: the spent amounts in the annotation of the queue; None when it has none. `text`: the text of the annotation.
    """

    name: str
    uid: str
    budget: Budget
    span: Span
    members: frozenset[str] | None
    said: Spent | None
    text: str


class Crossed(NamedTuple):
    """A share of a limit that the spent amount has reached. `spent` and `limit` are in hours."""

    share: float
    resource: str
    spent: float
    limit: float


def budgeted(queues: Iterable[Mapping[str, Any]], now: float) -> list[BudgetedQueue]:
    """Return the queues with a valid budget. The scheduler and admission report invalid budgets."""
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
    """Return the spent amounts of a queue: its own usage, and that of queues which were below it at the time of the usage.

    Usage without recorded ancestors counts where the queue is now. `use`: the usage since the start of the period. `as_of`: the
    end of this usage.
    """
    asked = dict.fromkeys(queue.budget.limits, 0.0)
    doubtful = dict.fromkeys(queue.budget.limits, 0.0)
    for slot, (amount, doubt) in use.items():
        resource = slot.resource
        if resource in asked and _counts(queue, slot):
            asked[resource] += hours_in(resource, amount)
            doubtful[resource] += hours_in(resource, doubt)
    return Spent(as_of, queue.span.begin, asked, doubtful)


def _counts(queue: BudgetedQueue, slot: Slot) -> bool:
    if queue.members is None or slot.queue == queue.name:
        return True
    return is_below(slot.ancestors, queue.name) if slot.ancestors else slot.queue in queue.members


def hours_in(resource: str, amount: int) -> float:
    """Return an amount of the tables in core hours, byte hours or device hours."""
    return amount / HOUR * MEBIBYTE if is_in_mebibytes(resource) else amount / HOUR / THOUSANDTHS


def is_worth_a_write(queue: BudgetedQueue, new: Spent, period: float, heartbeat: float) -> bool:
    """Whether `new` must be written, because it differs enough from the annotation or because the annotation is too old.

    `period`: the least seconds between two writes. `heartbeat`: the seconds after which `new` is written in any case.
    """
    old = queue.said
    if old is None or old.since != new.since or old.amounts.keys() != new.amounts.keys():
        return True
    age = new.as_of - old.as_of
    if age < 0 or age >= heartbeat:  # below 0: another clock or cluster wrote the annotation
        return True
    return age >= period - 1 and any(
        _differ(old.amounts[name], new.amounts[name], limit)
        or _differ(old.doubtful.get(name, 0.0), new.doubtful.get(name, 0.0), limit)
        for name, limit in queue.budget.limits.items()
    )


def crossed(queue: BudgetedQueue, new: Spent) -> Iterator[Crossed]:
    """Yield for each resource the highest warning share that `new` reaches and the annotation had not reached.

    Both amounts are compared as the annotation rounds them. So an amount that is rounded up to a share has reached the share.
    """
    old = queue.said.amounts if queue.said is not None and queue.said.since == new.since else {}
    for name, limit in queue.budget.limits.items():
        if limit <= 0:
            continue
        spent = read_hours(hours_text(name, new.amounts[name]))
        reached = [each for each in queue.budget.warn_at if old.get(name, 0.0) < each * limit <= spent]
        if reached:
            yield Crossed(max(reached), name, new.amounts[name], limit)


def in_period(budget: Budget) -> str:
    """Return the words for the period of a budget in a sentence; empty for a budget without a period."""
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

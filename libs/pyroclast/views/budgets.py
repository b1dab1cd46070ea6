"""The remaining budgets of queues, computed only from the annotations of the queues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyroclast.api.budgets import Budget, BudgetError, Span, Spent, period_at, read_budget, read_spent, zoned
from pyroclast.api.keys import QUEUE_BUDGET, QUEUE_BUDGET_SPENT
from pyroclast.lifecycle.times import format_time, parse_time
from pyroclast.views.documents import Row
from pyroclast.views.readable import hours_text, is_in_mebibytes

DAY: Final = 86_400.0
LEAST_SECONDS: Final = 600
"""Seconds of a period after which a rate is computed."""

GIBIBYTE: Final = 2.0**30


def budget_rows(queues: Sequence[Mapping[str, Any]], now: float) -> list[Row]:
    """Return a row for each limited resource of each queue with a budget; for an invalid budget, one row with its `problem`.

    Amounts are hours of cores, GiB or devices. The amounts are None when nothing is known of this period.
    """
    rows: list[Row] = []
    for queue in sorted(queues, key=lambda each: str(each["metadata"]["name"])):
        metadata = queue["metadata"]
        annotations = metadata.get("annotations") or {}
        if QUEUE_BUDGET not in annotations:
            continue
        try:
            budget = read_budget(annotations[QUEUE_BUDGET])
        except BudgetError as error:
            rows.append({"name": metadata["name"], "problem": str(error)})
            continue
        span = period_at(budget.period, budget.zone, now, first=_created(metadata))
        spent = read_spent(annotations.get(QUEUE_BUDGET_SPENT) or "")
        rows += _rows(str(metadata["name"]), budget, span, spent if spent is not None and spent.since == span.begin else None)
    return rows


def signed_hours(hours: float) -> str:
    """Return hours as text; a negative amount means that the budget was exceeded."""
    return f"-{hours_text(-hours)}" if hours < 0 else hours_text(hours)


def _rows(name: str, budget: Budget, span: Span, spent: Spent | None) -> Iterator[Row]:
    for resource, limit in sorted(budget.limits.items()):
        unit = GIBIBYTE if is_in_mebibytes(resource) else 1.0
        used = None if spent is None else spent.amounts.get(resource, 0.0) / unit
        left = None if used is None else limit / unit - used
        rate = _rate(used, span, spent)
        yield {
            "name": name,
            "resource": resource,
            "period": str(budget.period),
            "limitHours": limit / unit,
            "spentHours": used,
            "doubtfulHours": (spent.doubtful.get(resource, 0.0) / unit or None) if spent is not None else None,
            "leftHours": left,
            "hoursPerDay": rate,
            "begins": zoned(span.begin, budget.zone),
            "ends": None if span.end is None else zoned(span.end, budget.zone),
            "usedUpAt": _used_up_at(left, rate, span, spent, budget.zone),
            "atEnd": str(budget.at_end),
            "asOf": None if spent is None else format_time(spent.as_of),
            "problem": None,
        }


def _rate(used: float | None, span: Span, spent: Spent | None) -> float | None:
    """Return the hours per day that were spent in this period so far; None when unknown, or when the period is too short
    so far.
    """
    if used is None or spent is None or spent.as_of - span.begin < LEAST_SECONDS:
        return None
    return used / (spent.as_of - span.begin) * DAY


def _used_up_at(left: float | None, rate: float | None, span: Span, spent: Spent | None, zone: str) -> str | None:
    """Return when the budget is used up at the present rate; None if that is not within this period."""
    if left is None or left <= 0 or not rate or spent is None:
        return None
    days = min(left / rate, 36_500.0)
    at = spent.as_of + days * DAY
    return None if span.end is not None and at >= span.end else zoned(int(at), zone)


def _created(metadata: Mapping[str, Any]) -> int:
    try:
        return int(parse_time(str(metadata.get("creationTimestamp") or "")))
    except (ValueError, OverflowError):
        return 0

"""The limits, allocations, budgets and waiting Jobs of queues: as rows, as an explanation of one queue, and as a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyroclast.api.budgets import Budget, BudgetError, Span, Spent, period_at, read_budget, read_spent, zoned
from pyroclast.api.keys import QUEUE_BUDGET, QUEUE_BUDGET_SPENT
from pyroclast.lifecycle.times import format_time, parse_time
from pyroclast.pictures.bars import QueueBar, queue_bars
from pyroclast.pictures.svg import Picture
from pyroclast.views.contract import Row, document
from pyroclast.views.jobs import WAITING_PHASES, Group, Waiter, seconds_since
from pyroclast.views.readable import amount, as_text, hours_text, human_duration, is_in_mebibytes, main_resources, readable

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
    """Return the hours per day that were spent in this period so far; None when unknown or too early to say."""
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


ROOT: Final = "root"
INDENT: Final = "  "
MOST_SHOWN: Final = 10  # gangs that are owed room, in the text for a terminal


def in_tree_order(queues: Sequence[Mapping[str, Any]]) -> list[tuple[int, Mapping[str, Any]]]:
    """Return the queues with their depth, each behind its parent, siblings by name. One with an unknown parent is at the top."""
    names = {queue["metadata"]["name"] for queue in queues}
    below: dict[str, list[Mapping[str, Any]]] = {}
    for queue in sorted(queues, key=lambda each: str(each["metadata"]["name"])):
        name, parent = queue["metadata"]["name"], (queue.get("spec") or {}).get("parent") or ROOT
        below.setdefault(parent if parent in names and name != ROOT else "", []).append(queue)
    ordered: list[tuple[int, Mapping[str, Any]]] = []

    def visit(name: str, depth: int) -> None:
        for queue in below.pop(name, ()):
            ordered.append((depth, queue))
            visit(queue["metadata"]["name"], depth + 1)

    visit("", 0)
    # queues whose parents form a cycle, which admission refuses
    ordered += [(0, queue) for circle in below.values() for queue in circle]
    return ordered


def queue_rows(queues: Sequence[Mapping[str, Any]], groups: Sequence[Group], now: float, *, is_tree: bool) -> list[Row]:
    """Return a row for each queue and each of its allocated, limited or guaranteed resources. `now`: seconds since the epoch."""
    waiting: Counter[str] = Counter()
    running: Counter[str] = Counter()
    oldest: dict[str, str] = {}
    for group in groups:
        queue, phase = (group.get("spec") or {}).get("queue") or "default", (group.get("status") or {}).get("phase", "")
        if phase in WAITING_PHASES:
            waiting[queue] += 1
            created = group["metadata"]["creationTimestamp"]
            oldest[queue] = min(created, oldest.get(queue, created))
        elif phase in {"Running", "Unknown"}:
            running[queue] += 1
    ordered = (
        in_tree_order(queues) if is_tree else [(0, each) for each in sorted(queues, key=lambda q: str(q["metadata"]["name"]))]
    )
    rows: list[Row] = []
    for depth, queue in ordered:
        name = queue["metadata"]["name"]
        common = {
            "name": name,
            "label": INDENT * depth + name,
            "parent": (queue.get("spec") or {}).get("parent"),
            "weight": (queue.get("spec") or {}).get("weight", 0),
            "state": (queue.get("status") or {}).get("state"),
            "waiting": waiting[name],
            "running": running[name],
            "oldestSeconds": seconds_since(oldest[name], now) if name in oldest else None,
        }
        rows += [{**common, **each} for each in _resources(queue) or [{"resource": None}]]
    return rows


STARVED, WAITS, SERVED, IDLE = "starved", "waits", "served", "idle"
"""How much a queue needs: Jobs wait below what it deserves; wait at or above it; nothing waits; it has no Job."""


def need_rows(queues: Sequence[Mapping[str, Any]], groups: Sequence[Group], now: float) -> list[Row]:
    """Return one row for each queue, with the Jobs of the queues below it, starved queues first.

    `share`: what it has of what it deserves, of the device or else the resource of which it has the smallest share; None without
    deserved amounts. `budgetLeft`: the smallest share that is left of its budget.
    """
    listed = {str(each["metadata"]["name"]): each for each in queues}
    counts = {row["name"]: row for row in queue_rows(queues, groups, now, is_tree=False)}
    budgets = [each for each in budget_rows(queues, now) if each.get("leftHours") is not None]
    below: dict[str, list[str]] = {name: [] for name in listed}
    for name in listed:
        at, seen = name, {name}
        while (at := (listed[at].get("spec") or {}).get("parent") or ROOT) in listed and at not in seen:
            below[at].append(name)
            seen.add(at)
    rows: list[Row] = []
    for name, queue in listed.items():
        own = [counts[each] for each in (name, *below[name])]
        oldest = [each["oldestSeconds"] for each in own if each["oldestSeconds"] is not None]
        waiting, running = (sum(each[word] for each in own) for word in ("waiting", "running"))
        spec = queue.get("spec") or {}
        deserved, held = spec.get("deserved") or {}, (queue.get("status") or {}).get("allocated") or {}
        shares = {
            each: float(amount(held.get(each, 0))) / float(amount(value)) for each, value in deserved.items() if amount(value)
        }
        resource = min(shares, key=lambda each: ("/" not in each, shares[each], each), default=None)
        share = None if resource is None else shares[resource]
        is_below = share is not None and share < 1
        need = (STARVED if is_below else WAITS) if waiting else SERVED if running else IDLE
        left = [each["leftHours"] / each["limitHours"] for each in budgets if each["name"] == name and each["limitHours"]]
        rows.append({
            "name": name,
            "parent": spec.get("parent"),
            "state": counts[name]["state"],
            "need": need,
            "resource": resource,
            "allocated": None if resource is None else readable(resource, held.get(resource, 0)),
            "deserved": None if resource is None else readable(resource, deserved[resource]),
            "share": share,
            "waiting": waiting,
            "running": running,
            "oldestSeconds": max(oldest, default=None),
            "budgetLeft": min(left, default=None),
        })  # fmt: skip
    order = (STARVED, WAITS, SERVED, IDLE)
    most = float("inf")  # queues that deserve nothing certain come behind the others
    rows.sort(key=lambda row: (order.index(row["need"]), row["share"] or (0 if row["share"] == 0 else most), row["name"]))
    return rows


def _resources(queue: Mapping[str, Any]) -> list[Row]:
    spec, status = queue.get("spec") or {}, queue.get("status") or {}
    guarantee = (spec.get("guarantee") or {}).get("resource") or {}
    deserved, limit, allocated = spec.get("deserved") or {}, spec.get("capability") or {}, status.get("allocated") or {}
    used = {name for name, value in allocated.items() if amount(value)}
    names = main_resources(dict.fromkeys({*guarantee, *deserved, *limit, *used}, ""))
    rows: list[Row] = []
    for name in sorted(names):
        borrowed = amount(allocated.get(name, 0)) - amount(deserved[name]) if name in deserved else None
        rows.append(
            {
                "resource": name,
                "guarantee": _written(name, guarantee),
                "deserved": _written(name, deserved),
                "allocated": readable(name, allocated.get(name, 0)),
                "borrowed": None if borrowed is None else readable(name, max(borrowed, amount(0))),
                "limit": _written(name, limit),
            }
        )
    return rows


def _written(name: str, amounts: Mapping[str, Any]) -> str | None:
    return readable(name, amounts[name]) if name in amounts else None


def explain_queue(
    queue: Mapping[str, Any], groups: Sequence[Group], jobs: Iterable[Waiter], now: float, order: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the document `QueueExplanation`: the amounts of the queue, why its `jobs` wait, and what its gangs are owed.

    `order`: the scheduler's answer about the queue; None without an answer.
    """
    name = queue["metadata"]["name"]
    rows = queue_rows([queue], groups, now, is_tree=False)
    codes = Counter(str(job.cause.code) for job in jobs if job.queue == name and job.cause is not None)
    first = rows[0]
    names = ("resource", "guarantee", "deserved", "allocated", "borrowed", "limit")
    fields = {
        "metadata": {"name": name},
        "state": first["state"],
        "parent": first["parent"],
        "waiting": first["waiting"],
        "running": first["running"],
        "oldestSeconds": first["oldestSeconds"],
        "resources": [{each: row[each] for each in names} for row in rows if row["resource"]],
        "codes": dict(codes.most_common()),
        **({} if order is None or "promises" not in order else {"promises": order["promises"]}),
    }
    return document("QueueExplanation", fields)


def queue_lines(answer: Row) -> list[str]:
    """Return the explanation of a queue as lines for a terminal."""
    counts = f"{answer['waiting']} wait, {answer['running']} run"
    lines = [f"queue {answer['metadata']['name']} is {answer['state'] or 'not looked at yet'}: {counts}"]
    if answer["oldestSeconds"] is not None:
        lines.append(f"oldest   waits for {human_duration(answer['oldestSeconds'])}")
    for each in answer["resources"]:
        words = ("guarantee", "deserved", "borrowed", "limit")
        more = ", ".join(f"{word} {each[word]}" for word in words if each[word] is not None)
        lines.append(f"has      {each['allocated']} {each['resource']}{f' ({more})' if more else ''}")
    if answer["codes"]:
        lines.append(f"why      {', '.join(f'{count} {code}' for code, count in answer['codes'].items())}")
    promises = answer.get("promises") or []
    lines += [_promise(each) for each in promises[:MOST_SHOWN]]
    if len(promises) > MOST_SHOWN:
        lines.append(f"owed     to {len(promises) - MOST_SHOWN} more")
    if answer["state"] not in {"Open", None, ""}:
        lines.append("help     its owner opens it: vcctl queue operate -a open -n NAME")
    return lines


def _promise(row: Row) -> str:
    who = "a gang of a hidden namespace" if row["name"] is None else f"{row['namespace']}/{row['name']}"
    return f"owed     {as_text(row['owed']) or 'nothing'} to {who} (priority {row['priority']}): {row['why']}"


def draw_queues(title: str, rows: Iterable[Row]) -> Picture:
    """Draw queues from the rows of `queue_rows`."""
    return queue_bars(title, [_bar(row) for row in rows if row["resource"]])


def _bar(row: Row) -> QueueBar:
    names = ("allocated", "guarantee", "deserved", "limit", "borrowed")
    written = {name: row[name] for name in names if row[name] is not None}
    amounts = {name: None if row[name] is None else float(amount(row[name])) for name in ("guarantee", "deserved", "limit")}
    depth = (len(row["label"]) - len(row["name"])) // 2
    return QueueBar(row["name"], row["resource"], float(amount(row["allocated"])), **amounts, depth=depth, written=written)

"""What queues and nodes had over time, as series of equal steps for charts and tables.

A minute comes from the samples of that minute, an hour and a day from the means of their minutes. A value that nobody recorded
is None, never 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import orjson
from sqlalchemy import Select, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pyroclast.lifecycle.times import format_time
from pyroclast_recorder.database.connections import read_rows
from pyroclast_recorder.database.tables import MEANS, Row, node_states, queue_days, queue_hours, queue_minutes
from pyroclast_recorder.database.usage_rows import evicted, usage_rows
from pyroclast_recorder.hourly_usage import DAY, HOUR, MINUTE
from pyroclast_recorder.reading.questions import BadQuestion, SeriesQuestion

AMOUNTS: Final = (*MEANS, "capability", "used")
MOST_VALUES: Final = 100_000
"""The most rows of queues that are read for one answer."""

Whose: TypeAlias = tuple[str, str]
"""A queue and a resource."""


async def series(connection: AsyncConnection, cluster: str, question: SeriesQuestion, now: int) -> dict[str, Any]:
    """Return the series of queues, and of the whole cluster when no queue was named. Raises BadQuestion: they are too many."""
    step, starts = question.step, range(question.since, question.until, question.step)
    rows = await read_rows(connection, _queues(cluster, question).limit(MOST_VALUES + 1))
    if len(rows) > MOST_VALUES:
        raise BadQuestion(f"these are more than {MOST_VALUES} values; name a queue or a resource, or ask for a larger step")
    place = {at: number for number, at in enumerate(starts)}
    found: dict[Whose, dict[str, list[int | None]]] = defaultdict(lambda: {name: [None] * len(starts) for name in AMOUNTS})
    lost: dict[str, list[int | None]] = defaultdict(lambda: [None] * len(starts))
    for row in rows:
        if row["resource"]:
            for name in AMOUNTS:
                found[row["queue"], row["resource"]][name][place[row["at"]]] = row.get(name)
            lost[row["queue"]][place[row["at"]]] = lost[row["queue"]][place[row["at"]]] or 0
        else:
            lost[row["queue"]][place[row["at"]]] = row["evictions"]
    if step == MINUTE:
        ends = evicted(cluster, question.since, question.until, step)
        for row in await read_rows(connection, ends.where(*_only(question, ends.selected_columns.queue))):
            lost[row["queue"]][place[row["at"]]] = row["evictions"]
    else:
        for row in await read_rows(connection, _measured(cluster, question)):
            seconds = min(now, row["at"] + step) - row["at"]
            if row["measured"] and seconds > 0:
                found[row["queue"], row["resource"]]["used"][place[row["at"]]] = int(row["used"]) // seconds
    answer: dict[str, Any] = {
        "stepSeconds": step,
        "times": [format_time(at) for at in starts],
        "queues": [{"queue": queue, "resource": resource, **each} for (queue, resource), each in sorted(found.items())],
        "evictions": [{"queue": queue, "pods": numbers} for queue, numbers in sorted(lost.items())],
    }
    if not question.queue:
        states = select(node_states).where(node_states.c.cluster == cluster, node_states.c.at < question.until)
        of_nodes = await read_rows(connection, states.order_by(node_states.c.uid, node_states.c.at))
        answer["nodes"] = nodes_over_time(of_nodes, starts, min(now, question.until), question.resource)
    return answer


def _queues(cluster: str, question: SeriesQuestion) -> Select[Any]:
    """Return the query for the rows of queues: those of minutes, of hours or of days."""
    table = {MINUTE: queue_minutes, HOUR: queue_hours, DAY: queue_days}[question.step]
    at = table.c[{MINUTE: "minute", HOUR: "hour", DAY: "day"}[question.step]]
    columns = [column for column in table.columns if column.name in {"queue", "resource", "evictions", *AMOUNTS}]
    chosen = select(at.label("at"), *columns).where(table.c.cluster == cluster, at.between(question.since, question.until - 1))
    if question.resource:
        chosen = chosen.where(table.c.resource.in_([question.resource, ""]))
    return chosen.where(*_only(question, table.c.queue))


def _measured(cluster: str, question: SeriesQuestion) -> Select[Any]:
    """Return the query for the measured use by interval, queue and resource."""
    named = {"queue": question.queue, "resource": question.resource}
    only = {name: [value] for name, value in named.items() if value}
    rows = usage_rows(cluster, question.since, question.until - 1, only, by_hour=question.step == HOUR).c
    begin = (rows.at // question.step * question.step).label("at")
    sums = (func.sum(rows.used).label("used"), func.sum(rows.measured).label("measured"))
    return select(begin, rows.queue, rows.resource, *sums).group_by(begin, rows.queue, rows.resource)


def _only(question: SeriesQuestion, queue: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a column of SQLAlchemy
    return (queue == question.queue,) if question.queue else ()


def nodes_over_time(states: Iterable[Row], starts: range, until: int, resource: str = "") -> list[dict[str, Any]]:
    """Return the mean numbers of all nodes and of the nodes that were away, and their amounts of each resource.

    A node is away while it is not ready or is cordoned. The row with the empty resource counts nodes. `states`: the states of the
    nodes, ordered by node and time. `resource`: the resource of the rows; empty for all.
    """
    changes: dict[str, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: {"total": [], "away": []})
    before: tuple[str, dict[str, int], bool] = ("", {}, False)
    first = until
    for state in states:
        first = min(first, state["at"])
        amounts: dict[str, int] = orjson.loads(state["allocatable"])
        now = state["uid"], {"": 1000, **amounts} if amounts else {}, bool(state["is_down"])
        for (uid, of_node, is_down), sign in ((before, -1), (now, 1)):
            if uid == state["uid"]:
                for name, amount in of_node.items():
                    changes[name]["total"].append((state["at"], sign * amount))
                    if is_down:
                        changes[name]["away"].append((state["at"], sign * amount))
        before = now
    return [
        {"resource": name, **{part: _means(sorted(each), starts, first, until) for part, each in parts.items()}}
        for name, parts in sorted(changes.items())
        if name in {"", resource} or not resource
    ]


def _means(changes: Sequence[tuple[int, int]], starts: range, first: int, until: int) -> list[int | None]:
    """Return the mean of an amount in each step since the time `first`, before which it is not known, and before `until`."""
    found: list[int | None] = []
    at, amount = 0, 0
    for begin in starts:
        end = min(begin + starts.step, until)
        last, total = begin, 0
        while at < len(changes) and changes[at][0] < end:
            moment = max(begin, changes[at][0])
            total += amount * (moment - last)
            last, amount = moment, amount + changes[at][1]
            at += 1
        total += amount * max(0, end - last)
        known = end - max(begin, first)
        found.append(total // known if known > 0 else None)
    return found

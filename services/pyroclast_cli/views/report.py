"""The command `vcctl report`: usage, waiting times of Jobs, and the accuracy of estimated starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pyroclast.views.contract import Row
from pyroclast.views.readable import hours_text, human_duration, in_hours
from pyroclast.views.usage import node_series_rows, queue_series_rows
from pyroclast_cli.flags import Context, Flag
from pyroclast_cli.servers import RECORDER, WINDOW_FLAGS, asked, history_path
from pyroclast_cli.tree import Group, Leaf, OwnLeaf
from pyroclast_cli.views.output import TABLE_FLAGS, Column, Table, columns, write

GROUPS: Final = {
    "queue": Column("QUEUE", "queue"),
    "user": Column("USER", "user"),
    "namespace": Column("NAMESPACE", "namespace"),
    "flow": Column("FLOW", "flow"),
    "resource": Column("RESOURCE", "resource"),
}
AMOUNTS: Final = (
    Column("ASKED-H", "askedHours", hours_text),
    Column("USED-H", "usedHours", hours_text),
    Column("EFFICIENCY", "efficiency"),
    Column("±", "doubtfulHours", hours_text),
    *columns("jobs", "failed"),
)
WAITS: Final = (
    *columns("queue", "pods", "jobs"),
    Column("P50", "p50Seconds", human_duration),
    Column("P90", "p90Seconds", human_duration),
    Column("P99", "p99Seconds", human_duration),
)


def usage_rows(items: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the rows of the report, in the recorder's units. The efficiency covers only pods that were measured."""
    return [
        {
            **item,
            "askedHours": in_hours(item["resource"], item["asked"]),
            "usedHours": None if item["used"] is None else in_hours(item["resource"], item["used"]),
            "doubtfulHours": in_hours(item["resource"], item["doubtful"]) if item["doubtful"] else None,
            "efficiency": f"{item['used'] / item['measured']:.0%}" if item["used"] is not None and item["measured"] else None,
        }
        for item in items
    ]


async def _usage(context: Context) -> None:
    query = {name: context.text(name) for name in ("since", "until", "by", "per", "queue", "user", "namespace")}
    answer = await asked(context, history_path("usage"), query)
    period = () if context.text("per") == "all" else (Column("PERIOD", "period"),)
    columns = (*period, *(GROUPS[each] for each in answer["by"]), *AMOUNTS)
    write(context, Table("UsageRecord", columns, usage_rows(answer["items"]), empty="Nothing was used in that time"))
    if answer["gapSeconds"] and context.text("output") in {"table", "wide", ""}:
        missed = human_duration(answer["gapSeconds"])
        context.say(f"The recorder could not see {missed} of that time; ± tells by how much amounts may be off for it")


def _report(
    name: str,
    short: str,
    kind: str,
    columns: tuple[Column, ...],
    *,
    empty: str,
    row_of: Callable[[Mapping[str, Any]], Row] = lambda item: item,
) -> Leaf:
    """Return the command that lists what the recorder has under `name` in a time. `row_of`: makes a row of an item."""

    async def work(context: Context) -> None:
        answer = await asked(context, history_path(name), {each: context.text(each) for each in ("since", "until")})
        write(context, Table(kind, columns, [*map(row_of, answer["items"])], empty=empty))

    return OwnLeaf(name, short, work, (*WINDOW_FLAGS, *TABLE_FLAGS, RECORDER))


ESTIMATES: Final = (
    Column("QUEUE", "queue"),
    Column("N", "predictions"),
    Column("HELD", "heldShare"),
    Column("WIDTH-P50", "p50WidthSeconds", human_duration),
    Column("ERROR-P50", "p50ErrorSeconds", human_duration),
    Column("BASIS", "basisText"),
    Column("EARLY", "earlyShare", is_wide=True),
    Column("LATE", "lateShare", is_wide=True),
)


def _estimate_row(item: Mapping[str, Any]) -> Row:
    total, basis = item["predictions"], Counter(item["basis"])
    shares = {f"{part}Share": f"{item[part] / total:.0%}" if total else None for part in ("held", "early", "late")}
    sources = ", ".join(f"{name} {count / basis.total():.0%}" for name, count in basis.most_common())
    return {**item, **shares, "basisText": sources or None}


EVICTIONS: Final = (
    Column("FROM-QUEUE", "queue"),
    Column("FOR-QUEUE", "for", absent="?"),
    Column("ACTION", "action", absent="?"),
    *columns("pods", "jobs"),
)


TIME: Final = Column("TIME", "at", lambda text: text.removesuffix("Z").replace("T", " "))
QUEUES: Final = (
    TIME,
    *columns("queue", "resource", "deserved", "allocated", "waiting", "used"),
    Column("EVICTED", "evictions"),
    *columns("guarantee", "capability", "requested", is_wide=True),
)
NODES: Final = (TIME, Column("RESOURCE", "resource"), Column("TOTAL", "total"), Column("AWAY", "away"))
SERIES_FLAGS: Final = (
    Flag("resource", "", "", "only this resource, such as cpu"),
    Flag("step", "", "", "a row for each minute, hour or day; by default minutes for a day, and hours for a quarter"),
    Flag("since", "", "24h", WINDOW_FLAGS[0].text),
    WINDOW_FLAGS[1],
    *TABLE_FLAGS,
    RECORDER,
)


async def _series(context: Context, **more: str) -> Mapping[str, Any]:
    query = {name: context.text(name) for name in ("since", "until", "step", "resource")}
    return await asked(context, history_path("series"), query | more)


async def _queues(context: Context) -> None:
    rows = queue_series_rows(await _series(context, queue=context.text("queue")))
    write(context, Table("QueueSeries", QUEUES, rows, empty="Nothing was recorded of queues in that time"))


async def _nodes(context: Context) -> None:
    rows = node_series_rows(await _series(context))
    write(context, Table("NodeSeries", NODES, rows, empty="Nothing was recorded of nodes in that time"))


CLUSTER_PARTS: Final = ("allocated", "reserved", "idle", "down", "total")
CLUSTER: Final = (
    Column("RESOURCE", "resource"),
    Column("ALLOCATED", "allocatedHours", hours_text),
    Column("RESERVED", "reservedHours", hours_text),
    Column("IDLE", "idleHours", hours_text),
    Column("DOWN", "downHours", hours_text),
    Column("TOTAL", "totalHours", hours_text),
    Column("ALLOCATED%", "share", is_wide=True),
)


def _cluster_row(item: Mapping[str, Any]) -> Row:
    hours = {f"{part}Hours": in_hours(item["resource"], item[part]) for part in CLUSTER_PARTS}
    return {**item, **hours, "share": f"{item['allocated'] / item['total']:.0%}" if item["total"] else None}


USAGE: Final = OwnLeaf(
    "usage",
    "sum up what was asked for and used",
    _usage,
    (
        Flag("by", "", "queue,resource", f"what to sum up by: {', '.join(GROUPS)}"),
        Flag("per", "", "all", "a row for each hour, day, week or month, in UTC, or for all of the time"),
        Flag("queue", "q", "", "only this queue"),
        Flag("user", "u", "", "only this user"),
        Flag("namespace", "n", "", "only this namespace"),
        *WINDOW_FLAGS,
        *TABLE_FLAGS,
        RECORDER,
    ),
)
REPORT: Final = Group(
    "report",
    "report usage and waits",
    (
        USAGE,
        _report(
            "cluster",
            "show how much of the nodes was allocated, reserved, idle and down, in whole hours",
            "ClusterRecord",
            CLUSTER,
            empty="No node was seen in that time",
            row_of=_cluster_row,
        ),
        OwnLeaf(
            "queues",
            "show over time what queues deserved, had, waited for and used, and how many pods they lost by evictions",
            _queues,
            (Flag("queue", "q", "", "only this queue"), *SERIES_FLAGS),
        ),
        OwnLeaf("nodes", "show over time how much of the nodes was away: not ready or cordoned", _nodes, SERIES_FLAGS),
        _report("waits", "show how long Jobs waited, by queue and size", "WaitRecord", WAITS, empty="No Job began in that time"),
        _report(
            "estimates",
            "show how often estimates of starts held, by queue, and how wide they were",
            "EstimateRecord",
            ESTIMATES,
            empty="No Job began in that time whose start was foretold",
            row_of=_estimate_row,
        ),
        _report(
            "evictions",
            "show which queues took room from which queues by evictions",
            "EvictionRecord",
            EVICTIONS,
            empty="No pod was evicted in that time",
            row_of=lambda item: {**item, "for": item["for"] or None, "action": item["action"] or None},
        ),
    ),
)

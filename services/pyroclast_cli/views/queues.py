"""The commands `vcctl queues` and `vcctl budget`: limits, allocation, budgets and waiting Jobs of each queue."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from pyroclast.api.types import JOBS, PODS, QUEUES, ResourceType
from pyroclast.kube.basics.errors import Forbidden
from pyroclast.kube.http.waiting_queries import read_groups
from pyroclast.views.limits import limit_rows
from pyroclast.views.queues import budget_rows, draw_queues, need_rows, queue_rows, signed_hours
from pyroclast.views.readable import hours_text, human_duration
from pyroclast_cli.flags import Context, Failure, Flag
from pyroclast_cli.tree import OwnLeaf
from pyroclast_cli.views.output import FORMATS, TABLE_FLAGS, Column, Table, columns
from pyroclast_cli.views.watching import WATCH, show


def _minute(moment: str) -> str:
    """Return a time to the minute, without its zone."""
    return moment[:16].replace("T", " ")


BUDGET_COLUMNS: Final = (
    Column("QUEUE", "name"),
    *columns("resource", "period"),
    Column("LIMIT", "limitHours", hours_text),
    Column("SPENT", "spentHours", hours_text),
    Column("±", "doubtfulHours", hours_text),
    Column("LEFT", "leftHours", signed_hours),
    Column("RATE/DAY", "hoursPerDay", hours_text),
    Column("ENDS", "ends", _minute),
    Column("USED-UP", "usedUpAt", _minute, is_wide=True),
    *columns("atEnd", "asOf", "problem", is_wide=True),
)


async def _budget(context: Context) -> None:
    async def read() -> Table:
        queues, _ = await context.client.list(QUEUES, label_selector=context.text("selector"))
        if wanted := context.text("queue"):
            queues = [each for each in queues if each["metadata"]["name"] == wanted]
        rows = budget_rows(queues, context.client.now())
        return Table("QueueBudget", BUDGET_COLUMNS, rows, "queue.scheduling.volcano.sh", empty="No queue has a budget")

    await show(context, read, QUEUES)


BUDGET: Final = OwnLeaf(
    "budget",
    "list the budgets of queues and what is left of them",
    _budget,
    (
        Flag("queue", "q", "", "only this queue"),
        Flag("selector", "l", "", "labels of the queues"),
        *TABLE_FLAGS,
        WATCH,
    ),
)


LIMIT_COLUMNS: Final = (
    Column("QUEUE", "name"),
    *columns("person", "class", "limited", "used", "limit"),
    Column("PROBLEM", "problem", is_wide=True),
)


async def _limits(context: Context) -> None:
    if len(context.arguments) > 1:
        raise Failure(f"name one queue, or none for all; there are {len(context.arguments)} names")
    only, namespace = next(iter(context.arguments), ""), context.client.config.namespace

    async def visible(kind: ResourceType) -> list[dict[str, Any]]:
        try:
            return (await context.client.list(kind))[0]
        except Forbidden:
            return (await context.client.list(kind, namespace))[0]

    async def read() -> Table:
        queues, _ = await context.client.list(QUEUES)
        groups, (jobs, pods) = (await read_groups(context.client, namespace))[0], [await visible(kind) for kind in (JOBS, PODS)]
        rows = limit_rows(queues, groups, jobs, pods, only=only)
        return Table("PersonLimit", LIMIT_COLUMNS, rows, "queue.scheduling.volcano.sh", empty="No queue limits each person")

    await show(context, read, QUEUES)


LIMITS: Final = OwnLeaf(
    "limits",
    "list the limits of each person in queues and their use",
    _limits,
    (*TABLE_FLAGS, WATCH),
    takes="[QUEUE]",
)


COLUMNS: Final = (
    Column("QUEUE", "label", plain="name"),
    Column("STATE", "state", drop=8),
    Column("RESOURCE", "resource"),
    Column("GUARANTEE", "guarantee", drop=5),
    Column("DESERVED", "deserved", drop=3),
    Column("ALLOCATED", "allocated"),
    Column("BORROWED", "borrowed", drop=6),
    Column("LIMIT", "limit", drop=4),
    Column("WAITING", "waiting"),
    Column("RUNNING", "running", drop=2),
    Column("OLDEST", "oldestSeconds", human_duration),
    *columns("parent", "weight", is_wide=True),
)


NEED_COLUMNS: Final = (
    Column("QUEUE", "name"),
    Column("NEED", "need"),
    Column("RESOURCE", "resource", drop=4),
    Column("ALLOCATED", "allocated", drop=2),
    Column("DESERVED", "deserved", drop=3),
    Column("SHARE", "share", lambda share: f"{share:.0%}"),
    Column("WAITING", "waiting"),
    Column("RUNNING", "running", drop=6),
    Column("OLDEST", "oldestSeconds", human_duration),
    Column("BUDGET-LEFT", "budgetLeft", lambda left: f"{left:.0%}", drop=5),
)


async def queues_table(context: Context) -> Table:
    """Return the table of each queue's limits, allocation and waiting Jobs."""
    queues, _ = await context.client.list(QUEUES, label_selector=context.text("selector"))
    if wanted := context.text("queue"):
        queues = [each for each in queues if wanted in {each["metadata"]["name"], (each.get("spec") or {}).get("parent")}]
    groups, _ = await read_groups(context.client, context.client.config.namespace)
    if context.is_set("need"):
        needs = need_rows(queues, groups, context.client.now())
        return Table("QueueNeed", NEED_COLUMNS, needs, "queue.scheduling.volcano.sh")
    rows = queue_rows(queues, groups, context.client.now(), is_tree=context.is_set("tree"))
    return Table("QueueShare", COLUMNS, rows, "queue.scheduling.volcano.sh")


async def _queues(context: Context) -> None:
    read = partial(queues_table, context)
    if context.text("output") == "svg":
        context.say(draw_queues("queues", (await read()).rows).document())
        return
    await show(context, read, QUEUES)  # the status of a queue counts its PodGroups, so it changes with them


QUEUES_VIEW: Final = OwnLeaf(
    "queues",
    "list usage, limits and waiting Jobs of each queue",
    _queues,
    (
        Flag("queue", "q", "", "only this queue and those right below it"),
        Flag("selector", "l", "", "labels of the queues"),
        Flag("tree", "", default=False, text="each queue below its parent", kind="bool"),
        Flag("need", "", default=False, text="one row for each queue, with the queues below it, starved first", kind="bool"),
        Flag("output", "o", "table", f"{FORMATS}, svg"),
        *TABLE_FLAGS[1:],
        WATCH,
    ),
)

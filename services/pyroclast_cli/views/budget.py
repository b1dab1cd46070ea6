"""The command `vcctl budget`: the budget of each queue for a period, and the remaining part of it."""

from __future__ import annotations

from typing import Final

from pyroclast.api.types import QUEUES
from pyroclast.views.budgets import budget_rows, signed_hours
from pyroclast.views.readable import hours_text
from pyroclast_cli.context import Context
from pyroclast_cli.flags import Flag
from pyroclast_cli.tree import Leaf
from pyroclast_cli.views.output import TABLE_FLAGS, Column, Table
from pyroclast_cli.views.watching import WATCH, show


def _minute(moment: str) -> str:
    """Return a time to the minute, without its zone."""
    return moment[:16].replace("T", " ")


COLUMNS: Final = (
    Column("QUEUE", "name"),
    Column("RESOURCE", "resource"),
    Column("PERIOD", "period"),
    Column("LIMIT", "limitHours", hours_text),
    Column("SPENT", "spentHours", hours_text),
    Column("±", "doubtfulHours", hours_text),
    Column("LEFT", "leftHours", signed_hours),
    Column("RATE/DAY", "hoursPerDay", hours_text),
    Column("ENDS", "ends", _minute),
    Column("USED-UP", "usedUpAt", _minute, is_wide=True),
    Column("AT-END", "atEnd", is_wide=True),
    Column("AS-OF", "asOf", is_wide=True),
    Column("PROBLEM", "problem", is_wide=True),
)


async def _budget(context: Context) -> None:
    async def read() -> Table:
        queues, _ = await context.client.list(QUEUES, label_selector=context.text("selector"))
        if wanted := context.text("queue"):
            queues = [each for each in queues if each["metadata"]["name"] == wanted]
        rows = budget_rows(queues, context.client.now())
        return Table("QueueBudget", COLUMNS, rows, "queue.scheduling.volcano.sh", empty="No queue has a budget")

    await show(context, read, QUEUES)


BUDGET: Final = Leaf(
    "budget",
    "show what queues may spend in a period, and what is left of it",
    _budget,
    (
        Flag("queue", "q", "", "only this queue"),
        Flag("selector", "l", "", "labels of the queues"),
        *TABLE_FLAGS,
        WATCH,
    ),
    is_ours=True,
)

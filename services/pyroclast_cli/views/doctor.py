"""The command `vcctl doctor`: what is wrong with the services, the nodes and the API server, with what helps."""

from __future__ import annotations

import textwrap
from typing import Final

from pyroclast.kube.http.health_queries import read_health
from pyroclast.views.health import judged
from pyroclast_cli.flags import Context, Flag
from pyroclast_cli.tree import OwnLeaf
from pyroclast_cli.views.output import TABLE_FLAGS, Column, Table, write

WRONG: Final = 1
SIGNS: Final = {"ok": "✔", "wrong": "✘", "unknown": "?"}
COLUMNS: Final = (Column("CHECK", "check"), Column("STATE", "state"), Column("FOUND", "text"), Column("HELP", "help"))
WIDTH: Final = 79


async def _doctor(context: Context) -> int:
    results = judged(await read_health(context.client, may_create=True))
    wrong, unknown = ([each for each in results if each["state"] == state] for state in ("wrong", "unknown"))
    if context.text("output") in {"table", ""}:
        for each in results if context.is_set("all") else (*wrong, *unknown):
            text = each["text"] + (f"; what helps: {each['help']}" if each["state"] == "wrong" else "")
            head, indent = f"{SIGNS[each['state']]} {each['check']:<21} ", " " * 24
            for line in textwrap.wrap(head + (text or "no problem"), WIDTH, subsequent_indent=indent, break_long_words=False):
                context.say(line)
        context.say(f"{len(results)} checks: {len(wrong)} wrong, {len(unknown)} not known")
    else:
        write(context, Table("HealthCheck", COLUMNS, results))
    return WRONG if wrong else 0


DOCTOR: Final = OwnLeaf(
    "doctor",
    "show what is wrong with the services, the nodes and the API server",
    _doctor,
    (*TABLE_FLAGS, Flag("all", "", default=False, text="also the checks that find nothing", kind="bool")),
    statuses=((0, "no check finds a problem"), (WRONG, "a check finds a problem")),
)

"""The commands `vcctl waiting` and `vcctl running`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from pyroclast.api import keys
from pyroclast.api.types import JOB_FLOWS, JOBS, PODS
from pyroclast.views.documents import Row
from pyroclast.views.explanation import listed_start
from pyroclast.views.groups import native_waiter
from pyroclast.views.jobs import Group
from pyroclast.views.readable import as_text, clock_text, human_duration, start_text
from pyroclast.views.rows import AT_WORK, running_native_rows, running_rows, waiting_rows
from pyroclast_cli.context import Context
from pyroclast_cli.servers import BOARD, orders
from pyroclast_cli.tree import Leaf
from pyroclast_cli.views.output import TABLE_FLAGS, Column, Table, with_kind
from pyroclast_cli.views.reading import entries_that_wait, jobs_of, natives_of
from pyroclast_cli.views.scope import SCOPE_FLAGS, namespaces_of
from pyroclast_cli.views.watching import WATCH, show

MOST_QUEUES: Final = 8
MOST_IN_QUEUE: Final = 1000
"""The scheduler is asked for the order of so many queues and Jobs. Others show what it wrote on their PodGroups."""

REFERENCE: Final = "vcjob.batch.volcano.sh"
WAITING_COLUMNS: Final = (
    Column("POS", "position"),
    Column("NAMESPACE", "namespace"),
    Column("NAME", "name"),
    Column("QUEUE", "queue"),
    Column("PRIORITY", "priority"),
    Column("PODS", "pods"),
    Column("ASKS", "asks", as_text),
    Column("WAITED", "waitedSeconds", human_duration),
    Column("CODE", "code"),
    Column("START", "start", start_text, absent="?"),
    Column("KIND", "object", is_wide=True),
    Column("WHY", "sentence", is_wide=True),
)
RUNNING_COLUMNS: Final = (
    Column("NAMESPACE", "namespace"),
    Column("NAME", "name"),
    Column("QUEUE", "queue"),
    Column("PODS", "pods"),
    Column("READY", "ready"),
    Column("NODES", "nodes"),
    Column("ASKS", "asks", as_text),
    Column("ELAPSED", "elapsedSeconds", human_duration),
    Column("ENDS", "ends", lambda ends: f"~{clock_text(ends)}"),
    Column("HEALTH", "health"),
    Column("STATE", "phase", is_wide=True),
    Column("RETRIES", "retries", is_wide=True),
    Column("KIND", "object", is_wide=True),
)


def with_order(rows: Iterable[Row], order: Iterable[Row]) -> list[Row]:
    """Return the rows with position and start from the scheduler's order, which is newer than what it wrote on the PodGroups."""
    live = {(each["object"], each["namespace"], each["name"]): each for each in order}
    return [
        row
        if (place := live.get((row["object"], row["namespace"], row["name"]))) is None
        # a controller may have found a cause of an earlier stage, of which the scheduler does not know
        else {**row, "position": place["position"], **({} if row["never"] else {"start": listed_start(place)})}
        for row in rows
    ]


async def waiting_table(context: Context) -> Table:
    """Return the table of waiting Jobs."""
    now = context.client.now()
    rows = waiting_rows((each.waiter for each in await jobs_of(context)), now)
    natives = waiting_rows(filter(None, map(native_waiter, await _natives_of(context))), now)
    # labels, queue and user of an uncreated Job are unknown
    is_every = not any(context.text(flag) for flag in ("selector", "queue", "user"))
    if is_every and context.text("output") != "name":  # the form `name` only prints existing objects
        rows += waiting_rows(await entries_that_wait(context.client, namespaces_of(context)), now)
    queues = sorted({str(row["queue"]) for row in (*rows, *natives) if row["position"] is not None})
    order = await orders(context, queues, most=MOST_IN_QUEUE) if len(queues) <= MOST_QUEUES else ()
    shown = with_order([*rows, *natives], order)
    return Table("WaitingJob", with_kind(WAITING_COLUMNS, natives), shown, REFERENCE, "No Job waits")


async def running_table(context: Context) -> Table:
    """Return the table of running Jobs."""
    jobs = await jobs_of(context)
    is_any = any(each.phase in AT_WORK for each in jobs)
    pods = (await context.client.list(PODS, namespaces_of(context), label_selector=keys.JOB_NAME))[0] if is_any else []
    rows, natives = running_rows(jobs, pods, context.client.now()), await _running_natives(context)
    return Table("RunningJob", with_kind(RUNNING_COLUMNS, natives), [*rows, *natives], REFERENCE, "No Job runs")


async def _waiting(context: Context) -> None:
    await show(context, partial(waiting_table, context), JOBS, JOB_FLOWS, namespace=namespaces_of(context))


async def _running(context: Context) -> None:
    await show(context, partial(running_table, context), JOBS, namespace=namespaces_of(context))


async def _natives_of(context: Context) -> list[Group]:
    """Return the native PodGroups that the flags select. Empty for the form `name`, which prints names of Jobs."""
    return [] if context.text("output") == "name" else await natives_of(context)


async def _running_natives(context: Context) -> list[Row]:
    groups = await _natives_of(context)
    if not groups:
        return []  # reading all pods would cost too much for a list
    pods, _ = await context.client.list(PODS, namespaces_of(context), label_selector=f"!{keys.JOB_NAME}")
    return running_native_rows(groups, pods, context.client.now())


WAITING: Final = Leaf(
    "waiting", "list the Jobs that wait, and why", _waiting, (*SCOPE_FLAGS, *TABLE_FLAGS, BOARD, WATCH), is_ours=True
)
RUNNING: Final = Leaf("running", "list the Jobs that run", _running, (*SCOPE_FLAGS, *TABLE_FLAGS, WATCH), is_ours=True)

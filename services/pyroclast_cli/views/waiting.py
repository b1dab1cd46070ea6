"""The commands `vcctl waiting`, `vcctl running` and `vcctl order`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from pyroclast.api import keys
from pyroclast.api.types import JOB_FLOWS, JOBS, POD_GROUPS, PODS, QUEUES, Key
from pyroclast.kube.basics.errors import Forbidden
from pyroclast.kube.http.servers import whoami
from pyroclast.kube.http.waiting_queries import read_groups
from pyroclast.views.contract import Row
from pyroclast.views.explanation import listed_start
from pyroclast.views.groups import native_waiter, stored_order
from pyroclast.views.jobs import Group, Waiter
from pyroclast.views.readable import as_text, clock_text, human_duration, start_text
from pyroclast.views.rows import AT_WORK, job_rows, running_group_rows, running_rows, waiting_rows
from pyroclast_cli.flags import Context, Failure, Flag
from pyroclast_cli.servers import BOARD, explained, orders
from pyroclast_cli.tree import OwnLeaf
from pyroclast_cli.views.output import TABLE_FLAGS, Column, Table, columns, with_kind
from pyroclast_cli.views.scope import SCOPE_FLAGS, entries_that_wait, existing, jobs_of, namespaces_of, natives_of
from pyroclast_cli.views.watching import WATCH, show

MOST: Final = 1000
HEAD: Final = (
    Column("POS", "position"),
    *columns("namespace", "name"),
    Column("PRIORITY", "priority", lambda value: f"{value:g}"),
)
TAIL: Final = (
    Column("WAITED", "waitedSeconds", human_duration),
    Column("ASKS", "asks", as_text),
    Column("CODE", "code"),
    Column("START", "start", start_text, absent="?"),
)


def _from_scheduler(answer: Row) -> tuple[list[Row], tuple[Column, ...]]:
    """Return the scheduler's rows, and a column for each plugin that orders the jobs."""
    rows: list[Row] = []
    plugins: dict[str, None] = {}
    for each in answer.get("items") or ():
        # the priority has a column of its own
        ranks = {name: rank for name, rank in (each.get("ranks") or {}).items() if name != "priority"}
        plugins |= dict.fromkeys(ranks)
        rows.append({**each, **ranks, "start": listed_start(each), "namespace": each["namespace"] or "(hidden)"})
    return rows, tuple(
        Column(name.upper(), name, lambda rank: rank if isinstance(rank, str) else f"{rank:.4g}") for name in plugins
    )


async def _order(context: Context) -> None:
    queue = context.text("queue") or (context.arguments[0] if len(context.arguments) == 1 else "")
    queue = queue.removeprefix("queue/")
    if not queue:
        raise Failure("name a queue: vcctl order -q QUEUE")
    with suppress(Forbidden):  # the waiting Jobs may be known without the queue
        await existing(context, QUEUES, Key("", queue), f'queue "{queue}"')

    async def read() -> Table:
        now = context.client.now()
        limit = min(context.number("limit") or MOST, MOST)
        answer = await explained(context, "queues", queue, query={"limit": str(max(1, limit))})
        if answer is not None:
            rows, plugins = _from_scheduler(answer)
        else:
            groups, _ = await read_groups(context.client, context.client.config.namespace)
            rows, plugins = [*stored_order(groups, queue, now)[0]], ()
        columns = (*HEAD, *plugins, *TAIL)
        return Table("WaitingPlace", columns, rows, "vcjob.batch.volcano.sh", f"No Job waits in queue {queue}")

    await show(context, read, POD_GROUPS)


ORDER: Final = OwnLeaf(
    "order",
    "list the waiting Jobs of a queue in the order of the scheduler",
    _order,
    (Flag("queue", "q", "", "the queue"), *TABLE_FLAGS, BOARD, WATCH),
    takes="[QUEUE]",
)


MOST_QUEUES: Final = 8
MOST_IN_QUEUE: Final = 1000
"""The scheduler is asked for the order of so many queues and Jobs. Others show what it wrote on their PodGroups."""

REFERENCE: Final = "vcjob.batch.volcano.sh"
WAITING_COLUMNS: Final = (
    Column("POS", "position", drop=3),
    Column("NAMESPACE", "namespace", drop=6),
    Column("NAME", "name"),
    Column("QUEUE", "queue", drop=4),
    Column("PRIORITY", "priority", drop=8),
    Column("PODS", "pods", drop=5),
    Column("ASKS", "asks", as_text, drop=7),
    Column("WAITED", "waitedSeconds", human_duration, drop=2),
    Column("CODE", "code"),
    Column("START", "start", start_text, absent="?"),
    Column("KIND", "object", is_wide=True, drop=9),
    Column("WHY", "sentence", is_wide=True),
)
RUNNING_COLUMNS: Final = (
    Column("NAMESPACE", "namespace", drop=6),
    Column("NAME", "name"),
    Column("QUEUE", "queue", drop=4),
    Column("PODS", "pods", drop=3),
    Column("READY", "ready", drop=2),
    Column("NODES", "nodes", drop=5),
    Column("ASKS", "asks", as_text, drop=7),
    Column("ELAPSED", "elapsedSeconds", human_duration),
    Column("ENDS", "ends", lambda ends: f"~{clock_text(ends)}"),
    Column("HEALTH", "health"),
    Column("STATE", "phase", is_wide=True),
    Column("RETRIES", "retries", is_wide=True),
    Column("KIND", "object", is_wide=True, drop=9),
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
    jobs, plain = await jobs_of(context)
    rows = waiting_rows(jobs, now)
    others = plain if context.text("output") != "name" else ()
    natives = waiting_rows([*filter(None, map(native_waiter, await _natives_of(context))), *others], now)
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
    jobs, plain = await jobs_of(context)
    is_any = any(each.phase in AT_WORK for each in jobs)
    pods = (await context.client.list(PODS, namespaces_of(context), label_selector=keys.JOB_NAME))[0] if is_any else []
    rows, natives = running_rows(jobs, pods, context.client.now()), await _running_groups(context, plain)
    return Table("RunningJob", with_kind(RUNNING_COLUMNS, natives), [*rows, *natives], REFERENCE, "No Job runs")


async def _waiting(context: Context) -> None:
    await show(context, partial(waiting_table, context), JOBS, JOB_FLOWS, namespace=namespaces_of(context))


async def _running(context: Context) -> None:
    await show(context, partial(running_table, context), JOBS, namespace=namespaces_of(context))


async def _natives_of(context: Context) -> list[Group]:
    """Return the native PodGroups that the flags select. Empty for the form `name`, which prints names of Jobs."""
    return [] if context.text("output") == "name" else await natives_of(context)


async def _running_groups(context: Context, plain: Sequence[Waiter]) -> list[Row]:
    """Return the PodGroups without Jobs that run. Empty for the form `name`."""
    groups = [*map(native_waiter, await _natives_of(context)), *plain]
    if not groups or context.text("output") == "name":
        return []  # reading all pods would cost too much for a list
    pods, _ = await context.client.list(PODS, namespaces_of(context), label_selector=f"!{keys.JOB_NAME}")
    return running_group_rows(groups, pods, context.client.now())


WAITING: Final = OwnLeaf(
    "waiting", "list the waiting Jobs and their causes", _waiting, (*SCOPE_FLAGS, *TABLE_FLAGS, BOARD, WATCH)
)
RUNNING: Final = OwnLeaf("running", "list the running Jobs", _running, (*SCOPE_FLAGS, *TABLE_FLAGS, WATCH))


JOBS_COLUMNS: Final = (
    Column("NAMESPACE", "namespace", drop=4),
    Column("NAME", "name"),
    Column("QUEUE", "queue", drop=3),
    Column("STATE", "phase"),
    Column("READY", "ready", drop=2),
    Column("PODS", "pods", drop=5),
    Column("SINCE", "sinceSeconds", human_duration),
    Column("USER", "user", is_wide=True),
    Column("WHY", "note", is_prose=True),
)


async def jobs_table(context: Context, user: str = "") -> Table:
    """Return the table of Jobs in every state, those that end last first among the ended. `user`: only the Jobs of this user."""
    rows = job_rows((await jobs_of(context))[0], context.client.now())
    nothing = f"There is no Job of {user}" if user else "There is no Job"
    return Table("JobState", JOBS_COLUMNS, [row for row in rows if user in {"", row["user"]}], REFERENCE, nothing)


async def _jobs(context: Context, user: str = "") -> None:
    await show(context, partial(jobs_table, context, user), JOBS, namespace=namespaces_of(context))


async def _my(context: Context) -> None:
    me = await whoami(context.client)
    is_everywhere = not context.text("namespace") or context.is_set("all-namespaces")
    try:
        await _jobs(replace(context, values={**context.values, "all-namespaces": is_everywhere}), me)
    except Forbidden:  # who may not list everywhere sees the own namespace
        await _jobs(replace(context, values={**context.values, "all-namespaces": False}), me)


JOBS_VIEW: Final = OwnLeaf("jobs", "list Jobs in every state, and where each stands", _jobs, (*SCOPE_FLAGS, *TABLE_FLAGS, WATCH))
MY: Final = OwnLeaf("my", "list your own Jobs in all namespaces, and where each stands", _my, (*SCOPE_FLAGS, *TABLE_FLAGS, WATCH))

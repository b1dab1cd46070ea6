"""The command `vcctl order`: the waiting Jobs of a queue, in the order in which the scheduler enqueues them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from pyroclast.api.types import POD_GROUPS, QUEUES, Key
from pyroclast.api.waiting_codes import NEVER
from pyroclast.kube.basics.errors import Forbidden
from pyroclast.kube.http.waiting_queries import read_groups
from pyroclast.views.documents import Row
from pyroclast.views.explanation import listed_start
from pyroclast.views.groups import position_of, said_of, start_of
from pyroclast.views.jobs import WAITING_PHASES, Group, seconds_since
from pyroclast.views.readable import as_text, human_duration, main_resources, start_text
from pyroclast_cli.context import Context, Failure
from pyroclast_cli.flags import Flag
from pyroclast_cli.servers import BOARD, explained
from pyroclast_cli.tree import Leaf
from pyroclast_cli.views.output import TABLE_FLAGS, Column, Table
from pyroclast_cli.views.scope import existing
from pyroclast_cli.views.watching import WATCH, show

MOST: Final = 1000
HEAD: Final = (
    Column("POS", "position"),
    Column("NAMESPACE", "namespace"),
    Column("NAME", "name"),
    Column("PRIORITY", "priority", lambda value: f"{value:g}"),
)
TAIL: Final = (
    Column("WAITED", "waitedSeconds", human_duration),
    Column("ASKS", "asks", as_text),
    Column("CODE", "code"),
    Column("START", "start", start_text, absent="?"),
)


def stored_order(groups: Sequence[Group], queue: str, now: float) -> list[Row]:
    """Return the waiting Jobs of a queue by the positions that the scheduler wrote last; without these, by priority and age."""
    waiting = [group for group in groups if _queue(group) == queue and _phase(group) in WAITING_PHASES]
    places = {group["metadata"]["uid"]: position_of(group) for group in waiting}
    has_places = None not in places.values()
    waiting.sort(key=lambda group: (places[group["metadata"]["uid"]] if has_places else 0, *_rank(group)))
    rows: list[Row] = []
    for at, group in enumerate(waiting, 1):
        owner: dict[str, Any] = next(iter(group["metadata"].get("ownerReferences") or ()), {})
        said = said_of(group)
        rows.append(
            {
                "position": at,
                "namespace": group["metadata"]["namespace"],
                "name": owner.get("name") or group["metadata"]["name"],
                "priority": (group.get("spec") or {}).get("priority", 0),
                "waitedSeconds": seconds_since(group["metadata"]["creationTimestamp"], now),
                "asks": main_resources((group.get("spec") or {}).get("minResources") or {}),
                "code": said.get("code"),
                "start": NEVER if said.get("never") else start_of(group),
            }
        )
    return rows


def _rank(group: Group) -> tuple[int, str, str, str]:
    metadata, priority = group["metadata"], int((group.get("spec") or {}).get("priority") or 0)
    return -priority, metadata["creationTimestamp"], metadata["namespace"], metadata["name"]


def _queue(group: Group) -> str:
    return str((group.get("spec") or {}).get("queue") or "default")


def _phase(group: Group) -> str:
    return str((group.get("status") or {}).get("phase", ""))


def _from_scheduler(answer: Row) -> tuple[list[Row], tuple[Column, ...]]:
    """Return the scheduler's rows, and a column for each plugin that orders the jobs."""
    rows: list[Row] = []
    plugins: dict[str, None] = {}
    for each in answer.get("items") or ():
        # the priority has a column of its own
        ranks = {name: rank for name, rank in (each.get("ranks") or {}).items() if name != "priority"}
        plugins |= dict.fromkeys(ranks)
        rows.append({**each, **ranks, "start": listed_start(each), "namespace": each["namespace"] or "(hidden)"})
    return rows, tuple(Column(name.upper(), name, _short) for name in plugins)


def _short(rank: float | str) -> str:
    return rank if isinstance(rank, str) else f"{rank:.4g}"


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
            rows, plugins = stored_order(groups, queue, now), ()
        columns = (*HEAD, *plugins, *TAIL)
        return Table("WaitingPlace", columns, rows, "vcjob.batch.volcano.sh", f"No Job waits in queue {queue}")

    await show(context, read, POD_GROUPS)


ORDER: Final = Leaf(
    "order",
    "list who waits in a queue, the first one first",
    _order,
    (Flag("queue", "q", "", "the queue"), *TABLE_FLAGS, BOARD, WATCH),
    takes="[QUEUE]",
    is_ours=True,
)

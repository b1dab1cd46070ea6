"""The commands `vcctl queue create|delete|operate|list|get` and `vqueues`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast.api.enums import Action
from pyroclast.api.types import QUEUES, Key
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.http.waiting_queries import list_groups
from pyroclast_cli.compatible.commands import issue, required_key
from pyroclast_cli.flags import Context, Failure, Flag
from pyroclast_cli.tree import Leaf, original_group
from pyroclast_cli.views.output import padded

NAME: Final = Flag("name", "n", "", "the name of queue")
PHASES: Final = ("Inqueue", "Pending", "Running", "Unknown", "Completed")
COLUMNS: Final = ("Name", "Weight", "State", "Parent", *PHASES)
SHORT_COLUMNS: Final = ("Name", "Weight", "State", "Inqueue", "Pending", "Running", "Unknown")
WIDTHS: Final = (25, *(8,) * 8)


def queue_table(queues: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of `vcctl queue list`. The counts are the numbers of PodGroups in each queue by phase."""
    counts = Counter(((each.get("spec") or {}).get("queue", ""), (each.get("status") or {}).get("phase", "")) for each in groups)
    rows = [list(COLUMNS)]
    for queue in queues:
        name, spec, status = queue["metadata"]["name"], queue.get("spec") or {}, queue.get("status") or {}
        own = [str(counts[name, phase]) for phase in PHASES]
        rows.append([name, str(spec.get("weight", 0)), status.get("state", ""), spec.get("parent", ""), *own])
    return padded(rows, WIDTHS)


async def _create(context: Context) -> None:
    body = {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "metadata": {"name": context.text("name")},
        "spec": {"guarantee": {}, "weight": context.number("weight")},
        "status": {"state": context.text("state")},
    }
    await context.client.create(QUEUES, body)


async def _delete(context: Context) -> None:
    await context.client.delete(QUEUES, required_key(context, "queue name must be specified"))


async def _operate(context: Context) -> None:
    key = required_key(context, "queue name must be specified")
    action, weight = context.text("action"), context.number("weight")
    match action:
        case "update":
            if weight == 0:
                raise Failure(f"when update queue {key.name}, weight must be specified, the value must be greater than 0")
            from pyroclast.kube.http.client import PatchKind  # noqa: PLC0415 - only commands with a cluster need it

            await context.client.patch(QUEUES, key, {"spec": {"weight": weight}}, PatchKind.MERGE)
        case "open":
            await issue(context, QUEUES, key, Action.OPEN_QUEUE, namespace="default")
        case "close":
            await issue(context, QUEUES, key, Action.CLOSE_QUEUE, namespace="default")
        case "":
            raise Failure("action can not be null")
        case _:
            raise Failure(f"action {action} invalid, valid actions are open, close and update")


async def _list(context: Context) -> None:
    queues, _ = await context.client.list(QUEUES)
    if not queues:
        context.say("No resources found")
        return
    await _print_counted(context, queues, "podgroups")


async def _get(context: Context) -> None:
    key = required_key(context, "name is mandatory to get the particular queue details")
    queue = await context.client.get(QUEUES, key)
    await _print_counted(context, [queue], f"podgroup for queue {key.name}")


async def _print_counted(context: Context, queues: Sequence[Mapping[str, Any]], what: str) -> None:
    try:
        groups = await list_groups(context.client)
    except KubeError as error:
        raise Failure(f"failed to list {what} with err: {error}") from error
    _print(context, queue_table(queues, groups))


async def _vqueues(context: Context) -> None:
    name = context.text("name")
    queues = [await context.client.get(QUEUES, Key("", name))] if name else (await context.client.list(QUEUES))[0]
    if not queues:
        context.say("No resources found")
        return
    rows = [list(SHORT_COLUMNS)]
    for queue in queues:
        status = queue.get("status") or {}
        counts = [str(status.get(field.lower(), 0)) for field in SHORT_COLUMNS[3:]]
        rows.append(
            [queue["metadata"]["name"], str((queue.get("spec") or {}).get("weight", 0)), status.get("state", ""), *counts]
        )
    _print(context, padded(rows, WIDTHS[: len(SHORT_COLUMNS)]))


def _print(context: Context, lines: Sequence[str]) -> None:
    for line in lines:
        context.say(line)


QUEUE: Final = original_group(
    "queue",
    "Queue Operations",
    Leaf(
        "create",
        "creates queue",
        _create,
        (
            Flag("name", "n", "test", "the name of queue"),
            Flag("weight", "w", 1, "the weight of the queue", "int32"),
            Flag("state", "S", "Open", "the state of queue"),
        ),
    ),
    Leaf("delete", "delete queue", _delete, (NAME,)),
    Leaf(
        "operate",
        "operate queue",
        _operate,
        (
            NAME,
            Flag("weight", "w", 0, "the weight of the queue", "int32"),
            Flag("action", "a", "", "operate action to queue, valid actions are open, close, update"),
        ),
    ),
    Leaf("list", "lists all the queue", _list),
    Leaf("get", "get a queue", _get, (NAME,)),
)
vqueues: Final = Leaf(
    "vqueues", "view queue information", _vqueues, (NAME,), long="Show one queue by its name, or all queues of the cluster."
)

"""The commands `vcctl nodes` and `vcctl doctor`: the free resources of nodes, when some have room at once, and what is wrong."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec

from pyroclast.api import keys
from pyroclast.api.enums import MemberType
from pyroclast.api.records import HyperNode, reading
from pyroclast.api.types import HYPER_NODES, NODES, PODS
from pyroclast.kube.http.health_queries import read_health
from pyroclast.kube.http.waiting_queries import read_groups
from pyroclast.lifecycle.hypernodes.discovered import member_names
from pyroclast.lifecycle.times import format_time
from pyroclast.resources.pods import effective
from pyroclast.resources.quantity import Quantity
from pyroclast.views.health import judged
from pyroclast.views.nodes import first_hole, free_steps, label_groups, node_rows, read_hole, reservations_of, state_of
from pyroclast.views.readable import amount, as_text, clock_text, human_duration, readable
from pyroclast_cli.flags import Context, Failure, Flag
from pyroclast_cli.servers import BOARD, explained
from pyroclast_cli.tree import OwnLeaf
from pyroclast_cli.views.output import TABLE_FLAGS, Column, Table, columns, write
from pyroclast_cli.views.watching import WATCH, show


def tier_groups(hyper_nodes: Iterable[Mapping[str, Any]], nodes: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """Return `tier N: NAME` of all HyperNodes that contain each node, by node name. `nodes` maps node names to labels."""
    records = [reading.convert(each, HyperNode) for each in hyper_nodes]
    tops = {each.metadata.name: each for each in records}
    inside = {name: _nodes_of(each, tops, nodes) for name, each in tops.items()}
    groups: dict[str, list[str]] = {name: [] for name in nodes}
    for hyper_node, names in inside.items():
        for name in names & nodes.keys():
            groups[name].append(f"tier {tops[hyper_node].spec.tier}: {hyper_node}")
    return groups


def _nodes_of(top: HyperNode, by_name: Mapping[str, HyperNode], nodes: Mapping[str, Mapping[str, str]]) -> set[str]:
    names: set[str] = set()
    seen: set[str] = set()
    todo = [top]
    while todo:
        one = todo.pop()
        if one.metadata.name in seen:  # HyperNodes that contain each other
            continue
        seen.add(one.metadata.name)
        for member in one.spec.members:
            alone = msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, members=(member,)))
            if member.type is MemberType.NODE:
                names |= member_names(alone, nodes)
            else:
                below = member_names(alone, {name: each.metadata.labels for name, each in by_name.items()})
                todo += [by_name[name] for name in below if name in by_name]
    return names


TIER: Final = "tier"
NOT_KNOWN: Final = 3
COLUMNS: Final = (
    *columns("group", "state", "nodes"),
    Column("CPU-FREE", "cpuFree", lambda value: readable("cpu", value)),
    Column("MEMORY-FREE", "memoryFree", lambda value: readable("memory", value), drop=3),
    Column("GPU-FREE", "devicesFree", as_text),
    Column("LARGEST-FREE", "largestFree", as_text, drop=6),
    Column("PODS", "pods", drop=4),
    Column("RESERVED-FOR", "reservedFor", ",".join, drop=2),
    Column("NAMES", "names", ",".join, is_wide=True),
)


async def nodes_table(context: Context) -> Table:
    """Return the table of the nodes' free resources."""
    client, by = context.client, context.text("by")
    nodes, _ = await client.list(NODES, label_selector=context.text("selector"))
    pods, _ = await client.list(PODS, field_selector="status.phase!=Succeeded,status.phase!=Failed")
    reserved = reservations_of((await read_groups(client, client.config.namespace))[0])
    groups: Mapping[str, Sequence[str]] | None = None
    if by == TIER:
        groups = await _tiers(context, nodes)
    elif by:
        groups = label_groups(nodes, by)
    return Table("NodeGroup", COLUMNS, node_rows(nodes, pods, groups, reserved), "node", "No nodes", names="names")


async def _hole(context: Context, text: str) -> int:
    """Print when so many nodes have so much of a resource free at once, if Jobs end as estimated and no other comes first."""
    wanted, client = read_hole(text), context.client
    if wanted is None:
        raise Failure(f'--hole: "{text}" is no number of nodes and amount on each, such as 4x8')
    nodes, _ = await client.list(NODES, label_selector=context.text("selector"))
    pods, _ = await client.list(PODS, field_selector="status.phase!=Succeeded,status.phase!=Failed")
    reserved = reservations_of((await read_groups(client, client.config.namespace))[0])
    ready = [each for each in nodes if state_of(each) == "Ready" and each["metadata"]["name"] not in reserved]
    offers = [(each.get("status") or {}).get("allocatable") or {} for each in ready]
    devices = sorted({name for each in offers for name in each if "/" in name and amount(each[name])})
    resource = context.text("resource") or next(iter(devices), "cpu")
    answer = await explained(context, "ends") or {"items": ()}
    ends = {(each["namespace"], each["name"]): datetime.fromisoformat(each["until"]).timestamp() for each in answer["items"]}
    free = {each["metadata"]["name"]: amount(offer.get(resource, 0)) for each, offer in zip(ready, offers, strict=True)}
    released: dict[str, list[tuple[float | None, Quantity]]] = {}
    for pod in pods:
        meta, name = pod["metadata"], str((pod.get("spec") or {}).get("nodeName"))
        held = effective(pod["spec"], "requests").get(resource) if name in free else None
        if held:
            free[name] -= held
            job = (meta.get("labels") or {}).get(keys.JOB_NAME) or (meta.get("annotations") or {}).get(keys.GROUP_NAME, "")
            released.setdefault(name, []).append((ends.get((meta["namespace"], job)), held))
    now = client.now()
    seconds = first_hole((free_steps(left, released.get(name, ()), now) for name, left in free.items()), *wanted)
    when = "not known" if seconds is None else "now" if seconds == 0 else f"in {human_duration(seconds)}"
    at = f", at {clock_text(format_time(now + seconds))}, if Jobs end as estimated and no other comes first" if seconds else ""
    context.say(f"{wanted[0]} nodes with {wanted[1]} {resource} free on each: {when}{at}")
    if unknown := sum(until is None for each in released.values() for until, _ in each):
        context.say(f"the ends of {unknown} pods are not known: declare spec.runningEstimate")
    return 0 if seconds is not None else NOT_KNOWN


async def _nodes(context: Context) -> int | None:
    if text := context.text("hole"):
        return await _hole(context, text)
    await show(context, partial(nodes_table, context), NODES, PODS)
    return None


async def _tiers(context: Context, nodes: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the HyperNodes that contain each node, as `tier 1: NAME`."""
    hyper_nodes, _ = await context.client.list(HYPER_NODES)
    return tier_groups(hyper_nodes, {node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in nodes})


NODES_VIEW: Final = OwnLeaf(
    "nodes",
    "list the free resources of nodes",
    _nodes,
    (
        Flag("by", "", "", "one row per value of this label of the nodes, or per HyperNode with `tier`"),
        Flag("selector", "l", "", "labels of the nodes"),
        Flag("hole", "", "", "say when so many nodes have so much free at once, such as 4x8"),
        Flag("resource", "", "", "the resource of --hole, by default the first device of the nodes, else cpu"),
        *TABLE_FLAGS,
        WATCH,
        BOARD,
    ),
    statuses=((0, "the nodes are listed, or there is such a hole"), (NOT_KNOWN, "by the known ends there is no such hole")),
)


WRONG: Final = 1
SIGNS: Final = {"ok": "✔", "wrong": "✘", "unknown": "?"}
CHECK_COLUMNS: Final = (Column("CHECK", "check"), Column("STATE", "state"), Column("FOUND", "text"), Column("HELP", "help"))
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
        write(context, Table("HealthCheck", CHECK_COLUMNS, results))
    return WRONG if wrong else 0


DOCTOR: Final = OwnLeaf(
    "doctor",
    "show what is wrong with the services, the nodes and the API server",
    _doctor,
    (*TABLE_FLAGS, Flag("all", "", default=False, text="also the checks that find nothing", kind="bool")),
    statuses=((0, "no check finds a problem"), (WRONG, "a check finds a problem")),
)

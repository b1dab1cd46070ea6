"""The command `vcctl nodes`: the free resources of nodes. Equal nodes share a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from pyroclast.api.enums import MemberType
from pyroclast.api.records import HyperNode, reading
from pyroclast.api.types import HYPER_NODES, NODES, PODS
from pyroclast.kube.http.waiting_queries import read_groups
from pyroclast.lifecycle.hypernodes.discovered import member_names
from pyroclast.views.nodes import label_groups, node_rows, reservations_of
from pyroclast.views.readable import as_text, readable
from pyroclast_cli.flags import Context, Flag
from pyroclast_cli.tree import OwnLeaf
from pyroclast_cli.views.output import TABLE_FLAGS, Column, Table
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
COLUMNS: Final = (
    Column("GROUP", "group"),
    Column("STATE", "state"),
    Column("NODES", "nodes"),
    Column("CPU-FREE", "cpuFree", lambda value: readable("cpu", value)),
    Column("MEMORY-FREE", "memoryFree", lambda value: readable("memory", value)),
    Column("GPU-FREE", "devicesFree", as_text),
    Column("LARGEST-FREE", "largestFree", as_text),
    Column("PODS", "pods"),
    Column("RESERVED-FOR", "reservedFor", ",".join),
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


async def _nodes(context: Context) -> None:
    await show(context, partial(nodes_table, context), NODES, PODS)


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
        *TABLE_FLAGS,
        WATCH,
    ),
)

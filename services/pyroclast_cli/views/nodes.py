"""The command `vcctl nodes`: the free resources of nodes. Equal nodes share a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from pyroclast.api.types import HYPER_NODES, NODES, PODS
from pyroclast.kube.http.waiting_queries import read_groups
from pyroclast.views.nodes import label_groups, node_rows, reservations_of
from pyroclast.views.readable import as_text, readable
from pyroclast_cli.context import Context
from pyroclast_cli.flags import Flag
from pyroclast_cli.tree import Leaf
from pyroclast_cli.views.output import TABLE_FLAGS, Column, Table
from pyroclast_cli.views.watching import WATCH, show

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
    from pyroclast_cli.views.tiers import tier_groups  # noqa: PLC0415 - imports records, which no other command needs

    hyper_nodes, _ = await context.client.list(HYPER_NODES)
    return tier_groups(hyper_nodes, {node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in nodes})


NODES_VIEW: Final = Leaf(
    "nodes",
    "list what is free on the nodes",
    _nodes,
    (
        Flag("by", "", "", "one row per value of this label of the nodes, or per HyperNode with `tier`"),
        Flag("selector", "l", "", "labels of the nodes"),
        *TABLE_FLAGS,
        WATCH,
    ),
    is_ours=True,
)

"""`vcctl nodes`: what is free on the nodes; nodes that are alike share a row."""

from __future__ import annotations

from typing import Final

from pyroclast.api.types import NODES, PODS
from pyroclast.views.amounts import as_text, readable
from pyroclast.views.nodes import node_rows
from pyroclast_cli.context import Context
from pyroclast_cli.flags import Flag
from pyroclast_cli.tree import Leaf
from pyroclast_cli.views.output import TABLE_FLAGS, Column, Table
from pyroclast_cli.views.watching import WATCH, show

__all__ = ["NODES_VIEW"]

COLUMNS: Final = (
    Column("GROUP", "group"),
    Column("STATE", "state"),
    Column("NODES", "nodes"),
    Column("CPU-FREE", "cpuFree", lambda value: readable("cpu", value)),
    Column("MEMORY-FREE", "memoryFree", lambda value: readable("memory", value)),
    Column("DEVICES-FREE", "devicesFree", as_text),
    Column("LARGEST-FREE", "largestFree", as_text),
    Column("PODS", "pods"),
    Column("NAMES", "names", ",".join, is_wide=True),
)


async def _nodes(context: Context) -> None:
    async def read() -> Table:
        nodes, _ = await context.client.list(NODES, label_selector=context.text("selector"))
        pods, _ = await context.client.list(PODS, field_selector="status.phase!=Succeeded,status.phase!=Failed")
        return Table("NodeGroup", COLUMNS, node_rows(nodes, pods, context.text("by")), "node")

    await show(context, read, NODES, PODS)


NODES_VIEW: Final = Leaf(
    "nodes",
    "list what is free on the nodes",
    _nodes,
    (
        Flag("by", "", "", "one row per value of this label of the nodes"),
        Flag("selector", "l", "", "labels of the nodes"),
        *TABLE_FLAGS,
        WATCH,
    ),
    is_ours=True,
)

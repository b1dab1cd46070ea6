"""Draws queues and flows from the rows of the tables that commands print."""

from __future__ import annotations

from collections.abc import Iterable

from pyroclast.pictures.flow_graph import flow_graph
from pyroclast.pictures.layers import FlowNode
from pyroclast.pictures.queue_bars import QueueBar, queue_bars
from pyroclast.pictures.svg import Picture
from pyroclast.views.documents import Row
from pyroclast.views.readable import amount, human_duration


def draw_queues(title: str, rows: Iterable[Row]) -> Picture:
    """Draw queues from the rows of `queue_rows`."""
    return queue_bars(title, [_bar(row) for row in rows if row["resource"]])


def draw_flow(title: str, rows: Iterable[Row]) -> Picture:
    """Draw a flow from the rows of `flow_rows`."""
    shown = list(rows)
    nodes = [FlowNode(row["name"], row["phase"], tuple(row["dependsOn"]), row["elapsedSeconds"], _rounds(row)) for row in shown]
    elapsed = {row["name"]: human_duration(row["elapsedSeconds"]) for row in shown if row["elapsedSeconds"] is not None}
    return flow_graph(title, nodes, elapsed)


def _bar(row: Row) -> QueueBar:
    names = ("allocated", "guarantee", "deserved", "limit", "borrowed")
    written = {name: row[name] for name in names if row[name] is not None}
    amounts = {name: None if row[name] is None else float(amount(row[name])) for name in ("guarantee", "deserved", "limit")}
    depth = (len(row["label"]) - len(row["name"])) // 2
    return QueueBar(row["name"], row["resource"], float(amount(row["allocated"])), **amounts, depth=depth, written=written)


def _rounds(row: Row) -> str:
    return f"{row['rounds']} rounds" if row["rounds"] else ""

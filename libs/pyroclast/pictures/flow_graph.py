"""Draws a flow as a graph from left to right, with its critical path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from pyroclast.pictures.layers import FlowNode, critical_path, grouped, in_layers
from pyroclast.pictures.svg import CHARACTER_WIDTH, Picture, element, rectangle, text

MOST_NODES: Final = 200
"""The most entries of a flow that are drawn separately; a larger flow has one box for each depth."""

BOX_HEIGHT: Final = 44
GAP: Final = 14
BETWEEN: Final = 56
HEAD: Final = 32
LONGEST: Final = 36
COLOURS: Final[Mapping[str, str]] = {
    "Completed": "#2f855a",
    "Succeed": "#2f855a",
    "Running": "#2b6cb0",
    "Failed": "#c53030",
    "Terminated": "#c53030",
    "Aborted": "#c53030",
}
OTHERWISE: Final = "#718096"
"""The colour of all other states. Each box also shows its state as a word."""


def flow_graph(title: str, nodes: Sequence[FlowNode], elapsed: Mapping[str, str]) -> Picture:
    """Return the picture of a flow. `elapsed`: the run time of each entry as text. Names may be any text."""
    path = critical_path(nodes)
    shown = list(nodes) if len(nodes) <= MOST_NODES else grouped(nodes)
    layers = in_layers(shown)
    steps = set(pairwise(path))
    width = (
        CHARACTER_WIDTH * max((min(LONGEST, max(len(each.name), len(_state(each, elapsed)))) for each in shown), default=10) + 24
    )
    tallest = max(map(len, layers), default=1)
    height = HEAD + tallest * (BOX_HEIGHT + GAP)
    corners = {
        node.name: (8 + depth * (width + BETWEEN), HEAD + (index + (tallest - len(layer)) / 2) * (BOX_HEIGHT + GAP))
        for depth, layer in enumerate(layers)
        for index, node in enumerate(layer)
    }
    parts = [text(8, 16, title, kind="strong")]
    edges = [(wanted, node.name) for node in shown for wanted in node.wants if wanted in corners]
    parts += [_edge(corners[wanted], corners[name], width, is_critical=(wanted, name) in steps) for wanted, name in edges]
    for node in shown:
        parts += _box(node, corners[node.name], width, elapsed, is_critical=node.name in path)
    return Picture(title, max(len(layers) * (width + BETWEEN), CHARACTER_WIDTH * len(title) + 16), height, tuple(parts))


def _box(
    node: FlowNode, corner: tuple[float, float], width: float, elapsed: Mapping[str, str], *, is_critical: bool
) -> list[str]:
    x, y = corner
    told = f"{node.name}: {_state(node, elapsed)}" + (", on the critical path" if is_critical else "")
    return [
        rectangle(x, y, width, BOX_HEIGHT, kind="box critical" if is_critical else "box", title=told, rounded=4),
        rectangle(x, y, 6, BOX_HEIGHT, fill=COLOURS.get(node.state, OTHERWISE)),
        text(x + 14, y + 18, _short(node.name), kind="strong"),
        text(x + 14, y + 35, _short(_state(node, elapsed)), kind="faint"),
    ]


def _edge(begin: tuple[float, float], end: tuple[float, float], width: float, *, is_critical: bool) -> str:
    x, y = begin[0] + width, begin[1] + BOX_HEIGHT / 2
    to_x, to_y = end[0], end[1] + BOX_HEIGHT / 2
    middle = (x + to_x) / 2
    curve = f"M{x:.0f} {y:.0f}C{middle:.0f} {y:.0f} {middle:.0f} {to_y:.0f} {to_x:.0f} {to_y:.0f}"
    return element("path", {"d": curve, "class": "critical" if is_critical else None})


def _state(node: FlowNode, elapsed: Mapping[str, str]) -> str:
    return " ".join(filter(None, (node.state, elapsed.get(node.name, ""), node.note)))


def _short(name: str) -> str:
    """Return a name that fits its box; the title of the box has the whole name."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"

"""Draws a flow as a graph from left to right, with its critical path.

The layout puts entries in layers by their dependencies, and groups a graph that is too large to be drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pyroclast.pictures.svg import CHARACTER_WIDTH, Picture, element, rectangle, text

SWEEPS: Final = 4
"""Passes over the layers; after so many, the order within the layers hardly changes."""


@dataclass(frozen=True, slots=True)
class FlowNode:
    """An entry of a flow: the entries that it waits for, its state, and its run time in seconds (None before its start)."""

    name: str
    state: str
    wants: tuple[str, ...] = ()
    elapsed: float | None = None
    note: str = ""


def in_layers(nodes: Sequence[FlowNode]) -> list[list[FlowNode]]:
    """Return the nodes in layers by the longest path to them. Each layer is ordered by the mean position of neighbours, so that
    few lines cross.

    A node in a cycle, which admission refuses, is in the layer in which the search entered the cycle.
    """
    wants, depths = _wants(nodes), depths_of({node.name: node.wants for node in nodes})
    layers: list[list[FlowNode]] = [[] for _ in range(max(depths.values(), default=-1) + 1)]
    for node in nodes:
        layers[depths[node.name]].append(node)
    followers: dict[str, list[str]] = {node.name: [] for node in nodes}
    for name, wanted in wants.items():
        for each in wanted:
            followers[each].append(name)
    for sweep in range(SWEEPS):
        neighbours, order = (wants, layers) if sweep % 2 == 0 else (followers, layers[::-1])
        places = {node.name: index - (len(layer) - 1) / 2 for layer in layers for index, node in enumerate(layer)}
        for layer in order:
            layer.sort(key=lambda node: (_middle(neighbours[node.name], places, places[node.name]), places[node.name]))
            places.update({node.name: index - (len(layer) - 1) / 2 for index, node in enumerate(layer)})
    return layers


def critical_path(nodes: Sequence[FlowNode]) -> tuple[str, ...]:
    """Return the chain of dependent entries with the longest total run time; empty when no entry has started."""
    wants, known = _wants(nodes), {node.name: node for node in nodes}
    longest: dict[str, tuple[float, str | None]] = {}
    for layer in in_layers(nodes):
        for node in layer:
            before = max((longest[each][0], each) for each in wants[node.name]) if wants[node.name] else (0.0, None)
            longest[node.name] = (before[0] + (node.elapsed or 0.0), before[1])
    begun = [name for name in longest if known[name].elapsed]
    if not begun:
        return ()
    found: list[str] = []
    last: str | None = max(begun, key=lambda name: (longest[name][0], name))
    while last is not None:
        found.append(last)
        last = longest[last][1]
    return tuple(reversed(found))


def grouped(nodes: Sequence[FlowNode]) -> list[FlowNode]:
    """Return one node for each layer, with the number of its entries by state, to draw a flow that is too large."""
    found: list[FlowNode] = []
    for depth, layer in enumerate(in_layers(nodes)):
        states = Counter(node.state for node in layer)
        elapsed = max((node.elapsed for node in layer if node.elapsed is not None), default=None)
        note = ", ".join(f"{count} {state}" for state, count in states.most_common())
        wants = (found[-1].name,) if found else ()
        found.append(FlowNode(f"depth {depth}: {len(layer)} entries", states.most_common(1)[0][0], wants, elapsed, note))
    return found


def _wants(nodes: Sequence[FlowNode]) -> dict[str, list[str]]:
    """Return the dependencies of each node, without unknown names and without those that would close a cycle."""
    depths = depths_of({node.name: node.wants for node in nodes})
    return {
        node.name: [each for each in dict.fromkeys(node.wants) if depths.get(each, 1 << 30) < depths[node.name]] for node in nodes
    }


def depths_of(wants: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the length of the longest path to each name through its dependencies; unknown names and cycles are ignored.

    This works without recursion, because flows may be 5,000 entries deep.
    """
    depths: dict[str, int] = {}
    entered: set[str] = set()
    for start in wants:
        stack = [start]
        while stack:
            name = stack[-1]
            open_ = [each for each in wants[name] if each in wants and each not in depths and each not in entered]
            if name in depths:
                stack.pop()
            elif open_ and name not in entered:
                entered.add(name)
                stack += open_
            else:
                depths[name] = max((depths[each] + 1 for each in wants[name] if each in depths), default=0)
                entered.discard(name)
                stack.pop()
    return depths


def _middle(names: Sequence[str], places: Mapping[str, float], own: float) -> float:
    return sum(places[name] for name in names) / len(names) if names else own


MOST_NODES: Final = 200
"""The most entries of a flow that are drawn separately; a larger flow has one box for each depth."""

BOX_HEIGHT: Final = 44
GAP: Final = 14
BETWEEN: Final = 56
HEAD: Final = 32
LONGEST: Final = 36
COLOURS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("Completed", "Succeed"), "#2f855a"),
    **dict.fromkeys(("Failed", "Terminated", "Aborted"), "#c53030"),
    "Running": "#2b6cb0",
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

"""The entries of a flow as a graph: what each waits for, who chooses it, and in which order they can be judged."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyroclast.api.records import FlowEntry, FlowSpec

__all__ = ["Graph", "Node", "build"]


@dataclass(frozen=True, slots=True)
class Node:
    """One entry.

    `targets` are those of `dependsOn`; `waits` are these and the ones that `if` and `switch` ask for; `asked` are the waits that
    need not have completed, any end will do; `choosers` are the entries that choose this one or not.
    """

    entry: FlowEntry
    position: int
    targets: tuple[str, ...]
    waits: tuple[str, ...]
    asked: frozenset[str]
    choosers: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the entry."""
        return self.entry.name


@dataclass(frozen=True, slots=True)
class Graph:
    """All entries by name, in the order of the flow.

    `order` has each entry after all that it waits for and all that choose it; entries of cycles, and those behind them, are in
    `cyclic` instead. `tolerated` are the entries whose failure another entry asks for. `follows_progress`: what a Job does before
    it ends may let another start.
    """

    nodes: Mapping[str, Node]
    order: tuple[str, ...]
    cyclic: frozenset[str]
    tolerated: frozenset[str]
    follows_progress: bool = False


def build(spec: FlowSpec) -> Graph:
    """The graph of the entries; of several with one name the first counts. Names of no entry are kept as they stand."""
    entries: dict[str, tuple[int, FlowEntry]] = {}
    for position, entry in enumerate(spec.flows):
        entries.setdefault(entry.name, (position, entry))
    choosers: dict[str, list[str]] = {}
    for name, (_, entry) in entries.items():
        for chosen in dict.fromkeys(chosen_by(entry)):
            choosers.setdefault(chosen, []).append(name)
    nodes = {name: _node(entry, position, choosers.get(name, ())) for name, (position, entry) in entries.items()}
    order = _order(nodes)
    tolerated = frozenset(target for node in nodes.values() for target in node.asked)
    progress = any(_follows_progress(node.entry) for node in nodes.values())
    return Graph(nodes, order, frozenset(nodes.keys() - set(order)), tolerated, progress)


def _follows_progress(entry: FlowEntry) -> bool:
    return entry.condition is not None or (entry.depends_on is not None and entry.depends_on.probe is not None)


def chosen_by(entry: FlowEntry) -> Iterable[str]:
    """The names of the entries that `entry` chooses among."""
    yield from entry.otherwise
    if entry.switch is not None:
        for case in entry.switch.cases:
            yield from case.entries
        yield from entry.switch.default


def _node(entry: FlowEntry, position: int, choosers: Iterable[str]) -> Node:
    targets = tuple(dict.fromkeys(entry.depends_on.targets)) if entry.depends_on is not None else ()
    asked = []
    if entry.condition is not None:
        if entry.condition.target:
            asked.append(entry.condition.target)
        if entry.condition.expression:
            asked += targets
    if entry.switch is not None and entry.switch.on:
        asked.append(entry.switch.on)
    return Node(entry, position, targets, tuple(dict.fromkeys((*targets, *asked))), frozenset(asked), tuple(choosers))


def _order(nodes: Mapping[str, Node]) -> tuple[str, ...]:
    """The entries in an order in which each comes after what it needs to know (Kahn, in the order of the flow)."""
    missing: dict[str, int] = {}
    followers: dict[str, list[str]] = {name: [] for name in nodes}
    for name, node in nodes.items():
        needed = {other for other in (*node.waits, *node.choosers) if other in nodes}
        missing[name] = len(needed)
        for other in needed:
            followers[other].append(name)
    ready = deque(name for name, count in missing.items() if count == 0)
    order = []
    while ready:
        name = ready.popleft()
        order.append(name)
        for follower in followers[name]:
            missing[follower] -= 1
            if missing[follower] == 0:
                ready.append(follower)
    return tuple(order)

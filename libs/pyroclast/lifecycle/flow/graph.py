"""The entries of a flow as a graph: what each entry waits for, which entries choose it, and the order in which to judge."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyroclast.api.records import FlowEntry, FlowSpec


@dataclass(frozen=True, slots=True)
class Node:
    """One entry of a flow.

    `targets` are those of `dependsOn`. `waits` are the targets and the entries whose outcome `if` and `switch` read. `asked` are
    the waits for which any outcome is enough. `choosers` are the entries whose `else` or `switch` may choose this entry.
    """

    entry: FlowEntry
    position: int
    targets: tuple[str, ...]
    waits: tuple[str, ...]
    asked: frozenset[str]
    choosers: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the entry."""
        return self.entry.name


@dataclass(frozen=True, slots=True)
class Graph:
    """All entries by name, in the order of the flow.

    In `order`, each entry follows all entries that it waits for and all that may choose it. `cyclic` has the entries of cycles,
    and the entries that wait for a cycle; these are not in `order`. `tolerated` are the entries whose failure another entry
    reads. `follows_progress`: whether a Job that has not ended can let another Job start.
    """

    nodes: Mapping[str, Node]
    order: tuple[str, ...]
    cyclic: frozenset[str]
    tolerated: frozenset[str]
    follows_progress: bool = False


def build(spec: FlowSpec) -> Graph:
    """Return the graph of the entries. Of several entries with the same name, the first is used. Unknown names stay in the
    graph's fields.
    """
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
    """Yield the names of the entries among which `entry` chooses."""
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
    """Return the entries in an order in which each follows the entries that it needs (Kahn's algorithm, in the order of the
    flow).
    """
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

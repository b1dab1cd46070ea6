"""Finds the nodes that a HyperNode member selects by name, regular expression or labels, with an index instead of a full scan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from pyroclast.api import records
from pyroclast.resources.patterns import Pattern
from pyroclast.resources.selectors import matches
from pyroclast_scheduler.model.label_index import named_values

_GRAM = 3  # length of the indexed pieces of node names
_QUANTIFIERS = frozenset("?*")
_SPECIAL = frozenset("|()[]^$.+*?{}\\")


class NodeLookup:
    """An index of one fixed list of nodes."""

    def __init__(self, nodes: Sequence[records.Node | None]) -> None:
        self._nodes = {row: node for row, node in enumerate(nodes) if node is not None}
        self.rows = {node.metadata.name: row for row, node in self._nodes.items()}
        self._by_label: dict[str, dict[str, list[int]]] = {}

    def matching(self, text: str, pattern: Pattern) -> list[int]:
        """Return the rows of nodes whose names contain a match of `pattern`. `text`: the pattern as text."""
        return [row for row in self._candidates(literal_of(text)) if pattern.search(self._nodes[row].metadata.name)]

    def labelled(self, selector: Mapping[str, object]) -> list[int]:
        """Return the rows of nodes whose labels match `selector`."""
        named = named_values(selector)
        rows: Iterable[int] = self._nodes
        if named:
            key, values = named[0]
            index = self._of_label(key)
            rows = sorted(row for value in values for row in index.get(value, ()))
        return [row for row in rows if matches(selector, self._nodes[row].metadata.labels)]

    def _candidates(self, literal: str) -> Iterable[int]:
        found = [self._by_piece.get(literal[at : at + _GRAM], []) for at in range(len(literal) - _GRAM + 1)]
        if not found:
            return self._nodes
        return min(found, key=len)

    @cached_property
    def _by_piece(self) -> Mapping[str, list[int]]:
        found: dict[str, list[int]] = {}
        for row, node in self._nodes.items():
            name = node.metadata.name
            for piece in {name[at : at + _GRAM] for at in range(len(name) - _GRAM + 1)}:
                found.setdefault(piece, []).append(row)
        return found

    def _of_label(self, key: str) -> Mapping[str, list[int]]:
        found = self._by_label.get(key)
        if found is None:
            found = self._by_label[key] = {}
            for row, node in self._nodes.items():
                value = node.metadata.labels.get(key)
                if value is not None:
                    found.setdefault(value, []).append(row)
        return found


def literal_of(pattern: str) -> str:
    """Return a literal that every match of `pattern` contains, found by a simple scan; empty if the scan finds none."""
    if any(each in pattern for each in ("(?", "[", "{")):
        return ""
    best, run, depth, at = "", "", 0, 0
    while at < len(pattern):
        char = pattern[at]
        is_escaped = char == "\\"
        if is_escaped:
            at += 1
            char = pattern[at : at + 1]
        at += 1
        depth += (char == "(" and not is_escaped) - (char == ")" and not is_escaped)
        if char == "|" and not is_escaped and not depth:
            return ""
        is_plain = not char.isalnum() if is_escaped else char not in _SPECIAL
        is_certain = is_plain and not depth and pattern[at : at + 1] not in _QUANTIFIERS
        run = run + char if is_certain else ""
        best = max(best, run, key=len)
    return best

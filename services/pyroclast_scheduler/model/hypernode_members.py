"""Builds the tree of hypernodes from HyperNode objects: resolves the members to nodes, links the tiers and reads their names.

A member selects nodes by name, regular expression or labels. An index by parts of names avoids a scan of all nodes per member.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from operator import is_

import numpy as np

from pyroclast.api import records
from pyroclast.api.enums import MemberType
from pyroclast.resources.patterns import BadPattern, Pattern, compile_pattern
from pyroclast.resources.selectors import matches
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.hypernodes import HyperNode, HyperNodes
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.model.pod_columns import named_values

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
        return min(found, key=len, default=self._nodes)

    @cached_property
    def _by_piece(self) -> Mapping[str, list[int]]:
        found: dict[str, list[int]] = {}
        for name, row in self.rows.items():
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


class HyperNodeMembers:
    """The hypernodes of the last session, used again while neither HyperNode objects nor nodes change.

    `faults`: the HyperNode objects with invalid members, each with a text that names the fault.
    """

    def __init__(self) -> None:
        self.faults: list[tuple[records.HyperNode, str]] = []
        self._objects: list[records.HyperNode] = []
        self._nodes: Sequence[records.Node | None] = ()
        self._stamps: Ints = np.zeros(0, dtype=np.int64)
        self._found: HyperNodes | None = None

    def of(self, objects: Mapping[str, records.HyperNode], nodes: Sequence[records.Node | None], stamps: Ints) -> HyperNodes:
        """Return the hypernodes. `stamps`: a number per node that changes whenever the node changes."""
        listed = list(objects.values())
        is_same = len(listed) == len(self._objects) and all(map(is_, listed, self._objects))
        if not is_same:
            self.faults = [(each, why) for each in listed if (why := _fault(each))]
        if self._found is None or not is_same or not self._are_alike(nodes, stamps):
            self._found = resolve(listed, nodes)
        self._objects, self._nodes, self._stamps = listed, nodes, stamps
        return self._found

    def _are_alike(self, nodes: Sequence[records.Node | None], stamps: Ints) -> bool:
        """Whether the nodes have the same names and labels as before."""
        if len(stamps) != len(self._stamps):
            return False
        changed = np.flatnonzero(stamps != self._stamps).tolist()
        return all(_identity(nodes[row]) == _identity(self._nodes[row]) for row in changed)


def resolve(objects: Collection[records.HyperNode], nodes: Sequence[records.Node | None]) -> HyperNodes:
    """Return the hypernodes that `objects` describe, over the rows of `nodes`.

    Members that do not exist are ignored. If a hypernode has two parents or is its own ancestor, all hypernodes count as not
    ready.
    """
    by_name = {each.metadata.name: each for each in objects}
    below = {name: _children(each, by_name) for name, each in by_name.items()}
    parents: dict[str, list[str]] = {}
    for name, children in below.items():
        for child in children:
            parents.setdefault(child, []).append(name)
    lookup = NodeLookup(nodes)
    own = {name: _own_nodes(each, len(nodes), lookup) for name, each in by_name.items()}
    masks: dict[str, Bools] = {}
    is_sound = all(len(found) == 1 for found in parents.values())
    for name in sorted(by_name):
        is_sound &= _fill(name, below, own, masks, ())
    made = [
        HyperNode(name, each.spec.tier, masks[name], next(iter(parents.get(name, ())), ""), tuple(below[name]))
        for name, each in sorted(by_name.items())
    ]
    names = {each.spec.tier_name: each.spec.tier for _, each in sorted(by_name.items()) if each.spec.tier_name}
    if not is_sound:
        return HyperNodes(len(nodes), is_ready=False)
    return HyperNodes(len(nodes), made, tier_names=names)


def _children(hyper_node: records.HyperNode, known: Mapping[str, records.HyperNode]) -> list[str]:
    names = [
        member.selector.exact_match.name
        for member in hyper_node.spec.members
        if member.type is MemberType.HYPER_NODE and member.selector is not None and member.selector.exact_match is not None
    ]
    return [name for name in dict.fromkeys(names) if name in known]


def _identity(node: records.Node | None) -> tuple[str, Mapping[str, str]] | None:
    return None if node is None else (node.metadata.name, node.metadata.labels)


def _own_nodes(hyper_node: records.HyperNode, count: int, lookup: NodeLookup) -> Bools:
    mask = np.zeros(count, dtype=np.bool_)
    for member in hyper_node.spec.members:
        selector = member.selector
        if member.type is not MemberType.NODE or selector is None:
            continue
        if selector.exact_match is not None:
            row = lookup.rows.get(selector.exact_match.name)
            if row is not None:
                mask[row] = True
        elif selector.regex_match is not None:
            text = selector.regex_match.pattern
            with suppress(BadPattern):  # `_fault` reports it
                mask[lookup.matching(text, compile_pattern(text))] = True
        elif selector.label_match:
            mask[lookup.labelled(selector.label_match)] = True
    return mask


def _fault(hyper_node: records.HyperNode) -> str:
    """Return a text that names the invalid members of a HyperNode, empty if all members are valid."""
    found = []
    for at, member in enumerate(hyper_node.spec.members):
        regex = None if member.selector is None else member.selector.regex_match
        if member.type is MemberType.NODE and regex is not None:
            try:
                compile_pattern(regex.pattern)
            except BadPattern as error:
                found.append(f"spec.members[{at}].selector.regexMatch.pattern: {error}; the member takes no node")
    return "; ".join(found)


def _fill(
    name: str, below: Mapping[str, Sequence[str]], own: Mapping[str, Bools], masks: dict[str, Bools], path: tuple[str, ...]
) -> bool:
    """Set the masks of the descendants of `name`, then of `name`. Return False if `name` is its own descendant."""
    if name in path:
        return False
    if name in masks:
        return True
    mask = own[name].copy()
    for child in below[name]:
        if not _fill(child, below, own, masks, (*path, name)):
            masks[name] = mask
            return False
        mask |= masks[child]
    masks[name] = mask
    return True

"""Members of hypernodes are found by indexes: the same nodes as by asking each, and again only when names or labels change."""

import random

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyroclast.api import records
from pyroclast.resources.patterns import BadPattern, compile_pattern
from pyroclast.resources.selectors import matches
from pyroclast_scheduler.model import hypernode_members
from pyroclast_scheduler.model.hypernode_members import HyperNodeMembers, NodeLookup, literal_of
from tests.scenarios import objects

PIECES = st.sampled_from(
    ["a", "b", "1", "-", ".", "\\.", "\\d", "\\-", "^", "$", "*", "+", "?", "|", "(", ")", "{2}", "{0,1}", "[ab]", "(?i)"]
)
NAMES = ["a", "b1", "ab-1", "a.b-11", "bba1-", "AB-1", "-a-b-", "11", "aab.b", ""]


@given(st.lists(PIECES, max_size=8).map("".join))
@example("(?i)ab-1")
@example("ab|b1")
@example("a(b)?-1")
@example("ab?-1")
@example("a\\.b")
def test_the_literal_of_a_pattern_occurs_in_every_matching_name(pattern):
    try:
        compiled = compile_pattern(pattern)
    except BadPattern:
        return
    literal = literal_of(pattern)
    assert all(literal in name for name in NAMES if compiled.search(name)), literal


@pytest.mark.parametrize(
    ("pattern", "want"),
    [
        ("^rack-12-", "rack-12-"),
        ("(^|-)k12-", "k12-"),
        ("node-1[0-9]", ""),
        ("node-1\\.zone\\d+", "node-1.zone"),
        ("gpu-?a100", "a100"),
        ("a|b", ""),
        (".*", ""),
    ],
)
def test_simple_patterns_yield_a_literal_and_other_patterns_an_empty_one(pattern, want):
    assert literal_of(pattern) == want


@pytest.mark.parametrize("seed", range(10))
def test_indexed_node_lookup_finds_the_same_nodes_as_a_full_scan(seed):
    draw = random.Random(seed)
    nodes = [
        None if draw.random() < 0.1 else objects.node([f"r{draw.randrange(9)}-n{i}", 1, "1Gi", {"labels": labels(draw)}])
        for i in range(40)
    ]
    lookup = NodeLookup(nodes)
    there = {row: node for row, node in enumerate(nodes) if node is not None}
    for text in ("r1", "^r2-", "(^r3|-n5)", "-n1$", "n\\d\\d", "nothing", "r4-n.*"):
        pattern = compile_pattern(text)
        assert sorted(lookup.matching(text, pattern)) == [
            row for row, node in there.items() if pattern.search(node.metadata.name)
        ]
    for selector in (
        {"matchLabels": {"zone": "a"}},
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}, {"key": "disk", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]},
    ):
        assert sorted(lookup.labelled(selector)) == [
            row for row, node in there.items() if matches(selector, node.metadata.labels)
        ]


def labels(draw):
    return draw.choice(({}, {"zone": draw.choice("abc")}, {"zone": "a", "disk": "ssd"}))


def by_pattern(name, pattern):
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}]
    return msgspec.convert({"metadata": {"name": name, "uid": name}, "spec": {"tier": 1, "members": members}}, records.HyperNode)


CHANGES = {
    "nothing": (lambda nodes: None, False),
    "a capacity": (lambda nodes: nodes.__setitem__(1, objects.node(["b", 9, "1Gi"])), False),
    "a label": (lambda nodes: nodes.__setitem__(1, objects.node(["b", 1, "1Gi", {"labels": {"zone": "a"}}])), True),
    "another node": (lambda nodes: nodes.__setitem__(1, objects.node(["a-too", 1, "1Gi"])), True),
    "a node that goes": (lambda nodes: nodes.__setitem__(1, None), True),
    "a node that comes": (lambda nodes: nodes.append(objects.node(["c", 1, "1Gi"])), True),
}


@pytest.mark.parametrize(("change", "want"), CHANGES.values(), ids=CHANGES)
def test_hypernode_members_are_resolved_again_only_when_node_names_or_labels_change(change, want, monkeypatch):
    resolved = []
    resolve = hypernode_members.resolve
    monkeypatch.setattr(hypernode_members, "resolve", lambda *given: resolved.append(given) or resolve(*given))
    book, found = HyperNodeMembers(), {"h": by_pattern("h", "^a")}
    nodes = [objects.node(["a", 1, "1Gi"]), objects.node(["b", 1, "1Gi"])]
    book.of(found, tuple(nodes), np.arange(2))
    change(nodes)
    stamps = np.arange(len(nodes)) + np.array([0, 7, 0][: len(nodes)])
    again = book.of(found, tuple(nodes), stamps)
    assert len(resolved) == 1 + want
    assert np.flatnonzero(again["h"].nodes).tolist() == [
        row for row, node in enumerate(nodes) if node is not None and node.metadata.name.startswith("a")
    ]


def test_many_hypernode_patterns_examine_only_a_fraction_of_the_nodes(monkeypatch):
    nodes = [objects.node([f"rack{i // 4}-n{i}", 1, "1Gi"]) for i in range(400)]
    found = [by_pattern(f"h{i}", f"^rack{i}-") for i in range(100)]
    asked = []
    matching = NodeLookup._candidates

    def candidates(self, literal):
        rows = list(matching(self, literal))
        asked.extend(rows)
        return rows

    monkeypatch.setattr(NodeLookup, "_candidates", candidates)
    hypernode_members.resolve(found, nodes)
    assert len(asked) < 100 * 80

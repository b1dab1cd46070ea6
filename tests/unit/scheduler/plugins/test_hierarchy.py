"""Hierarchical fairness: which queue goes first, by the tree of branches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast_scheduler.model.queues import QueueFacts
from pyroclast_scheduler.plugins.drf import Hierarchy, Leaf, path_of
from tests.scenarios import objects

TOTAL = np.array([10_000, 10_000, 100])


def queue(name, path, weights):
    return QueueFacts(objects.queue([name, {"hier": [path, weights]}]))


def leaf(name, queue_name, allocated, request):
    return Leaf(name, queue_name, np.array([*allocated, 0]), np.array([*request, 0]))


@pytest.mark.parametrize(
    ("path", "weights", "found"),
    [
        ("root/eng/dev", "100/50/25", [("eng", 50.0), ("dev", 25.0)]),
        ("root/eng/dev", "100/50", [("eng", 50.0), ("dev", 1.0)]),
        ("root/eng", "100/0.5", [("eng", 1.0)]),
        ("root/eng", "100/heavy", [("eng", 1.0)]),
        ("root/eng", "100/nan", [("eng", 1.0)]),
        ("", "", []),
    ],
)
def test_the_queue_path_is_parsed_from_annotations_and_invalid_weights_become_1(path, weights, found):
    assert path_of(queue("q", path, weights)) == found


def test_the_queue_with_the_smaller_weighted_share_is_ordered_first():
    queues = [queue("a", "root/a", "1/1"), queue("b", "root/b", "1/4")]
    tree = Hierarchy(queues, [leaf("ja", "a", (2000, 0), (9000, 0)), leaf("jb", "b", (4000, 0), (9000, 0))], TOTAL)
    assert tree.compare("b", "a") < 0
    tree.add("jb", np.array([5000, 0, 0]))
    assert tree.compare("b", "a") > 0


def test_a_queue_whose_requests_are_satisfied_is_ordered_last():
    queues = [queue("a", "root/a", "1/1"), queue("b", "root/b", "1/1")]
    tree = Hierarchy(queues, [leaf("ja", "a", (100, 0), (100, 0)), leaf("jb", "b", (5000, 0), (9000, 0))], TOTAL)
    assert tree.compare("b", "a") < 0


def test_a_saturated_queue_is_ordered_after_its_sibling_but_does_not_make_their_branch_saturated():
    """Branch c has a child that wants cpu, which is gone, and one that wants memory; branch e wants nothing more."""
    queues = [queue("cpu", "root/c/cpu", "1/1/1"), queue("mem", "root/c/mem", "1/1/1"), queue("e", "root/e", "1/1")]
    leaves = [
        leaf("jcpu", "cpu", (10_000, 0), (20_000, 0)),
        leaf("jmem", "mem", (0, 1000), (0, 9000)),
        leaf("je", "e", (0, 3000), (0, 3000)),
    ]
    tree = Hierarchy(queues, leaves, TOTAL)
    assert tree.compare("mem", "cpu") < 0
    assert tree.compare("mem", "e") < 0


amounts = st.tuples(st.integers(0, 5000), st.integers(0, 5000))


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c", "d"]), amounts, amounts), max_size=8))
def test_queue_order_is_antisymmetric_and_restored_when_allocations_are_undone(rows):
    queues = [queue("a", "root/x/a", "1/2/3"), queue("b", "root/x/b", "1/2/1"), queue("c", "root/c", "1/2"), queue("d", "", "")]
    leaves = [leaf(f"j{at}", name, has, (has[0] + more[0], has[1] + more[1])) for at, (name, has, more) in enumerate(rows)]
    tree = Hierarchy(queues, leaves, TOTAL)
    names = "abcd"
    before = {(one, two): tree.compare(one, two) for one in names for two in names}
    assert all(before[one, two] == -before[two, one] for one in names for two in names)
    for each in leaves:
        tree.add(each.key, np.array([500, 100, 1]))
    for each in leaves:
        tree.add(each.key, -np.array([500, 100, 1]))
    assert before == {(one, two): tree.compare(one, two) for one in names for two in names}

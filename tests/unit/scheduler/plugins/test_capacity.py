"""Plugin capacity: limits and deserved amounts in flat and hierarchical trees, and who is reclaimed from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast_scheduler.model.dimensions import Dimensions
from pyroclast_scheduler.model.queues import Queue, QueueFacts
from pyroclast_scheduler.plugins.capacity import tree
from pyroclast_scheduler.plugins.capacity.reclaiming import Reclaiming
from tests.scenarios import objects

DIMENSIONS = Dimensions(["x/gpu"])
TOTAL = np.array([10_000, 10 * 2**30, 110, 0, 8_000])


def queues(*rows):
    found = [Queue(QueueFacts(objects.queue(list(row)))) for row in rows]
    return {queue.name: queue for queue in found}


def cpus(array, found, name):
    return array[found.rows[name], 0] / 1000


def test_the_limit_of_a_flat_queue_excludes_the_guarantees_of_other_queues():
    found = tree.flat(queues(["a", {}], ["b", {"guarantee": {"cpu": 4}}], ["c", {"capability": {"cpu": 3}}]), TOTAL, DIMENSIONS)
    assert [cpus(found.limit, found, name) for name in "abc"] == [6, 10, 3]
    assert cpus(found.deserved, found, "b") == 4, "a guarantee is deserved"


def test_a_flat_queue_deserves_at_most_its_limit():
    found = tree.flat(queues(["a", {"deserved": {"cpu": 8}, "capability": {"cpu": 5}}]), TOTAL, DIMENSIONS)
    assert cpus(found.deserved, found, "a") == 5


def test_child_queues_inherit_the_parent_limit_less_the_guarantees_of_siblings():
    found = tree.hierarchical(
        queues(
            ["root", {}],
            ["p", {"parent": "root", "capability": {"cpu": 6}}],
            ["c", {"parent": "p"}],
            ["d", {"parent": "p", "guarantee": {"cpu": 2}}],
        ),
        TOTAL,
        DIMENSIONS,
    )
    assert found is not None
    assert np.isinf(cpus(found.limit, found, "root"))
    assert [cpus(found.limit, found, name) for name in "pcd"] == [6, 4, 6]
    assert np.isinf(found.limit[found.rows["c"], 1]), "memory is named by nobody above"


def test_the_root_queue_deserves_and_guarantees_the_sum_of_its_children():
    found = tree.hierarchical(
        queues(["root", {"deserved": {"cpu": 99}}], ["a", {"deserved": {"cpu": 2}, "guarantee": {"cpu": 3}}], ["b", {}]),
        TOTAL,
        DIMENSIONS,
    )
    assert found is not None
    assert (cpus(found.deserved, found, "root"), cpus(found.guarantee, found, "root")) == (3, 3)


@pytest.mark.parametrize(
    ("rows", "outside"),
    [
        pytest.param([["p", {}], ["c", {"parent": "p"}]], {"root", "p"}, id="a queue with children"),
        pytest.param([["c", {"parent": "gone"}]], {"c"}, id="a parent that is not there"),
        pytest.param([["a", {"parent": "b"}], ["b", {"parent": "a"}], ["c", {}]], {"root", "a", "b"}, id="a circle"),
        pytest.param([["a", {"parent": "a"}], ["c", {}]], {"root", "a"}, id="its own parent"),
    ],
)
def test_queues_that_are_not_leaves_below_the_root_accept_no_jobs(rows, outside):
    found = tree.hierarchical(queues(["root", {}], *rows), TOTAL, DIMENSIONS)
    assert found is not None
    names = {row: name for name, row in found.rows.items()}
    assert {names[row] for row in found.outside} == outside


amounts = st.fixed_dictionaries({}, optional={"cpu": st.integers(0, 20), "x/gpu": st.integers(0, 9)})
options = st.fixed_dictionaries({}, optional={"capability": amounts, "deserved": amounts, "guarantee": amounts})


@given(st.lists(st.tuples(st.integers(0, 6), options), max_size=7))
def test_deserved_covers_the_guarantee_and_only_a_guarantee_exceeds_the_parent_limit(rows):
    names = ["root", *(f"q{number}" for number in range(len(rows)))]
    made = [[names[number + 1], {**each, "parent": names[parent % (number + 1)]}] for number, (parent, each) in enumerate(rows)]
    found = tree.hierarchical(queues(["root", {}], *made), TOTAL, DIMENSIONS)
    assert found is not None
    for row in found.rows.values():
        assert (found.deserved[row] >= found.guarantee[row]).all()
        assert not np.isnan(found.limit[row]).any()
        for above in found.ancestors[row][:1]:
            assert (found.limit[row] <= np.maximum(found.limit[above], found.guarantee[row]) + 1e-6).all()


@given(st.lists(st.integers(0, 3), max_size=8), st.integers(0, 2))
def test_reclaiming_leaves_every_queue_its_guarantee(sizes, levels):
    found = tree.hierarchical(
        queues(["root", {}], ["mine", {"deserved": {"cpu": 4}}], ["theirs", {"guarantee": {"cpu": 2}, "deserved": {"cpu": 2}}]),
        TOTAL,
        DIMENSIONS,
    )
    assert found is not None
    allocated = np.zeros(found.limit.shape, dtype=np.int64)
    row = found.rows["theirs"]
    allocated[row, 0] = 1000 * sum(sizes)
    rule = Reclaiming(found, allocated, levels, found.rows["mine"], np.array([1000, 0, 1, 0, 0]))
    gone = sum(1000 * size for size in sizes if rule.takes(row, np.array([1000 * size, 0, 1, 0, 0])))
    assert allocated[row, 0] - gone >= min(2000, allocated[row, 0])

"""What the scheduler keeps does not grow while names change for ever."""

from __future__ import annotations

import numpy as np

from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.shell.debounce import Pruner
from tests.scenarios import objects

ALIVE = 20


def node(name: str):
    return objects.node([name, 4, "8Gi", {"labels": {"kubernetes.io/hostname": name, "zone": f"z{len(name) % 3}"}}])


def test_label_values_that_are_on_no_node_any_more_are_pruned():
    features, stamps = NodeFeatures(), np.zeros(ALIVE, dtype=np.int64)
    nodes = [node(f"n-{number}") for number in range(ALIVE)]
    features.update(nodes, stamps.copy())
    for number in range(5000):
        row = number % ALIVE
        nodes[row] = node(f"later-{number}")
        stamps[row] += 1
        features.update(nodes, stamps.copy())
        column = features.label("kubernetes.io/hostname")
        assert len(column.values) <= 130
        if number % 500 == 0:
            assert [column.values[code] for code in column.codes] == [each.metadata.name for each in nodes]
            domains = features.domains("kubernetes.io/hostname")
            assert domains.sums(np.ones(ALIVE)).sum() == ALIVE


def test_node_labels_that_are_no_longer_requested_are_pruned():
    features, nodes = NodeFeatures(), [node("n")]
    features.update(nodes, np.zeros(1, dtype=np.int64))
    for number in range(1000):
        features.label(f"label-{number}")
        features.domains("zone")
        features.update(nodes, np.zeros(1, dtype=np.int64))
    assert len(features._labels) <= 256
    assert "zone" in features._labels


def test_pruning_bounds_a_table_at_a_constant_cost_per_entry():
    table, alive, pruner, looked = {}, set(), Pruner(), 0
    for number in range(100_000):
        table[number] = number
        alive.add(number)
        alive.discard(number - 500)

        def is_there(key):
            nonlocal looked
            looked += 1
            return key in alive

        pruner.prune(table, is_there)
        assert len(table) <= 1025
    assert alive <= table.keys()
    assert looked < 300_000, "an entry costs the same however many there were"

"""The engine and the naive reference of `tests/reference` decide random clusters alike."""

from collections import Counter

import pytest

from tests.reference.compare import differences, written
from tests.reference.generator import covered, make
from tests.reference.plugins.gang import Gang
from tests.reference.plugins.proportion import Proportion

COUNT = 120
SOAK = 10_000


def disagreements(seeds):
    """Printed with the pairs of action and plugin that the clusters covered."""
    pairs, found = Counter(), []
    for seed in seeds:
        case = make(seed)
        pairs.update(covered(case))
        told = differences(case)
        if told:
            found.append(f"seed {seed}: {told}\n{written(case)}")
    print(*(f"{action} × {plugin}: {count}" for (action, plugin), count in sorted(pairs.items())), sep="\n")
    return found


def test_random_clusters_are_decided_alike():
    assert disagreements(range(COUNT)) == []


@pytest.mark.soak
def test_many_random_clusters_are_decided_alike():
    assert disagreements(range(COUNT, COUNT + SOAK)) == []


@pytest.mark.parametrize(
    ("plugin", "point", "wrong"),
    [
        (Gang, "job_ready", lambda self, job: True),
        (Proportion, "allocatable", lambda self, queue, task: True),
    ],
)
def test_a_wrong_rule_is_seen(monkeypatch, plugin, point, wrong):
    monkeypatch.setattr(plugin, point, wrong)
    assert any(differences(make(seed)) for seed in range(COUNT))

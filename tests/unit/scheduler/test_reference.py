"""The engine and the naive reference of `tests/reference` decide random clusters alike."""

from collections import Counter

import pytest

from tests.reference import networks
from tests.reference.compare import differences, written
from tests.reference.generator import covered, make
from tests.reference.plugins.gang import Gang
from tests.reference.plugins.proportion import Proportion

COUNT = 80
SOAK = 10_000


def disagreements(seeds, maker=make):
    """Those about clusters of these seeds; the pairs of action and plugin that the clusters covered are printed."""
    pairs, found = Counter(), []
    for seed in seeds:
        case = maker(seed)
        pairs.update(covered(case))
        told = differences(case)
        if told:
            found.append(f"seed {seed}: {told}\n{written(case)}")
    print(*(f"{action} × {plugin}: {count}" for (action, plugin), count in sorted(pairs.items())), sep="\n")
    return found


@pytest.mark.parametrize("maker", [make, networks.make])
def test_random_clusters_are_decided_alike(maker):
    assert disagreements(range(COUNT), maker) == []


@pytest.mark.soak
@pytest.mark.parametrize(("maker", "count"), [(make, SOAK * 4 // 5), (networks.make, SOAK // 5)])
def test_many_random_clusters_are_decided_alike(maker, count):
    assert disagreements(range(COUNT, COUNT + count), maker) == []


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

"""No kubelet is ever given more than its node has, and no gang is placed in part, whatever comes late or is refused."""

import pytest

from tests.unit.scheduler.cache import kubelets
from tests.unit.scheduler.cache.kubelets import OverCommitted, World

STEPS = 4_000
SOAK = 1_000_000


def walk(seed, steps):
    world = World(seed)
    for _ in range(steps):
        world.step()
    return world.counts


@pytest.mark.parametrize("seed", range(2))
def test_no_kubelet_is_over_committed_and_no_gang_placed_in_part(seed):
    counts = walk(seed, STEPS)
    assert all(counts[what] for what in ("bound", "refused", "evicted", "crash", "lose_node"))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_no_kubelet_is_over_committed_in_a_million_steps(seed):
    print(walk(100 + seed, SOAK // 10))


def test_a_scheduler_that_forgets_assumed_binds_over_commits_a_kubelet(monkeypatch):
    monkeypatch.setattr(kubelets, "assume_all", lambda cache, binds: None)
    with pytest.raises(OverCommitted):
        walk(0, STEPS)

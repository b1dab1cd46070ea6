"""What queues deserve by weight: what one cannot use goes to the others, whatever their weights are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast_scheduler.plugins.proportion import water_fill

EPSILON = 0.1
NONE = [0.0, 0.0, 0.0, 0.0]
ENDLESS = [np.inf, np.inf, np.inf, np.inf]
LARGEST = 2**63 - 1
TOTAL = [16_000.0, 64e9, 220.0, 0.0]  # cpu, memory, pods, what no node has


def filled(total, *queues):
    """Each queue: weight, request, and on demand limit and guarantee."""
    weights, requests, limits, guarantees = zip(*((*queue, *(ENDLESS, NONE)[len(queue) - 2 :]) for queue in queues), strict=True)
    return water_fill(*(np.array(each, dtype=np.float64) for each in (total, weights, requests, limits, guarantees)))


@pytest.mark.parametrize(
    ("queues", "want"),
    [
        pytest.param([(1, [4000, 4e9, 4, 0]), (1, [4000, 4e9, 4, 0])], [[4000, 4e9, 4], [4000, 4e9, 4]], id="enough for all"),
        pytest.param([(1, [9000, 1e9, 9, 0]), (3, [16000, 1e9, 9, 0])], [[4000, 1e9, 9], [12000, 1e9, 9]], id="by weight"),
        pytest.param([(1, [16000, 1e9, 9, 0]), (3, [6000, 1e9, 9, 0])], [[10000, 1e9, 9], [6000, 1e9, 9]], id="what one leaves"),
        pytest.param(
            [(1, [4000, 4e9, 4, 0]), (LARGEST, NONE)], [[4000, 4e9, 4], [0, 0, 0]], id="beside endless weight that wants nothing"
        ),
        pytest.param(
            [(1, [4000, 4e9, 4, 0]), (LARGEST, [1000, 1e9, 1, 5])],
            [[4000, 4e9, 4], [1000, 1e9, 1]],
            id="beside endless weight that wants what no node has",
        ),
        pytest.param(
            [(1, [4000, 0, 4, 0]), (LARGEST, [16000, 1e12, 9, 0], [10000, np.inf, np.inf, np.inf])],
            [[4000, 0, 4], [10000, 64e9, 9]],
            id="beside endless weight that may have no more of this",
        ),
        pytest.param(
            [(1, [4000, 0, 4, 0]), *[(LARGEST // 2, [1000, 64e9, 1, 0])] * 2, (LARGEST, [1000, 1e9, 1, 0])],
            [[4000, 0, 4], *[[1000, 31.5e9, 1]] * 2, [1000, 1e9, 1]],
            id="beside several of endless weight that want more of something else",
        ),
        pytest.param(
            [(1, [16000, 0, 0, 0]), (LARGEST, [16000, 0, 0, 0])],
            [[0, 0, 0], [16000, 0, 0]],
            id="beside endless weight that wants all",
        ),
        pytest.param([(0, [4000, 0, 4, 0]), (1, [4000, 0, 4, 0])], [[0, 0, 0], [4000, 0, 4]], id="no weight"),
        pytest.param([(0, [4000, 0, 4, 0], ENDLESS, [1, 0, 0, 0])], [[0, 0, 0]], id="nobody has weight"),
        pytest.param(
            [(1, [16000, 0, 0, 0], ENDLESS, [9000, 0, 0, 0]), (1, [16000, 0, 0, 0])],
            [[9000, 0, 0], [8000, 0, 0]],
            id="a guarantee",
        ),
    ],
)
def test_resources_are_shared_by_weight_within_requests_limits_and_guarantees(queues, want):
    found = filled(TOTAL, *queues)[:, :3]
    assert np.abs(found - np.array(want, dtype=np.float64)).max() < 1.0


@pytest.mark.parametrize(("weight", "other", "cpus"), [(7, 3, 11), (11, 4, 9), (13, 11, 15), (15, 11, 13)])
def test_a_share_that_is_a_whole_number_is_exact(weight, other, cpus):
    """A gang that asks for exactly its queue's share is refused otherwise."""
    total, everything = [cpus * 1000.0, 64e9, 220.0, 0.0], [cpus * 1000.0, 64e9, 220.0, 0.0]
    shares = filled(total, (weight, everything), (other, everything))[:, 0].tolist()
    assert shares == [cpus * 1000 * each / (weight + other) for each in (weight, other)]


AMOUNTS = st.tuples(*(st.sampled_from([0, 1, 7, 100, 12345, 10**9, 10**13]) for _ in range(4))).map(list)
WEIGHTS = st.sampled_from([0, 1, 1, 2, 3, 1000, 2**31, LARGEST])
LIMITS = st.tuples(*(st.sampled_from([0, 5, 10**6, np.inf]) for _ in range(4))).map(list)


@given(AMOUNTS, st.lists(st.tuples(WEIGHTS, AMOUNTS, LIMITS, st.just(NONE)), min_size=1, max_size=6))
def test_deserved_amounts_stay_within_bounds_and_leave_nothing_that_a_weighted_queue_needs(total, queues):
    deserved = filled(total, *queues)
    weights = np.array([queue[0] for queue in queues])
    bounds = np.minimum([queue[1] for queue in queues], [queue[2] for queue in queues])
    assert (deserved <= bounds).all()
    left = np.array(total) - deserved.sum(axis=0)
    assert (left > -1).all()
    if (np.delete(left, 2) < EPSILON).all():
        return  # pods alone are not divided to the last
    wants = (weights > 0) & (bounds - deserved >= EPSILON).T
    assert not ((left >= 1) & wants.any(axis=1)).any()


@given(AMOUNTS, st.lists(st.tuples(st.integers(1, 20), AMOUNTS, LIMITS, AMOUNTS), min_size=1, max_size=5))
def test_water_fill_matches_the_iterative_rule_of_volcano_for_ordinary_weights(total, queues):
    """The rule as it stands in the original, round by round, where weights are ordinary."""
    deserved = filled(total, *queues)
    assert np.allclose(np.delete(deserved, 2, axis=1), np.delete(rounds(total, queues), 2, axis=1), rtol=1e-6, atol=1.0)


def rounds(total, queues):
    weights, requests, limits, guarantees = (np.array(each, dtype=np.float64) for each in zip(*queues, strict=True))
    deserved, remaining = np.zeros_like(requests), np.array(total, dtype=np.float64)
    unmet = list(range(len(queues)))
    while unmet:
        before, whole = deserved.copy(), weights[unmet].sum()
        for row in list(unmet):
            share = np.minimum(before[row] + remaining * weights[row] / whole, np.minimum(limits[row], requests[row]))
            deserved[row] = np.maximum(share, guarantees[row])
            if (requests[row] < deserved[row] + EPSILON).all() or (deserved[row] == before[row]).all():
                unmet.remove(row)
        left = np.maximum(remaining - (deserved - before).sum(axis=0), 0)
        if (left == remaining).all() or (np.delete(left, 2) < EPSILON).all():
            break
        remaining = left
    return deserved

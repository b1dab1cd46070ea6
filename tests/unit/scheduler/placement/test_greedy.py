"""Placing k equal pods at once must be what placing them one after another would be."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast_scheduler.placement.plans import NEVER, greedy
from tests.counts import examples


def one_by_one(scores, room, count):
    """The naive reference: always the best node, the lowest row on ties."""
    taken = [0] * len(scores)
    picks = []
    for _ in range(count):
        open_rows = [row for row in range(len(scores)) if taken[row] < room[row]]
        if not open_rows:
            break
        best = max(open_rows, key=lambda row: (scores[row][taken[row]], -row))
        picks.append(best)
        taken[best] += 1
    return picks


DEPTH = 12


@settings(max_examples=examples(400))
@given(st.integers(1, 12), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_greedy_batch_placement_equals_placing_pods_one_by_one(nodes, count, seed):
    draw = np.random.default_rng(seed)
    grid, limits = draw.integers(0, 6, (nodes, DEPTH)).astype(float), draw.integers(0, DEPTH + 1, nodes)
    first = np.where(limits > 0, grid[:, 0], NEVER)
    picks = greedy(first, count, lambda rows: limits[rows], lambda rows, depth: grid[rows, :depth])
    assert picks.tolist() == one_by_one(grid, limits, count)


@settings(max_examples=200)
@given(st.integers(1, 60), st.integers(1, 900), st.integers(1, 6), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_greedy_picks_the_best_nodes_first_and_the_lowest_rows_on_ties(count, nodes, levels, closed, seed):
    """Ties, and nodes that take nothing, in any order and number: the first of the best, best first."""
    draw = np.random.default_rng(seed)
    first = np.where(draw.random(nodes) < closed, NEVER, draw.integers(0, levels, nodes).astype(float))
    picks = greedy(first, count, lambda rows: np.ones(len(rows), dtype=int), lambda rows, depth: first[rows, None][:, :depth])
    best = sorted(np.flatnonzero(first != NEVER).tolist(), key=lambda row: (-first[row], row))
    assert picks.tolist() == best[:count]


def test_greedy_places_all_pods_on_a_node_whose_score_rises_as_it_fills():
    """A node that gets better as it fills takes all, however many that are."""
    grid = np.arange(3000.0)[None, :].repeat(2, axis=0)
    picks = greedy(grid[:, 0], 2500, lambda rows: np.full(len(rows), 3000), lambda rows, depth: grid[rows, :depth])
    assert picks.tolist() == [0] * 2500


def test_greedy_returns_no_rows_when_no_node_fits():
    nowhere = np.full(3, NEVER)
    assert greedy(nowhere, 1, lambda rows: rows, lambda rows, depth: nowhere).tolist() == []
    assert greedy(nowhere, 5, lambda rows: rows, lambda rows, depth: nowhere).tolist() == []
    assert greedy(np.zeros(0), 1, lambda rows: rows, lambda rows, depth: nowhere).tolist() == []

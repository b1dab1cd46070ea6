"""Scores of hypernodes and their nodes: full ones before empty ones, near ones before far ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pyroclast_scheduler.model.dimensions import Dimensions, Ints
from pyroclast_scheduler.model.hypernodes import HyperNodes
from pyroclast_scheduler.model.node_columns import Columns, Floats


class Sums:
    """Sums over hypernodes as vectors in stored units, calculated on first use.

    The used amounts are updated when nodes change. The idle and future idle amounts are always the amounts at the start of the
    session.
    """

    def __init__(self, columns: Columns, hyper_nodes: HyperNodes) -> None:
        self._hyper_nodes = hyper_nodes
        self._used = columns.used.copy()
        self._changed: list[int] = []  # rows in the order of their changes
        self._used_sums: dict[str, tuple[int, Ints]] = {}
        self.allocatable = _Summed(columns.allocatable, hyper_nodes)
        self.idle, self.future = _Summed(columns.idle(), hyper_nodes), _Summed(columns.future_idle(), hyper_nodes)

    def used(self, name: str) -> Ints:
        """Return the used amounts of a hypernode in the present state."""
        seen, found = self._used_sums.get(name, (-1, None))
        is_same = seen >= 0 and not self._hyper_nodes[name].nodes[self._changed[seen:]].any()
        if found is None or not is_same:
            found = self._used[:, self._hyper_nodes.rows(name)].sum(axis=1)
        self._used_sums[name] = len(self._changed), found
        return found

    def moved(self, row: int, change: Ints | Floats) -> None:
        """Add `change` to the used amounts of node `row`."""
        self._used[:, row] += change.astype(np.int64)
        self._changed.append(row)


class _Summed:
    """Sums over the nodes of hypernodes, by name."""

    def __init__(self, amounts: Ints, hyper_nodes: HyperNodes) -> None:
        self._amounts = amounts
        self._hyper_nodes = hyper_nodes
        self._found: dict[str, Ints] = {}

    def __getitem__(self, name: str) -> Ints:
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self._amounts[:, self._hyper_nodes.rows(name)].sum(axis=1)
        return found


def filling(allocatable: Ints, used: Ints, request: Ints, weights: Sequence[tuple[int, int]]) -> float:
    """Return how full a hypernode would be with `request`, from 0 to 1, over the requested resources; 0 if it does not fit.

    `weights`: pairs of row and weight.
    """
    total = whole = 0.0
    for row, weight in weights:
        if request[row] <= 0:
            continue
        after = used[row] + request[row]
        if after > allocatable[row]:
            return 0.0
        whole += weight
        total += weight * after / allocatable[row]
    return total / whole if whole > 0 else 0.0


def closeness(hyper_nodes: HyperNodes, allocated: str, tasks: Mapping[str, int], whole: int) -> Floats:
    """Return how near each node is to the hypernode `allocated`, from 0 to 1. The nearest nodes get more for tasks beside them.

    Args:
        hyper_nodes: all hypernodes.
        allocated: the hypernode that contains all placed tasks.
        tasks: the number of placed tasks in each lowest hypernode.
        whole: the number of all tasks.
    """
    tiers = hyper_nodes.tiers
    span = tiers[-1] - tiers[0]
    scores = np.zeros(len(hyper_nodes.top.nodes))
    beside = np.zeros_like(scores)
    for name, rows in hyper_nodes.lowest_groups.items():
        common = hyper_nodes.common(name, allocated)
        if name == allocated:
            scores[rows] = 1.0
        elif common:
            scores[rows] = (tiers[-1] - hyper_nodes[common].tier) / span if span else 1.0
        beside[rows] = tasks.get(name, 0)
    is_best = scores == scores.max(initial=0.0)
    if is_best.sum() >= 2 and whole:
        scores = np.where(is_best, scores + beside / whole, scores)
    return scores


def normal(hyper_nodes: HyperNodes, sums: Sums, request: Ints, weights: Sequence[tuple[int, int]], fading: float) -> Floats:
    """Return scores for pods without a topology. Nodes of full hypernodes, or of none, get more.

    The weight of a tier is `fading` times that of the tier below it.
    """
    scores = np.zeros(len(hyper_nodes.top.nodes))
    whole = 0.0
    for tier in hyper_nodes.tiers:
        power = fading ** (tier - 1)
        whole += power
        part = np.ones_like(scores)
        for each in hyper_nodes.of_tier(tier):
            part[hyper_nodes.rows(each.name)] = filling(sums.allocatable[each.name], sums.used(each.name), request, weights)
        scores += power * part
    return scores / whole if whole else scores


def weights_of(weights: Mapping[str, int], dimensions: Dimensions) -> list[tuple[int, int]]:
    """Return the weights of resources, by row of the resource. Resources without a row are left out."""
    return [(row, weight) for name, weight in weights.items() if (row := dimensions.find(name)) is not None]

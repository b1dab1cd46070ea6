"""The fewest evictions that are enough: the same as one trial per item would find, in fewer trials."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product

import pytest

from pyroclast_scheduler.eviction.gangs import fewest, shortest

SEEDS = range(500)


@dataclass
class Amounts:
    """Room as a sum of amounts, of which `bound` are known to be necessary."""

    bound: int
    left: list[int] = field(default_factory=list)

    def leave(self, each: tuple[int, int]) -> None:
        self.left.append(each[1])

    def come_back(self, each: tuple[int, int]) -> None:
        self.left.remove(each[1])

    def is_enough(self) -> bool:
        return sum(self.left) >= self.bound


def one_by_one(items: Sequence[tuple[int, int]], is_enough: Callable[[Sequence[tuple[int, int]]], bool]) -> list[tuple[int, int]]:
    kept = list(items)
    for each in items[:-1]:
        rest = [other for other in kept if other is not each]
        if is_enough(rest):
            kept = rest
    return kept


@pytest.mark.parametrize("most", [1, 2, 7, 40])
def test_shortest_is_the_first_number_that_is_enough(most: int) -> None:
    for least, first in product(range(1, most + 1), range(1, most + 2)):
        tried: list[int] = []

        def is_enough(number: int, tried: list[int] = tried, first: int = first) -> bool:
            tried.append(number)
            return number >= first

        assert shortest(least, most, is_enough) == (max(least, first) if first <= most else None)
        assert len(tried) <= 2 * most.bit_length() + 1


def test_no_trial_is_made_for_items_that_the_room_needs() -> None:
    items = [(i, 1) for i in range(100)]
    room = Amounts(100)
    for each in items:
        room.leave(each)
    assert fewest(items, room, lambda _: pytest.fail("a trial for an item that is needed")) == items


@pytest.mark.parametrize("seed", SEEDS)
def test_fewest_leaves_out_the_same_items_as_one_trial_per_item(seed: int) -> None:
    """The last item is needed, as the items before it are not enough."""
    chance = random.Random(seed)
    items = [(i, chance.randint(1, 9)) for i in range(chance.randint(1, 30))]
    least = max(1, sum(amount for _, amount in items) - chance.choice([0, 1, 5, 50]))
    needed = {i for i, _ in items if i == items[-1][0] or chance.random() < 0.2}
    trials = 0

    def is_enough(some: Sequence[tuple[int, int]]) -> bool:
        nonlocal trials
        trials += 1
        return sum(amount for _, amount in some) >= least and needed <= {i for i, _ in some}

    room = Amounts(max(0, least - chance.choice([0, 1, 20])))
    for each in items:
        room.leave(each)
    expected = one_by_one(items, is_enough)
    trials = 0
    assert fewest(items, room, is_enough) == expected
    assert trials <= 2 * len(items)
    assert sorted(room.left) == sorted(amount for _, amount in expected)


def test_items_that_only_the_room_could_need_are_left_out_in_one_trial() -> None:
    items = [(i, 1) for i in range(1000)]
    room, trials = Amounts(400), 0
    for each in items:
        room.leave(each)

    def is_enough(some: Sequence[tuple[int, int]]) -> bool:
        nonlocal trials
        trials += 1
        return len(some) >= 400

    assert fewest(items, room, is_enough) == items[600:]
    assert trials == 1

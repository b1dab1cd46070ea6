"""The fewest evictions that are enough, found in few trials. A trial that is enough with some evictions is so with more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Room(Protocol[T_contra]):
    """What is free without a trial; `is_enough` is True whenever a trial is enough."""

    def leave(self, each: T_contra) -> None:
        """Free what `each` uses."""

    def come_back(self, each: T_contra) -> None:
        """Undo `leave`."""

    def is_enough(self) -> bool:
        """Whether a trial could be enough now."""


def shortest(least: int, most: int, is_enough: Callable[[int], bool]) -> int | None:
    """Return the smallest number from `least` to `most` for which `is_enough`, the trial, is true; None if there is none.

    After one that is too small, the next one is larger by 1, 2, 4, …
    """
    too_few, number, step = least - 1, least, 1
    while not is_enough(number):
        if number == most:
            return None
        too_few, number, step = number, min(number + step, most), 2 * step
    while number - too_few > 1:
        middle = (too_few + number) // 2
        if is_enough(middle):
            number = middle
        else:
            too_few = middle
    return number


def fewest(items: Sequence[T], room: Room[T], is_enough: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Return those of `items` that are needed: the first ones that are not needed are left out. The last item is needed.

    All items have left `room`, and are enough together. Those that `room` does not need are left out in one trial. If that is
    not enough, half of them are tried.
    """
    kept = list(items)
    open_ranges = [items[:-1]]
    while open_ranges:
        some = open_ranges.pop()
        spare = []
        for i, each in enumerate(some):
            room.come_back(each)
            if room.is_enough():
                spare.append(i)
            else:
                room.leave(each)
        if not spare:
            continue
        without = {id(some[i]) for i in spare}
        rest = [each for each in kept if id(each) not in without]
        if is_enough(rest):
            kept = rest
            continue
        for i in spare:
            room.leave(some[i])
        middle = spare[len(spare) // 2]
        open_ranges += [some[middle + 1 :]] if len(spare) == 1 else [some[middle:], some[:middle]]
    return kept

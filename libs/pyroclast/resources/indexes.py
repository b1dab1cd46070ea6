"""Sets of indexes as text and as ranges, such as `0-9999,20000-20100:5`. No function makes anything as long as a range.

The indexes that a user writes are ranges, which may have a step. Sets of them, as a status keeps them, are spans: pairs of a
first index and the index after the last, ascending and disjoint. A span means those indexes of the user that lie in it, so that
a set of every second index is as short as one without gaps.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

Ranges: TypeAlias = tuple[range, ...]
"""Ascending, disjoint ranges, each with at least one index."""
Spans: TypeAlias = tuple[tuple[int, int], ...]

_PART: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([1-9][0-9]{0,8}))?)?")


def parse(text: str) -> Ranges:
    """Return the ranges of `text`.

    Raises ValueError: a part is no range, is empty, or does not follow the part before it.
    """
    ranges: list[range] = []
    before = -1
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f'"{part[:40]}" is no index and no range such as 0-9 or 0-9:3')
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f'"{part}" ends before it begins')
        if first <= before:
            raise ValueError(f'"{part}" does not follow {before}')
        before = last
        ranges.append(range(first, last + 1, int(match[3] or 1)))
    return tuple(ranges)


def lenient(text: str) -> Ranges:
    """Return the ranges of `text` from an object that admission has not checked: what cannot be read has no index."""
    try:
        return parse(text) if text else ()
    except ValueError:
        return ()


def extends(ranges: Ranges, before: Ranges) -> bool:
    """Whether `ranges` are `before` with further indexes after its last. The last range of `before` may be longer."""
    if not before or ranges[: len(before) - 1] != before[:-1] or len(ranges) < len(before):
        return not before
    old, new = before[-1], ranges[len(before) - 1]
    is_single = len(old) == 1 or old.step == new.step
    return new.start == old.start and len(new) >= len(old) and is_single


def contains(ranges: Ranges, index: int) -> bool:
    """Whether `index` is one of `ranges`."""
    position = bisect_right(ranges, index, key=lambda each: each.start) - 1
    return position >= 0 and index in ranges[position]


def number(ranges: Iterable[range]) -> int:
    """Return the number of indexes of `ranges`."""
    return sum(map(len, ranges))


def within(ranges: Ranges, spans: Spans) -> int:
    """Return how many indexes of `ranges` lie in `spans`."""
    total, position = 0, 0
    for first, stop in spans:
        while position < len(ranges) and ranges[position][-1] < first:
            position += 1
        at = position
        while at < len(ranges) and ranges[at].start < stop:
            total += _before(ranges[at], stop) - _before(ranges[at], first)
            at += 1
    return total


def outside(ranges: Ranges, spans: Spans) -> Iterator[int]:
    """Yield the indexes of `ranges` outside of `spans`, in ascending order; each span is passed over in one step."""
    position = 0
    for each in ranges:
        index = each.start
        while index < each.stop:
            while position < len(spans) and spans[position][1] <= index:
                position += 1
            if position < len(spans) and spans[position][0] <= index:
                index = each.start + _before(each, spans[position][1]) * each.step
            else:
                yield index
                index += each.step


def spans_of(indexes: Iterable[int]) -> Spans:
    """Return `indexes`, in ascending order, as spans."""
    return union(((index, index + 1) for index in indexes), ())


def read(text: str) -> Spans:
    """Return the spans in `text`, the form in a status."""
    return tuple((each.start, each[-1] + 1) for each in lenient(text))


def written(spans: Spans) -> str:
    """Return `spans` as text, such as `0-4,7`."""
    return ",".join(f"{first}-{stop - 1}" if first + 1 < stop else f"{first}" for first, stop in spans)


def union(one: Iterable[tuple[int, int]], other: Iterable[tuple[int, int]]) -> Spans:
    """Return the indexes in `one` or `other`."""
    merged: list[tuple[int, int]] = []
    for first, stop in sorted((*one, *other)):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((first, stop))
    return tuple(merged)


def without(spans: Spans, others: Spans) -> Spans:
    """Return the indexes in `spans` and not in `others`."""
    left: list[tuple[int, int]] = []
    position = 0
    for first, stop in spans:
        while position < len(others) and others[position][1] <= first:
            position += 1
        at = position
        while at < len(others) and others[at][0] < stop:
            if first < others[at][0]:
                left.append((first, others[at][0]))
            first = others[at][1]
            at += 1
        if first < stop:
            left.append((first, stop))
    return tuple(left)


def has(spans: Spans, index: int) -> bool:
    """Whether `index` lies in `spans`."""
    position = bisect_right(spans, index, key=lambda span: span[0]) - 1
    return position >= 0 and index < spans[position][1]


def joined(ranges: Ranges, spans: Spans) -> Spans:
    """Return `spans` with as few spans as possible: gaps without an index of `ranges` are closed, and the ends cut to indexes."""
    result: list[tuple[int, int]] = []
    for first, stop in spans:
        begin, end = _next(ranges, first), _last(ranges, stop)
        if begin is None or end is None or begin > end:
            continue
        if result and _next(ranges, result[-1][1]) == begin:
            result[-1] = result[-1][0], end + 1
        else:
            result.append((begin, end + 1))
    return tuple(result)


def _next(ranges: Ranges, index: int) -> int | None:
    """Return the first index of `ranges` at or after `index`; None when there is none."""
    position = max(0, bisect_right(ranges, index, key=lambda each: each.start) - 1)
    for each in ranges[position : position + 2]:
        if each[-1] >= index:
            return each[_before(each, index)]
    return None


def _last(ranges: Sequence[range], stop: int) -> int | None:
    """Return the last index of `ranges` before `stop`; None when there is none."""
    position = bisect_right(ranges, stop - 1, key=lambda each: each.start) - 1
    return ranges[position][_before(ranges[position], stop) - 1] if position >= 0 else None


def _before(each: range, index: int) -> int:
    """Return how many indexes of `each` are less than `index`."""
    return min(len(each), max(0, -(-(index - each.start) // each.step)))

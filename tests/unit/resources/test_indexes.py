"""Ranges and spans of indexes mean the sets that they would be if somebody counted them out."""

from __future__ import annotations

import time
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.resources import indexes
from pyroclast.resources.indexes import Ranges, Spans

Parts: TypeAlias = list[tuple[int, int, int]]
SETS = st.frozensets(st.integers(0, 60), max_size=30)
PARTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 12), st.integers(1, 4)), min_size=1, max_size=5)


def ranges_of(parts: Parts) -> Ranges:
    begin, texts = 0, []
    for gap, length, step in parts:
        first, last = begin + gap, begin + gap + length
        texts.append(f"{first}-{last}:{step}")
        begin = last + 1
    return indexes.parse(",".join(texts))


def counted(spans: Spans) -> set[int]:
    return {index for first, stop in spans for index in range(first, stop)}


@given(PARTS, SETS, SETS)
def test_operations_on_spans_are_those_of_sets(parts: Parts, one: frozenset[int], other: frozenset[int]) -> None:
    ranges = ranges_of(parts)
    members = [index for each in ranges for index in each]
    spans, others = indexes.spans_of(sorted(one)), indexes.spans_of(sorted(other))
    assert counted(spans) == one
    assert indexes.read(indexes.written(spans)) == spans
    assert counted(indexes.union(spans, others)) == one | other
    assert counted(indexes.without(spans, others)) == one - other
    assert indexes.number(ranges) == len(members)
    assert indexes.within(ranges, spans) == len(one.intersection(members))
    assert list(indexes.outside(ranges, spans)) == [index for index in members if index not in one]
    for index in range(-1, 62):
        assert indexes.contains(ranges, index) == (index in members)
        assert indexes.has(spans, index) == (index in one)


@given(PARTS, SETS)
def test_joined_spans_mean_the_same_indexes_with_as_few_spans_as_possible(parts: Parts, one: frozenset[int]) -> None:
    ranges = ranges_of(parts)
    members = [index for each in ranges for index in each]
    joined = indexes.joined(ranges, indexes.spans_of(sorted(one)))
    assert {index for index in members if indexes.has(joined, index)} == one.intersection(members)
    begins = [index for before, index in zip([None, *members], members, strict=False) if index in one and before not in one]
    assert len(joined) == len(begins)


@pytest.mark.parametrize(
    "text", ["", "a", "1-", "-1", "3-1", "0-5:0", "1,1", "0-5,3", "5,0-3", "0-1234567890", "0 - 3", "0-5,", "٣"]
)
def test_text_that_is_no_ascending_ranges_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"index|ends|follow"):
        indexes.parse(text)
    assert indexes.lenient(text) == ()


@pytest.mark.parametrize(
    ("before", "after", "is_extended"),
    [
        ("0-9", "0-9", True),
        ("0-9", "0-19,30", True),
        ("0-10:5", "0-20:5", True),
        ("3", "3-9:2", True),
        ("0-9", "0-8", False),
        ("0-10:5", "0-20:2", False),
        ("0-9,20", "0-9", False),
        ("0-9,20", "0-12,20", False),
    ],
)
def test_ranges_extend_others_only_behind_their_last_index(before: str, after: str, is_extended: bool) -> None:
    assert indexes.extends(indexes.parse(after), indexes.parse(before)) is is_extended


def test_a_billion_indexes_cost_no_more_than_their_text() -> None:
    began = time.perf_counter()
    ranges = indexes.parse("0-999999999:3")
    every_second = tuple((index, index + 1) for index in range(0, 200_000, 2))
    assert indexes.number(ranges) == 333_333_334
    assert next(indexes.outside(ranges, ((0, 999_999_000),))) == 999_999_000
    assert indexes.within(ranges, every_second) > 30_000
    assert len(indexes.joined(ranges, every_second)) > 30_000
    assert time.perf_counter() - began < 5

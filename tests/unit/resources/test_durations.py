from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.resources.durations import DurationError, nanoseconds, shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [("15s", 15 * 10**9), ("1h30m", 5400 * 10**9), ("1.5h", 5400 * 10**9), ("-2m", -120 * 10**9), ("0", 0), ("+.5s", 5 * 10**8)],
)
def test_durations_are_parsed_as_in_go(text: str, expected: int) -> None:
    assert nanoseconds(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("15", 'time: missing unit in duration "15"'),
        ("1x", 'time: unknown unit "x" in duration "1x"'),
        ("1s 2m", 'time: unknown unit "s " in duration "1s 2m"'),
        (".s", 'time: invalid duration ".s"'),
        ("9999999h", 'time: invalid duration "9999999h"'),
    ],
)
def test_invalid_durations_raise_the_error_message_of_go(text: str, message: str) -> None:
    with pytest.raises(DurationError) as caught:
        nanoseconds(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("duration", "text"),
    [(0, "0s"), (1, "1ns"), (1500, "1.5µs"), (25 * 10**7, "250ms"), (-90_500_000_000, "-1m30.5s"), (5400 * 10**9, "1h30m0s")],
)
def test_durations_are_formatted_as_in_go(duration: int, text: str) -> None:
    assert shown(duration) == text


@given(st.integers(1 - 2**63, 2**63 - 1))
def test_a_formatted_duration_parses_to_the_same_value(duration: int) -> None:
    assert nanoseconds(shown(duration)) == duration

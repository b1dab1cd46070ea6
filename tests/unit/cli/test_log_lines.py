"""Lines of logs by time, each once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyroclast_cli.views.logs import LogLine, Printed, in_order, read_line


@pytest.mark.parametrize(
    ("line", "at", "text"),
    [
        ("1970-01-01T00:00:05Z a b", (5, 0), "a b"),
        ("1970-01-01T00:00:05.1Z a", (5, 100_000_000), "a"),
        ("1970-01-01T00:00:05.000000001Z a", (5, 1), "a"),
        ("1970-01-01T02:00:05.5+02:00 a", (5, 500_000_000), "a"),
        ("1970-01-01T00:00:05Z", (5, 0), ""),
        ("no time at all", (0, 0), "no time at all"),
        ("1970-01-01T00:00:05 zone", (0, 0), "1970-01-01T00:00:05 zone"),
        ("", (0, 0), ""),
    ],
)
def test_log_line_is_split_into_time_and_text(line, at, text):
    read = read_line(line)
    assert (read.at, read.text) == (at, text)


def lines(*pairs):
    return [LogLine((at, 0), text, str(at)) for at, text in pairs]


def test_log_lines_already_printed_are_skipped_when_a_log_is_read_again():
    printed = Printed()
    first = lines((1, "a"), (2, "b"), (2, "c"))
    assert [each.text for each in first if printed.is_new(each)] == ["a", "b", "c"]
    printed.begin()
    again = lines((2, "b"), (2, "c"), (2, "d"), (3, "e"))
    assert [each.text for each in again if printed.is_new(each)] == ["d", "e"]
    printed.begin()
    assert [each.text for each in lines((3, "e"), (3, "f")) if printed.is_new(each)] == ["f"]


def test_log_line_without_a_time_is_always_printed():
    printed = Printed()
    assert all(printed.is_new(each) for each in (*lines((1, "a")), read_line("torn"), read_line("lines")))


async def test_several_logs_are_merged_in_time_order():
    async def log(prefix: str, *pairs: tuple[int, str]) -> AsyncIterator[tuple[str, LogLine]]:
        for line in lines(*pairs):
            yield prefix, line

    logs = [log("x", (1, "a"), (4, "d"), (0, "torn"), (9, "i")), log("y", (2, "b"), (3, "c"), (8, "h")), log("z")]
    assert [line.text async for _, line in in_order(logs)] == ["a", "b", "c", "d", "torn", "h", "i"]

"""Orders log lines by their times and removes repeated lines. Pure."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

DIGITS: Final = 9
EARLIEST: Final = (0, 0)


@dataclass(frozen=True, slots=True, order=True)
class LogLine:
    """One line. `at` is its time in whole seconds since the epoch and nanoseconds. `stamp` is the time as the node wrote it."""

    at: tuple[int, int]
    text: str
    stamp: str = field(default="", compare=False)


def read_line(line: str) -> LogLine:
    """Parse a line of a node's log with `timestamps`: RFC 3339 with up to nine digits, a space, the text.

    A line without a time has the time of the line before it, so that no line is lost.
    """
    stamp, _, text = line.partition(" ")
    whole, dot, rest = stamp.partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789")) if dot else 0
    try:
        seconds = datetime.fromisoformat(whole + (rest[digits:] if dot else ""))
    except ValueError:
        return LogLine(EARLIEST, line)
    if seconds.tzinfo is None:
        return LogLine(EARLIEST, line)
    return LogLine((int(seconds.timestamp()), int(rest[:digits].ljust(DIGITS, "0")[:DIGITS] or 0)), text, stamp)


@dataclass(slots=True)
class Printed:
    """The printed lines of one container, so that a log that is read again continues after the last printed line.

    Attributes:
        last: the newest line. A log is read again from the time of this line.
        count: how many lines have exactly that time.
    """

    last: LogLine = field(default_factory=lambda: LogLine(EARLIEST, ""))
    count: int = 0
    _skipped: int = 0

    def begin(self) -> None:
        """Prepare for a log that is read from its beginning, or from the time of `last`."""
        self._skipped = 0

    def is_new(self, line: LogLine) -> bool:
        """Return whether a line of the log was not printed yet, and record the line as printed."""
        at = line.at if line.at != EARLIEST else self.last.at
        if at < self.last.at:
            return False
        if at > self.last.at:
            self.last, self.count, self._skipped = LogLine(at, line.text, line.stamp), 1, 1
            return True
        self._skipped += 1
        if self._skipped <= self.count:
            return False
        self.count = self._skipped
        return True


async def in_order(logs: Sequence[AsyncIterator[tuple[str, LogLine]]]) -> AsyncIterator[tuple[str, LogLine]]:
    """Yield the lines of several logs in the order of their times. Of each log, only the next line is in memory."""
    heap: list[tuple[tuple[int, int], int, str, LogLine]] = []
    latest = [EARLIEST] * len(logs)

    async def take(index: int) -> None:
        try:
            prefix, line = await anext(logs[index])
        except StopAsyncIteration:
            return
        latest[index] = max(latest[index], line.at)  # the times of one log never decrease
        heapq.heappush(heap, (latest[index], index, prefix, line))

    for index in range(len(logs)):
        await take(index)
    while heap:
        _, index, prefix, line = heapq.heappop(heap)
        yield prefix, line
        await take(index)

"""Lines of logs with the times at which they were written: in one order, and none twice; pure but for what it is given."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

__all__ = ["EARLIEST", "LogLine", "Printed", "in_order", "read_line"]

DIGITS: Final = 9
EARLIEST: Final = (0, 0)


@dataclass(frozen=True, slots=True, order=True)
class LogLine:
    """One line. `at`: whole seconds since the epoch, and nanoseconds; `stamp` as the node wrote it."""

    at: tuple[int, int]
    text: str
    stamp: str = field(default="", compare=False)


def read_line(line: str) -> LogLine:
    """A line as nodes give it with `timestamps`: RFC 3339 with up to nine digits, a space, the text.

    A line without a time counts as written with the one before it, so that nothing is lost.
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
    """What was printed of one container, so that a log that is read again goes on where it ended.

    Attributes:
        last: the newest line. Logs are read again from its time on.
        count: how many lines were written at that very time.
    """

    last: LogLine = field(default_factory=lambda: LogLine(EARLIEST, ""))
    count: int = 0
    _skipped: int = 0

    def begin(self) -> None:
        """The log is read from its beginning, or from `last` on."""
        self._skipped = 0

    def is_new(self, line: LogLine) -> bool:
        """Whether this line was not printed yet; it counts as printed from now on."""
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
    """The lines of several logs by their times; of each log only the next line is held."""
    heap: list[tuple[tuple[int, int], int, str, LogLine]] = []
    latest = [EARLIEST] * len(logs)

    async def take(index: int) -> None:
        try:
            prefix, line = await anext(logs[index])
        except StopAsyncIteration:
            return
        latest[index] = max(latest[index], line.at)  # times of one log never go back
        heapq.heappush(heap, (latest[index], index, prefix, line))

    for index in range(len(logs)):
        await take(index)
    while heap:
        _, index, prefix, line = heapq.heappop(heap)
        yield prefix, line
        await take(index)

"""The hours of a day in which revocable nodes may be used, as the configuration writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_CLOCK: Final = re.compile(r"(\d{1,2}):(\d{2})")
_DAY: Final = 24 * 3600


@dataclass(frozen=True, slots=True)
class Window:
    """A time of day: from `start`, in seconds since midnight, for `length` seconds, possibly beyond midnight."""

    start: int
    length: int

    def holds(self, second: float) -> bool:
        """Whether `second` since midnight is within the window, ends included."""
        return (second - self.start) % _DAY <= self.length


def parse(text: str) -> Window:
    """Parse a window such as `22:00-6:30`. An end that is not after the start is on the next day.

    Raises:
        ValueError: the text is malformed.
    """
    parts = [_CLOCK.fullmatch(part) for part in text.strip().split("-")]
    times = [(int(each[1]), int(each[2])) for each in parts if each]
    if len(parts) != 2 or len(times) != 2 or any(hour > 23 or minute > 59 for hour, minute in times):
        raise ValueError(f"{text!r} is not two times of day such as 22:00-6:30")
    start, end = (hour * 3600 + minute * 60 for hour, minute in times)
    return Window(start, (end - start) % _DAY or _DAY)

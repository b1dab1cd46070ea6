"""What a pod used in an hour, by what was measured of it, and which hours a measurement changes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from pyroclast_recorder.database.tables import Row
from pyroclast_recorder.hourly_usage import DAY, Held, hours_between

__all__ = ["OF_THE_WHOLE_RUN", "means_in", "measured_hours"]

OF_THE_WHOLE_RUN: Final = "prometheus"
"""The source whose rows tell of a pod from its beginning to its end."""

_LEAST: Final = 3


def means_in(hour: int, rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    """By pod and resource, the mean use in an hour: of its day, else of the last day before, else of the first one after.

    Rows of one day, of several replicas one after the other, count together. Fewer than 3 samples say nothing.
    """
    by_day: dict[tuple[str, str], dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_day[row["pod"], row["resource"]][row["since"] // DAY].append(row)
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for (pod, resource), days in by_day.items():
        before = [day for day in days if day <= hour // DAY]
        of_day = days[max(before) if before else min(days)]
        samples = sum(row["samples"] for row in of_day)
        if samples >= _LEAST:
            found[pod][resource] = sum(row["mean"] * row["samples"] for row in of_day) // samples
    return found


def measured_hours(use: Row, time: Held, now: int) -> range:
    """The hours that have to be added up anew when a measurement of a pod is written.

    While the pod runs, and the day of the measurement lasts, these are none: its last hour is added up anyway, and the others of
    the day when it ends.
    """
    if use["source"] == OF_THE_WHOLE_RUN:
        return hours_between(time.begin, now if time.end is None else time.end)
    day_ends = (use["since"] // DAY + 1) * DAY - 1
    if time.end is None and now <= day_ends:
        return range(0)
    end = min(now if time.end is None else time.end, day_ends)
    return hours_between(min(max(time.begin, use["since"] // DAY * DAY), end), end)

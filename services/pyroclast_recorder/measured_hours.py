"""The measured use of a pod in an hour, and the hours that a new measurement changes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from pyroclast_recorder.database.tables import Row
from pyroclast_recorder.hourly_usage import DAY, Held, hours_between

OF_THE_WHOLE_RUN: Final = "prometheus"
"""The source of rows that cover the whole run of a pod."""

_LEAST: Final = 3


def means_in(hour: int, rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    """Return the mean use of each pod in an hour, by pod and resource.

    The samples of the day of the hour are used, else of the last day before, else of the first day after. The rows of one day,
    which several replicas may write, are combined. Days with fewer than 3 samples are ignored.
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
    """Return the first second of each hour that must be added up again when a measurement of a pod is written.

    The result is empty while the pod runs on the day of the measurement. The last hour of a running pod is added up in any case,
    and the other hours of the day are added up at the end of the day or of the pod.
    """
    if use["source"] == OF_THE_WHOLE_RUN:
        return hours_between(time.begin, now if time.end is None else time.end)
    day_ends = (use["since"] // DAY + 1) * DAY - 1
    if time.end is None and now <= day_ends:
        return range(0)
    end = min(now if time.end is None else time.end, day_ends)
    return hours_between(min(max(time.begin, use["since"] // DAY * DAY), end), end)

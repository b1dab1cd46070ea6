"""From when until when a pod held what it asked for, and what that makes in an hour."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast_recorder.hourly_usage import HOUR, Held, HourUsage, changed_hours, held, intervals

TEN = 10 * HOUR


def pod(bound: int | None = TEN, **columns: object) -> dict[str, object]:
    row = {"bound": bound, "released_low": None, "released_high": None, "finished": None, "queue": None, "namespace": "ns"}
    return {**row, "requests": '{"cpu":2000}', **columns}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (pod(bound=None), None),
        (pod(), Held(TEN, None)),
        (pod(finished=TEN + 50, released_high=TEN + 60), Held(TEN, TEN + 50)),
        (pod(finished=TEN - 50, released_high=TEN + 60), Held(TEN, TEN)),
        (pod(started=TEN - 598, finished=TEN + 3000, released_high=TEN + 3605), Held(TEN, TEN + 3598)),
        (pod(finished=TEN + 99, released_high=TEN + 60), Held(TEN, TEN + 60)),
        (pod(finished=TEN + 10, released_low=TEN + 30, released_high=TEN + 60), Held(TEN, TEN + 30)),
        (pod(released_low=TEN + 20, released_high=TEN + 61), Held(TEN, TEN + 40, 21)),
        (pod(released_high=TEN + 60), Held(TEN, TEN + 30, 30)),
        (pod(released_low=TEN + 90, released_high=TEN + 60), Held(TEN, TEN + 60)),
        (pod(released_high=TEN - 60), Held(TEN, TEN)),
    ],
    ids=[
        "never bound",
        "still runs",
        "ended by its node's word",
        "a node's clock that is behind",
        "a node's clock that is ten minutes behind, by the start that it reports",
        "a node's clock that is ahead",
        "a node that says it ended before it was last seen",
        "nobody saw the end",
        "nobody saw the end, and nothing before",
        "a clock that jumped back",
        "gone before it was bound, by a clock that jumped",
    ],
)
def test_pod_hold_time_runs_from_binding_to_finish_or_the_middle_of_its_release_window(
    row: dict[str, object], expected: Held | None
) -> None:
    assert held(row) == expected


def test_hourly_usage_counts_only_pod_seconds_within_the_hour() -> None:
    usage = HourUsage(TEN, now=TEN + 2000)
    usage.add(pod(TEN - 100, finished=TEN + 50, released_high=TEN + 60), None)
    usage.add(pod(TEN + 1000), {"queue": "red", "submitted_by": "ann", "owner_kind": "JobFlow", "owner_name": "f"})
    usage.add(pod(TEN - HOUR, finished=TEN - 1, released_high=TEN), None)
    usage.add(pod(TEN + 5, released_low=TEN + 5, released_high=TEN + 15), None)
    keys = ("queue", "namespace", "submitted_by", "flow", "resource", "asked", "doubtful")
    assert [tuple(row[key] for key in keys) for row in usage.rows()] == [
        ("default", "ns", "unknown", "", "cpu", 2000 * (50 + 5), 2000 * 5),
        ("red", "ns", "ann", "f", "cpu", 2000 * 1000, 0),
    ]


times = st.integers(0, 8 * HOUR)
sizes = st.lists(st.tuples(times, st.integers(1, 3)), max_size=3)
views = st.none() | st.tuples(times, st.none() | times, sizes)


def resized(begin: int, end: int | None, sizes: list[tuple[int, int]]) -> dict[str, object]:
    """A pod of 2 cores that is resized at the times `sizes`."""
    seen = [[0, 0, '{"cpu":2000}', None], *([at, at, f'{{"cpu":{cores}000}}', None] for at, cores in sorted(sizes))]
    ends = {} if end is None else {"finished": end, "released_high": end}
    return pod(begin, states=orjson.dumps(seen).decode(), **ends)


@given(old=views, new=views, now=st.integers(8 * HOUR, 9 * HOUR))
def test_changed_hours_include_every_hour_whose_usage_changes(old: Any, new: Any, now: int) -> None:
    def usage(view: Any, hour: int) -> list[dict[str, Any]]:
        found = HourUsage(hour, now)
        if view is not None:
            found.add(resized(*view), None)
        return found.rows()

    changed = {hour for hour in range(0, 10 * HOUR, HOUR) if usage(old, hour) != usage(new, hour)}
    before, after = ([] if view is None else intervals(resized(*view), None) for view in (old, new))
    assert changed <= set(changed_hours(before, after, now))


@given(st.lists(st.tuples(times, times), max_size=20))
def test_hourly_usage_adds_up_to_the_total_hold_time(spans: list[tuple[int, int]]) -> None:
    rows = [pod(min(span), finished=max(span), released_high=max(span)) for span in spans]
    total = 0
    for hour in range(0, 9 * HOUR, HOUR):
        usage = HourUsage(hour, now=9 * HOUR)
        for row in rows:
            usage.add(row, None)
        total += sum(each["asked"] for each in usage.rows())
    assert total == sum(2000 * (max(span) - min(span)) for span in spans)


def test_hourly_usage_is_pod_requests_times_seconds_per_resource() -> None:
    usage = HourUsage(TEN, now=TEN + 10)
    usage.add(pod(requests=orjson.dumps({"nvidia.com/gpu": 8000, "memory": 64}).decode()), None)
    assert {row["resource"]: row["asked"] for row in usage.rows()} == {"nvidia.com/gpu": 80_000, "memory": 640}

"""The times of schedules, in zones whose clocks are changed, and which of them is due."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pyroclast.lifecycle.cron.clock import Clock, Due, Missed, ScheduleError, due, wait
from pyroclast.resources.cron import Every, parse, split_zone

T = datetime(2025, 3, 11, 10, tzinfo=UTC).timestamp()  # a Tuesday
MINUTE, HOUR = 60, 3600


def clock(schedule, zone="UTC"):
    return Clock(parse(schedule), ZoneInfo(zone))


def at(text, zone="UTC"):
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


NEXT = {
    "the next minute, strictly later": ("* * * * *", "UTC", "2025-03-11 10:00", ["2025-03-11 10:01"]),
    "wraps to the next hour": ("5 * * * *", "UTC", "2025-03-11 10:05", ["2025-03-11 11:05"]),
    "wraps to the next year": ("@yearly", "UTC", "2025-03-11 10:05", ["2026-01-01 00:00", "2027-01-01 00:00"]),
    "29 February": ("0 0 29 2 *", "UTC", "2025-03-11 10:00", ["2028-02-29 00:00", "2032-02-29 00:00"]),
    "either day field if both are restricted": (
        "0 0 13 * 5",
        "UTC",
        "2025-03-11 10:00",
        ["2025-03-13 00:00", "2025-03-14 00:00"],
    ),
    "both day fields when one is a star": ("0 0 * * 5", "UTC", "2025-03-11 10:00", ["2025-03-14 00:00", "2025-03-21 00:00"]),
    "a star with a step is no star": ("0 0 */2 * 5", "UTC", "2025-03-11", ["2025-03-13 00:00", "2025-03-14 00:00"]),
    "local time": ("0 9 * * *", "Asia/Tokyo", "2025-03-11 10:00", ["2025-03-12 00:00"]),
    "a time that the clocks leave out does not come": ("30 2 * * *", "Europe/Berlin", "2025-03-29 12:00", ["2025-03-31 00:30"]),
    "a time that the clocks repeat comes twice": (
        "30 2 * * *",
        "Europe/Berlin",
        "2025-10-25 12:00",
        ["2025-10-26 00:30", "2025-10-26 01:30", "2025-10-27 01:30"],
    ),
    "a midnight that does not exist": ("0 0 * * *", "America/Sao_Paulo", "2018-11-03 12:00", ["2018-11-05 02:00"]),
    "half an hour back": ("45 1 * * *", "Australia/Lord_Howe", "2025-04-05 12:00", ["2025-04-05 14:45", "2025-04-05 15:15"]),
    "back over midnight": (
        "0 0 * * *",
        "America/St_Johns",
        "2006-10-28 12:00",
        ["2006-10-29 02:30", "2006-10-29 03:30", "2006-10-30 03:30"],
    ),
}


@pytest.mark.parametrize(("schedule", "zone", "after", "want"), NEXT.values(), ids=NEXT.keys())
def test_next_run_time_follows_the_schedule_in_its_time_zone(schedule, zone, after, want):
    moment = at(after)
    for text in want:
        moment = clock(schedule, zone).next(moment)
        assert datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M") == text


@pytest.mark.parametrize("schedule", ["0 0 31 2 *", ", * * * *"])
def test_schedule_that_never_fires_has_no_next_run_time(schedule):
    assert clock(schedule).next(T) is None


def test_period_of_an_every_schedule_counts_whole_seconds_from_the_last_run_time():
    assert parse("@every 1h30m10.9s") == Every(5410)
    assert parse("@every -5s") == parse("@every 10ms") == Every(1)
    assert Clock(Every(90)).next(T + 0.7) == T + 90
    assert Clock(Every(90)).latest(T, T + 1000) == T + 990


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("TZ=UTC 0 20 * * *", ("UTC", "0 20 * * *")),
        ("CRON_TZ=Asia/Tokyo  @daily", ("Asia/Tokyo", "@daily")),
        ("0 20 * * *", (None, "0 20 * * *")),
        ("TZ= * * * * *", ("", "* * * * *")),
    ],
)
def test_time_zone_prefix_is_split_from_the_schedule(text, want):
    assert split_zone(text) == want


ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu", "Africa/Cairo"]


@settings(max_examples=150)
@given(
    st.sampled_from(["*/7 * * * *", "30 2 * * *", "0 0 * * *", "15,45 1-3 * * *", "0 */5 * * 0", "59 23 * * *", "0 1 26 10 *"]),
    st.sampled_from(ZONES),
    st.integers(0, 4 * 366 * 96),
)
def test_next_run_time_is_the_first_minute_whose_local_time_matches_the_schedule(schedule, zone, quarter):
    fields, here = parse(schedule), ZoneInfo(zone)
    after = at("2016-01-01 00:00") + 900.0 * quarter
    found = Clock(fields, here).next(after)
    assert found is not None
    assume(found - after < 4 * 86400)

    def fits(moment):
        wall = datetime.fromtimestamp(moment, here)
        day = fields.fits_day(wall.day, wall.isoweekday() % 7)
        return wall.minute in fields.minutes and wall.hour in fields.hours and wall.month in fields.months and day

    minute = timedelta(minutes=1).total_seconds()
    assert fits(found)
    moment = after + minute
    while moment < found:
        assert not fits(moment)
        moment += minute


@settings(max_examples=100)
@given(st.sampled_from(["*/5 * * * *", "0 9 * * 1-5", "@every 7m", "30 2 * * *"]), st.integers(0, 500), st.integers(0, 3000))
def test_latest_run_time_equals_the_last_of_the_successive_next_run_times(schedule, begin, length):
    each, after, until = clock(schedule, "Europe/Berlin"), T + 60.0 * begin, T + 60.0 * (begin + length)
    want, moment = None, each.next(after)
    while moment is not None and moment <= until:
        want, moment = moment, each.next(moment)
    assert each.latest(after, until) == want


DUE = {
    "nothing yet": ("0 * * * *", 0, 30, None, Missed.NONE),
    "the first": ("0 * * * *", 0, 61 * MINUTE, 60 * MINUTE, Missed.NONE),
    "the last of a few": ("0 * * * *", 10, 301 * MINUTE, 300 * MINUTE, Missed.FEW),
    "a day later": ("30 6-16/4 * * 1-5", 30 * MINUTE, 24 * HOUR + 31 * MINUTE, 24 * HOUR + 30 * MINUTE, Missed.FEW),
    "the last of times of unequal distance": (
        "30 10,11,12 * * 1-5",
        30 * MINUTE,
        30 * HOUR + 30 * MINUTE,
        26 * HOUR + 30 * MINUTE,
        Missed.FEW,
    ),
    "of two days a month, a month later": ("0 0 1,2 * *", 0, 40 * 24 * HOUR, 21 * 24 * HOUR + 14 * HOUR, Missed.FEW),
    "after a weekend": ("30 6-16/4 * * 1-5", 30 * MINUTE, 96 * HOUR + 31 * MINUTE, 76 * HOUR + 30 * MINUTE, Missed.FEW),
    "more than a hundred": ("@every 1h", MINUTE, 168 * HOUR, 167 * HOUR + MINUTE, Missed.MANY),
}


@pytest.mark.parametrize(("schedule", "last", "now", "want", "missed"), DUE.values(), ids=DUE.keys())
def test_due_returns_the_latest_run_time_and_whether_few_or_many_were_missed(schedule, last, now, want, missed):
    found = due(clock(schedule), earliest=T + last, now=T + now)
    assert found == Due(T + last, None if want is None else T + want, missed)


def test_run_time_older_than_the_deadline_is_not_due():
    found = due(clock("*/5 * * * *"), earliest=T + 30 * MINUTE, now=T + 32 * MINUTE, deadline=60)
    assert found == Due(T + 31 * MINUTE, None, Missed.NONE)


def test_schedule_that_never_fires_raises_an_error_and_has_no_wait():
    with pytest.raises(ScheduleError, match="time difference between two schedules is less than 1 second"):
        due(clock("59 23 31 2 *"), earliest=T + 10, now=T + HOUR)
    assert wait(clock("59 23 31 2 *"), earliest=T, now=T) is None


@pytest.mark.parametrize(
    ("schedule", "last", "now", "want"),
    [
        ("30 6-16/4 * * 1-5", 30 * MINUTE, 24 * HOUR + 31 * MINUTE, 3 * HOUR + 59 * MINUTE),
        ("30 10,11,12 * * 1-5", 30 * MINUTE, 30 * HOUR + 30 * MINUTE, 18 * HOUR),
        ("0 12 * * 2", 2 * HOUR, 19 * 24 * HOUR + HOUR + 30 * MINUTE, 48 * HOUR + 30 * MINUTE),
        ("0 12 * * 3", 0, 6 * HOUR, 20 * HOUR),
        ("*/1 * * * *", 0, 0, MINUTE),
        ("@every 3m", 0, 0, 3 * MINUTE),
    ],
)
def test_wait_lasts_until_just_after_the_next_run_time(schedule, last, now, want):
    assert wait(clock(schedule), earliest=T + last, now=T + now) == pytest.approx(want + 0.1, abs=1e-3)

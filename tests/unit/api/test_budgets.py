"""Budgets as annotations of queues say them: what is read, what is refused, and when periods begin."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.api.budgets import (
    AtEnd,
    BudgetError,
    Period,
    Spent,
    WhenUnknown,
    budget_faults,
    hours_text,
    period_at,
    read_budget,
    read_hours,
    read_spent,
    written_spent,
    zoned,
)

GPU = "nvidia.com/gpu"


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_budget_with_all_fields_is_parsed() -> None:
    budget = read_budget(
        '{"period":"month","zone":"Europe/Berlin","limits":{"nvidia.com/gpu":"5000h","memory":"64Gih"},'
        '"atEnd":"low","warnAt":[0.95,0.8],"whenUnknown":"hold"}'
    )
    assert (budget.period, budget.zone, budget.at_end) == (Period.MONTH, "Europe/Berlin", AtEnd.LOW)
    assert budget.limits == {GPU: 5000.0, "memory": 64 * 2**30}
    assert budget.warn_at == (0.8, 0.95)
    assert budget.when_unknown is WhenUnknown.HOLD


def test_missing_budget_fields_get_their_defaults() -> None:
    budget = read_budget('{"period":"none","limits":{"cpu":"500mh"}}')
    assert (budget.zone, budget.at_end, budget.when_unknown) == ("UTC", AtEnd.HOLD, WhenUnknown.ALLOW)
    assert budget.limits == {"cpu": 0.5}
    assert budget.warn_at == (0.8, 0.95)


GOOD: dict[str, Any] = {"period": "day", "limits": {"cpu": "1h"}}
FAULTS: dict[str, tuple[str, str, str]] = {
    "no JSON": ("{", "", "is no JSON"),
    "no text": ("", "", "is no JSON"),
    "a list": ("[]", "", "is no JSON object"),
    "much too deep": ("[" * 100_000, "", "is no JSON"),
    "no period": ('{"limits":{"cpu":"1h"}}', "period", "is missing; it is one of day, week"),
    "an unknown period": (json.dumps({**GOOD, "period": "fortnight"}), "period", "it is one of day, week"),
    "a period that is no text": (json.dumps({**GOOD, "period": {}}), "period", "it is one of day, week"),
    "no limits": ('{"period":"day"}', "limits", "must name a resource"),
    "empty limits": (json.dumps({**GOOD, "limits": {}}), "limits", "must name a resource"),
    "too many limits": (json.dumps({**GOOD, "limits": {f"a/r{i}": "1h" for i in range(17)}}), "limits", "at most 16"),
    "a number": (json.dumps({**GOOD, "limits": {"cpu": 5}}), "limits.cpu", "must be hours"),
    "a quantity": (json.dumps({**GOOD, "limits": {"cpu": "5"}}), "limits.cpu", "like 5000h"),
    "a duration": (json.dumps({**GOOD, "limits": {"cpu": "5h30m"}}), "limits.cpu", "like 5000h"),
    "less than nothing": (json.dumps({**GOOD, "limits": {"cpu": "-1h"}}), "limits.cpu", "0h or more"),
    "no resource": (json.dumps({**GOOD, "limits": {"a b": "1h"}}), "limits.a b", "is no name of a resource"),
    "pods": (json.dumps({**GOOD, "limits": {"pods": "1h"}}), "limits.pods", "is not counted in hours"),
    "an unknown zone": (json.dumps({**GOOD, "zone": "Mars/Base"}), "zone", "like Europe/Berlin"),
    "a path as zone": (json.dumps({**GOOD, "zone": "../etc/passwd"}), "zone", "like Europe/Berlin"),
    "a folder as zone": (json.dumps({**GOOD, "zone": "Europe"}), "zone", "like Europe/Berlin"),
    "an unknown end": (json.dumps({**GOOD, "atEnd": "kill"}), "atEnd", "it is one of warn, low, hold, safe"),
    "an unknown answer": (json.dumps({**GOOD, "whenUnknown": "no"}), "whenUnknown", "it is one of allow, hold"),
    "warnings above the whole": (json.dumps({**GOOD, "warnAt": [1.5]}), "warnAt", "up to 1, like [0.8, 0.95]"),
    "a warning that is no number": (json.dumps({**GOOD, "warnAt": [True]}), "warnAt", "up to 1"),
    "too many warnings": (json.dumps({**GOOD, "warnAt": [0.1] * 9}), "warnAt", "at most 8"),
    "an unknown field": (json.dumps({**GOOD, "limit": 5}), "limit", "is unknown; there are period, zone, limits"),
}


@pytest.mark.parametrize(("text", "path", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_invalid_budget_is_refused_with_reason_and_field_path(text: str, path: str, message: str) -> None:
    faults = budget_faults(text)
    assert [fault.path for fault in faults] == [path]
    assert message in faults[0].text
    with pytest.raises(BudgetError):
        read_budget(text)


def test_all_faults_of_a_budget_are_reported_at_once() -> None:
    assert [fault.path for fault in budget_faults('{"period":"x","zone":"y","limits":{}}')] == ["period", "zone", "limits"]


@given(st.text(max_size=40))
def test_arbitrary_text_is_reported_as_a_faulty_budget(text: str) -> None:
    assert budget_faults(text)


@given(st.recursive(st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=4), st.lists, max_leaves=4))
def test_budget_check_raises_no_error_for_arbitrary_field_values(value: object) -> None:
    for name in ("period", "zone", "limits", "atEnd", "warnAt", "whenUnknown"):
        budget_faults(json.dumps({**GOOD, name: value}))


PERIODS = {
    "a day": ("day", "UTC", "2026-11-25T13:00Z", "2026-11-25T00:00:00+00:00", "2026-11-26T00:00:00+00:00"),
    "a day in its zone": ("day", "Asia/Kolkata", "2026-11-25T19:00Z", "2026-11-26T00:00:00+05:30", "2026-11-27T00:00:00+05:30"),
    "a day of 25 hours": ("day", "Europe/Berlin", "2026-10-25T12:00Z", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"),
    "a day without midnight": (
        "day",
        "America/Sao_Paulo",
        "2018-11-04T12:00Z",
        "2018-11-04T01:00:00-02:00",
        "2018-11-05T00:00:00-02:00",
    ),
    "a week": ("week", "UTC", "2026-11-25T13:00Z", "2026-11-23T00:00:00+00:00", "2026-11-30T00:00:00+00:00"),
    "a month": ("month", "Europe/Berlin", "2026-11-30T23:30Z", "2026-12-01T00:00:00+01:00", "2027-01-01T00:00:00+01:00"),
    "a quarter": ("quarter", "UTC", "2026-11-25T13:00Z", "2026-10-01T00:00:00+00:00", "2027-01-01T00:00:00+00:00"),
    "a year": ("year", "UTC", "2028-02-29T13:00Z", "2028-01-01T00:00:00+00:00", "2029-01-01T00:00:00+00:00"),
}


@pytest.mark.parametrize(("period", "zone", "moment", "begin", "end"), PERIODS.values(), ids=PERIODS.keys())
def test_periods_begin_at_midnight_of_their_zone(period: str, zone: str, moment: str, begin: str, end: str) -> None:
    span = period_at(Period(period), zone, seconds(moment))
    assert span.end is not None
    assert (zoned(span.begin, zone), zoned(span.end, zone)) == (begin, end)


@pytest.mark.parametrize("period", [each for each in Period if each is not Period.NONE])
@given(moment=st.integers(0, 2**32), zone=st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/Sao_Paulo"]))
def test_each_moment_lies_in_one_period(period: Period, moment: int, zone: str) -> None:
    span = period_at(period, zone, moment)
    assert span.end is not None
    assert span.begin <= moment < span.end
    assert period_at(period, zone, span.end).begin == span.end
    assert period_at(period, zone, span.begin) == span


def test_budget_without_a_period_has_the_same_span_at_any_time() -> None:
    assert period_at(Period.NONE, "UTC", 1e9, first=7) == period_at(Period.NONE, "UTC", 2e9, first=7)


def test_spent_amounts_are_preserved_by_writing_and_reading() -> None:
    spent = Spent(1_764_000_000, 1_763_000_000, {GPU: 4711.25, "memory": 1.5 * 2**30, "cpu": 0.0}, {GPU: 0.5, "cpu": 0.0})
    text = written_spent(spent)
    assert json.loads(text)["spent"] == {"cpu": "0h", "memory": "1536Mih", GPU: "4711.25h"}
    assert read_spent(text) == Spent(spent.as_of, spent.since, spent.amounts, {GPU: 0.5})


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"asOf":"x","since":"y","spent":{}}', '{"asOf":"2026-01-01","since":"2026-01-01","spent":{}}']
)
def test_invalid_spent_annotation_is_read_as_none(text: str) -> None:
    assert read_spent(text) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "have an h"),
        ("5", "have an h"),
        ("h", "must match the regular expression"),
        ("5hh", "must match the regular expression"),
        ("1e9999h", "unable to parse"),
        ("-1h", "not negative"),
    ],
)
def test_invalid_hours_raise_value_error_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_hours(text)


@given(st.floats(0, 1e9))
def test_hours_are_preserved_to_a_thousandth_by_writing_and_reading(hours: float) -> None:
    assert read_hours(hours_text(GPU, hours)) == pytest.approx(hours, abs=0.001)

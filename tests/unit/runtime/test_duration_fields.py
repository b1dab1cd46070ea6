from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from pyroclast.runtime.fields import Duration, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("1.5h", 5400),
        ("-2m", -120),
        ("0", 0),
        ("+1s", 1),
        (".5s", 0.5),
        ("3us", 3e-6),
        ("3µs", 3e-6),
    ],
)
def test_parse_duration_accepts_go_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "15", "s", "1x", "1s 2m", "soon", "--1s", "1s!", "9" * 400 + "h"])
def test_parse_duration_rejects_invalid_texts(text: str) -> None:
    with pytest.raises(ValueError, match=r"a duration such as 500ms, 15s or 1h30m|longer than can be counted"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (15, "15s"), (5400, "1h30m0s"), (0.25, "250ms"), (-90.5, "-1m30.5s"), (3e-6, "3µs"), (0.0015, "1.5ms")],
)
def test_format_duration_writes_go_durations(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


@given(st.timedeltas(timedelta(days=-9999), timedelta(days=9999)))
def test_a_formatted_duration_parses_to_the_same_duration(duration: timedelta) -> None:
    assert abs(parse_duration(format_duration(duration)) - duration) <= abs(duration) * 1e-12 + timedelta(microseconds=1)


def test_a_duration_field_accepts_text_timedelta_and_zero_but_no_other_number() -> None:
    class Model(BaseModel):
        after: Duration

    assert Model(after="1m").after == timedelta(minutes=1)  # type: ignore[arg-type]
    assert Model.model_validate({"after": 0}).after == timedelta()
    assert Model(after=timedelta(seconds=90)).model_dump_json() == '{"after":"1m30s"}'
    with pytest.raises(ValidationError, match="is not a duration"):
        Model.model_validate({"after": 5})

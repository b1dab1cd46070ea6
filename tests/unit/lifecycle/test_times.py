"""Times as the API writes them, and as it takes them from others."""

import pytest

from pyroclast.lifecycle.times import format_time, parse_time

CASES = {
    "as the API server writes it": ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
    "with a fraction": ("2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05Z"),
    "in another zone": ("2026-01-02T05:04:05+02:00", "2026-01-02T03:04:05Z"),
    "in small letters": ("2026-01-02t03:04:05z", "2026-01-02T03:04:05Z"),
    "in a leap second": ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
    "in a leap second, elsewhere": ("2016-12-31T18:59:60.5-05:00", "2017-01-01T00:00:00Z"),
    "in a zone that no country has": ("2026-01-06T06:19:05+99:15", "2026-01-02T03:04:05Z"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_rfc3339_time_is_parsed_and_formatted_in_utc_seconds(case: tuple[str, str]) -> None:
    text, want = case
    assert format_time(parse_time(text)) == want


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-02-30t00:00:00z",
        "2026-01-02T25:00:00Z",
        "2026-01-02T03:60:00Z",
        "2026-01-02T03:04:61Z",
    ],
)
def test_parsing_an_invalid_time_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"Invalid isoformat string|must be in|out of range"):
        parse_time(text)

"""Time zones are known by the names that the library lists."""

from __future__ import annotations

import zoneinfo

import pytest

from pyroclast.runtime.time_zones import TimeZones


def test_every_available_time_zone_is_known() -> None:
    zones = TimeZones()
    assert [name for name in zoneinfo.available_timezones() if name not in zones] == []


@pytest.mark.parametrize(
    "name", ["", "Mars/Base", "America", "/etc/localtime", "../UTC", "posix/UTC", "zone.tab", "a" * 5000, "UTC\0", "UTC/x", "é"]
)
def test_invalid_time_zone_names_are_not_known(name: str) -> None:
    assert name not in TimeZones()


def test_a_number_is_not_a_known_time_zone() -> None:
    assert 7 not in TimeZones()

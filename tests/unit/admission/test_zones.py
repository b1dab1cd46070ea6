from __future__ import annotations

from pyroclast_admission.zones import TimeZones


def test_names_of_time_zones() -> None:
    zones = TimeZones()
    assert [name in zones for name in ("Europe/Berlin", "UTC", "Mars/Base", "")] == [True, True, False, False]

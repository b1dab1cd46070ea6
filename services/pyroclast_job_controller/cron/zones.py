"""Time zones by name, and that of this machine."""

from __future__ import annotations

import os
from datetime import UTC, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

__all__ = ["UnknownZone", "local_zone", "zone_of"]

_LOCAL_FILE: Final = Path("/etc/localtime")


class UnknownZone(ValueError):
    """There is no time zone of that name."""


@lru_cache(maxsize=1024)
def zone_of(name: str) -> tzinfo:
    """The zone of that name; UTC for an empty one.

    Raises:
        UnknownZone: There is none.
    """
    if not name:
        return UTC
    if name == "Local":
        return local_zone()
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise UnknownZone(f"unknown time zone {name}") from None


@lru_cache(maxsize=1)
def local_zone() -> tzinfo:
    """The zone of this process: what `TZ` names, else what the machine is set to, else UTC."""
    name = os.environ.get("TZ", "").removeprefix(":")
    if name:
        try:
            return zone_of(name)
        except UnknownZone:
            return UTC
    try:
        with _LOCAL_FILE.open("rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError):
        return UTC

"""The time zones that this machine knows.

A zone is looked up when a CronJob first names it, because there are hundreds of files.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_OTHER_FORMS: Final = ("posix/", "right/", "posixrules")
"""Folders with other forms of the same zones, whose names nobody uses."""


class TimeZones:
    """The names of the time zones, as a container."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _is_known(name)


@lru_cache(maxsize=1024)
def _is_known(name: str) -> bool:
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - see above

    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # no such file, not a name of a file, or a folder
        return False
    return not name.startswith(_OTHER_FORMS)

"""The time zones that this machine knows: their names are looked for in hundreds of files, when the first CronJob names one."""

from __future__ import annotations

from functools import cache

__all__ = ["TimeZones"]


class TimeZones:
    """Their names, as a container."""

    def __contains__(self, name: object) -> bool:
        return name in _names()


@cache
def _names() -> frozenset[str]:
    import zoneinfo  # noqa: PLC0415 - see above

    return frozenset(zoneinfo.available_timezones())

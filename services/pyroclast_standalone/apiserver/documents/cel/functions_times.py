"""Timestamps and durations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyroclast_standalone.apiserver.documents.values import Json

from .errors import CelError, NoSuchOverload
from .values import Duration, unconvertible

__all__ = ["TIME_FUNCTIONS", "TIME_METHODS", "duration", "show_duration", "show_timestamp", "timestamp"]

_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)")
_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE: Final = re.compile(r"[-+]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_UNITS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_OFFSET: Final = re.compile(r"([+-]?)(\d\d):(\d\d)")


def timestamp(value: Json) -> datetime:
    """The point in time of an RFC 3339 text or of seconds since the epoch."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, bool):
        raise NoSuchOverload
    if isinstance(value, int):
        try:
            return datetime.fromtimestamp(value, UTC)
        except (OverflowError, OSError, ValueError):
            raise CelError("timestamp overflow") from None
    if not isinstance(value, str):
        raise NoSuchOverload
    try:
        if _MOMENT.fullmatch(value):
            return datetime.fromisoformat(value)
    except ValueError:
        pass
    raise unconvertible(value, "google.protobuf.Timestamp")


def duration(value: Json) -> Duration:
    """The span that a text such as `1h30m` tells."""
    if isinstance(value, Duration):
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise NoSuchOverload
    if not isinstance(value, str) or not _WHOLE.fullmatch(value):
        raise unconvertible(value, "google.protobuf.Duration")
    total = sum(round(float(number) * _UNITS[unit]) for number, unit in _PART.findall(value))
    return Duration(-total if value.startswith("-") else total)


def show_duration(value: Duration) -> str:
    """A span as text: its seconds."""
    seconds = value.nanos / 10**9
    return f"{int(seconds)}s" if seconds.is_integer() else f"{seconds:.9f}".rstrip("0") + "s"


def show_timestamp(value: datetime) -> str:
    """A point in time as RFC 3339 text in UTC."""
    own = value.astimezone(UTC)
    fraction = f".{own.microsecond:06d}".rstrip("0") if own.microsecond else ""
    return f"{own:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _zone(name: str) -> tzinfo:
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3])
        return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise CelError(f"unknown time zone {name}") from None


def _part(of_time: Callable[[datetime], int], of_span: Callable[[Duration], int] | None = None) -> Callable[..., int]:
    def read(value: Json, zone: str = "UTC") -> int:
        if isinstance(value, datetime):
            return of_time(value.astimezone(_zone(zone)))
        if isinstance(value, Duration) and of_span is not None:
            return of_span(value)
        raise NoSuchOverload

    return read


def _in(unit: int) -> Callable[[Duration], int]:
    return lambda span: int(span.nanos / unit)


TIME_FUNCTIONS: Final[Mapping[str, Callable[..., Json]]] = {"timestamp": timestamp, "duration": duration}
TIME_METHODS: Final[Mapping[str, Callable[..., Json]]] = {
    "getFullYear": _part(lambda moment: moment.year),
    "getMonth": _part(lambda moment: moment.month - 1),
    "getDate": _part(lambda moment: moment.day),
    "getDayOfMonth": _part(lambda moment: moment.day - 1),
    "getDayOfWeek": _part(lambda moment: moment.isoweekday() % 7),
    "getDayOfYear": _part(lambda moment: moment.timetuple().tm_yday - 1),
    "getHours": _part(lambda moment: moment.hour, _in(3600 * 10**9)),
    "getMinutes": _part(lambda moment: moment.minute, _in(60 * 10**9)),
    "getSeconds": _part(lambda moment: moment.second, _in(10**9)),
    "getMilliseconds": _part(lambda moment: moment.microsecond // 1000, lambda span: int(span.nanos / 10**6) % 1000),
}

"""Schedules of cron jobs: what is wrong with one, in the words of the parser that Kubernetes uses."""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping
from functools import cache
from typing import Final
from zoneinfo import available_timezones

from pyroclast.resources.go_text import go_quote

__all__ = ["fault_of_schedule", "fault_of_time_zone"]

_MONTHS: Final = {calendar.month_abbr[index].lower(): index for index in range(1, 13)}
_DAYS: Final = {calendar.day_abbr[(index - 1) % 7].lower(): index for index in range(7)}
_FIELDS: Final[tuple[tuple[int, int, Mapping[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_DESCRIPTORS: Final = {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
_ZONE: Final = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")
_DURATION: Final = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*|[-+]?0")


@cache
def _zones() -> frozenset[str]:
    return frozenset({*available_timezones(), "UTC"})


class _Fault(Exception):
    """What is wrong with a part of a schedule."""


def fault_of_schedule(schedule: str) -> str:
    """Why `schedule` cannot be read; empty if it can."""
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        prefix, _, schedule = schedule.partition(" ")
        zone = prefix.partition("=")[2]
        if zone not in _zones():
            return f"provided bad location {zone}: unknown time zone {zone}"
        schedule = schedule.strip()
    if schedule.startswith("@"):
        return _fault_of_descriptor(schedule)
    parts = schedule.split()
    if len(parts) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]"
    try:
        for part, (low, high, words) in zip(parts, _FIELDS, strict=True):
            for each in filter(None, part.split(",")):
                _read_range(each, low, high, words)
    except _Fault as fault:
        return str(fault)
    return ""


def _fault_of_descriptor(descriptor: str) -> str:
    if descriptor in _DESCRIPTORS:
        return ""
    if descriptor.startswith("@every "):
        text = descriptor.removeprefix("@every ")
        if _DURATION.fullmatch(text):
            return ""
        return f"failed to parse duration {descriptor}: time: invalid duration {go_quote(text)}"
    return f"unrecognized descriptor: {descriptor}"


def _read_range(expression: str, low: int, high: int, words: Mapping[str, int]) -> None:
    span = expression.split("/")
    limits = span[0].split("-")
    start, end = _read_limits(expression, limits, low, high, words)
    if len(span) > 2:
        raise _Fault(f"too many slashes: {expression}")
    step = _read_integer(span[1]) if len(span) == 2 else 1
    if len(span) == 2 and len(limits) == 1:
        end = high
    if start < low:
        raise _Fault(f"beginning of range ({start}) below minimum ({low}): {expression}")
    if end > high:
        raise _Fault(f"end of range ({end}) above maximum ({high}): {expression}")
    if start > end:
        raise _Fault(f"beginning of range ({start}) beyond end of range ({end}): {expression}")
    if step == 0:
        raise _Fault(f"step of range should be a positive number: {expression}")


def _read_limits(expression: str, limits: list[str], low: int, high: int, words: Mapping[str, int]) -> tuple[int, int]:
    if limits[0] in {"*", "?"}:
        return low, high
    if len(limits) > 2:
        raise _Fault(f"too many hyphens: {expression}")
    numbers = [_read_number(each, words) for each in limits]
    return numbers[0], numbers[-1]


def _read_number(text: str, words: Mapping[str, int]) -> int:
    known = words.get(text.lower())
    return known if known is not None else _read_integer(text)


def _read_integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d+", text):
        raise _Fault(f"failed to parse int from {text}: strconv.Atoi: parsing {go_quote(text)}: invalid syntax")
    number = int(text)
    if number < 0:
        raise _Fault(f"negative number ({number}) not allowed: {text}")
    return number


def fault_of_time_zone(zone: str) -> str:
    """Why `zone` is no time zone; empty if it is one."""
    if not zone:
        return "timeZone must be nil or non-empty string"
    if any(not _ZONE.fullmatch(part) or part in {".", ".."} or part[:1] == "-" for part in zone.split("/")):
        return f"unknown time zone {zone}"
    if zone.lower() == "local":
        return "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
    return "" if zone in _zones() else f"unknown time zone {zone}"

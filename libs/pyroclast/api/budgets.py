"""Budgets of queues: the use that an annotation of the Queue allows in a period, and the use that the recorder writes.

Amounts are hours of one core, one byte, or one device. As text, an amount is a quantity followed by `h`, such as `5000h` or
`64Gih`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from pyroclast.resources import quantity

HOUR: Final = 3600.0
DEFAULT_WARNINGS: Final = (0.8, 0.95)
MOST_RESOURCES: Final = 16
MOST_WARNINGS: Final = 8
MEBIBYTE: Final = 2**20
BYTES: Final = ("memory", "ephemeral-storage", "storage", "hugepages-")
FIELDS: Final = ("period", "zone", "limits", "atEnd", "warnAt", "whenUnknown")
NAME: Final = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+_-]{0,31}(/[A-Za-z0-9][A-Za-z0-9+_.-]{0,31}){0,3}")
OTHER_FORMS: Final = ("posix/", "right/")


class Period(StrEnum):
    """The length of a budget's period; NONE for a budget that never begins anew."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"
    NONE = "none"


_MOST_DAYS: Final = {Period.DAY: 1, Period.WEEK: 7, Period.MONTH: 31, Period.QUARTER: 93, Period.YEAR: 366}


class AtEnd(StrEnum):
    """What the scheduler does with new gangs of a queue whose budget is used up."""

    WARN = "warn"
    LOW = "low"
    HOLD = "hold"
    SAFE = "safe"


class WhenUnknown(StrEnum):
    """What the scheduler does with new gangs while the use of the budget is unknown."""

    ALLOW = "allow"
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class Budget:
    """The hours, by resource, that a queue and its descendants may use in a period (`limits`)."""

    period: Period
    limits: Mapping[str, float]
    zone: str = "UTC"
    at_end: AtEnd = AtEnd.HOLD
    warn_at: tuple[float, ...] = DEFAULT_WARNINGS
    when_unknown: WhenUnknown = WhenUnknown.ALLOW


@dataclass(frozen=True, slots=True)
class BudgetFault:
    """A fault of a budget. `path`: the path of the field inside the annotation, empty for the whole annotation."""

    path: str
    value: str
    text: str

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.value[:64]!r}: {self.text}"


class BudgetError(ValueError):
    """An annotation is not a valid budget; the text names the field, its fault, and the correct form."""


@dataclass(frozen=True, slots=True)
class Span:
    """A period, in seconds since the epoch. `end` is None for a period that never ends."""

    begin: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Spent:
    """The use since `since`, the beginning of the period, as known at `as_of`; both in seconds since the epoch.

    `amounts`: hours by resource. `doubtful`: the largest error of these hours, by resource.
    """

    as_of: int
    since: int
    amounts: Mapping[str, float]
    doubtful: Mapping[str, float]


def budget_faults(text: str) -> list[BudgetFault]:
    """Return all faults of the annotation; empty for a valid budget."""
    return _parsed(text)[1]


def read_budget(text: str) -> Budget:
    """Return the budget in the annotation. Raises BudgetError: the annotation is not a valid budget."""
    budget, faults = _parsed(text)
    if budget is None:
        raise BudgetError("; ".join(map(str, faults[:3])))
    return budget


def period_at(period: Period, zone: str, moment: float, *, first: int = 0) -> Span:
    """Return the period that contains a moment. A period begins at midnight in its zone; the period NONE begins at `first`."""
    if period is Period.NONE:
        return Span(first, None)
    there = _zone(zone)
    begin = _first_day(period, datetime.fromtimestamp(moment, there).date())
    following = _first_day(period, begin + timedelta(days=_MOST_DAYS[period]))
    return Span(_midnight(begin, there), _midnight(following, there))


def zoned(moment: float, zone: str) -> str:
    """Return a moment as text: the local time in a time zone, with the offset of the zone."""
    return datetime.fromtimestamp(moment, _zone(zone)).isoformat(timespec="seconds")


def read_hours(text: str) -> float:
    """Return the hours of a text such as `5000h`. Raises ValueError: `text` is not a number of hours."""
    if not text.endswith("h"):
        raise ValueError("hours have an h behind their amount")
    amount = float(quantity.parse(text[:-1]))
    if amount < 0:
        raise ValueError("hours are not negative")
    return amount


def hours_text(resource: str, hours: float) -> str:
    """Return hours in the form of the annotations; bytes are in MiB, rounded to thousandths."""
    is_bytes = resource.startswith(BYTES)
    number = f"{hours / MEBIBYTE if is_bytes else hours:.3f}".rstrip("0").rstrip(".")
    return f"{number or '0'}{'Mi' if is_bytes else ''}h"


def written_spent(spent: Spent) -> str:
    """Return the use of a budget as the value of the annotation."""
    doubtful = {name: hours_text(name, hours) for name, hours in sorted(spent.doubtful.items()) if hours > 0}
    body = {
        "asOf": _stamp(spent.as_of),
        "since": _stamp(spent.since),
        "spent": {name: hours_text(name, hours) for name, hours in sorted(spent.amounts.items())},
        **({"doubtful": doubtful} if doubtful else {}),
    }
    return msgspec.json.encode(body).decode()


def read_spent(text: str) -> Spent | None:
    """Return the use in an annotation; None when the annotation is invalid."""
    try:
        body = msgspec.json.decode(text, type=_SpentBody)
        amounts, doubtful = ({name: read_hours(each) for name, each in part.items()} for part in (body.spent, body.doubtful))
        return Spent(_seconds(body.as_of), _seconds(body.since), amounts, doubtful)
    except (msgspec.MsgspecError, ValueError, OverflowError):
        return None


class _SpentBody(msgspec.Struct, rename="camel"):
    as_of: str
    since: str
    spent: dict[str, str]
    doubtful: dict[str, str] = {}


_Choice = TypeVar("_Choice", bound=StrEnum)


class _Reader:
    """Reads the fields of an annotation and collects their faults."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body
        self.faults: list[BudgetFault] = []

    def fault(self, path: str, value: object, text: str) -> None:
        self.faults.append(BudgetFault(path, value if isinstance(value, str) else msgspec.json.encode(value).decode(), text))

    def choice(self, name: str, kind: type[_Choice], default: _Choice | None) -> _Choice | None:
        value = self._body.get(name, default)
        known = ", ".join(kind)
        if value is None:
            self.fault(name, "", f"is missing; it is one of {known}")
            return None
        if value not in list(kind):
            self.fault(name, value, f"is unknown; it is one of {known}")
            return None
        return kind(value)

    def zone(self) -> str:
        value = self._body.get("zone", "UTC")
        if not isinstance(value, str) or not _is_zone(value):
            self.fault("zone", value, "is no time zone; it must be in the time zone database, like Europe/Berlin")
            return "UTC"
        return value

    def limits(self) -> dict[str, float]:
        value = self._body.get("limits")
        if not isinstance(value, dict) or not value:
            self.fault("limits", value if value is not None else "", 'must name a resource, like {"nvidia.com/gpu": "5000h"}')
            return {}
        if len(value) > MOST_RESOURCES:
            self.fault("limits", str(len(value)), f"are too many; at most {MOST_RESOURCES} resources are counted")
            return {}
        found = {}
        for name, text in value.items():
            path = f"limits.{name[:317]}"
            if not NAME.fullmatch(name):
                self.fault(path, name, "is no name of a resource, like cpu or nvidia.com/gpu")
            elif name == "pods":
                self.fault(path, name, "is not counted in hours; name cpu, memory or a device")
            else:
                try:
                    found[name] = read_hours(text if isinstance(text, str) else "")
                except ValueError:
                    self.fault(path, text, "must be hours of the resource, 0h or more, like 5000h, or 64Gih of memory")
        return found

    def warnings(self) -> tuple[float, ...]:
        value = self._body.get("warnAt", list(DEFAULT_WARNINGS))
        is_list = isinstance(value, list) and len(value) <= MOST_WARNINGS
        if not is_list or not all(type(each) in (int, float) and 0 < each <= 1 for each in value):
            self.fault("warnAt", value, f"must be at most {MOST_WARNINGS} shares above 0 and up to 1, like [0.8, 0.95]")
            return ()
        return tuple(sorted(set(map(float, value))))


@lru_cache(maxsize=256)
def _parsed(text: str) -> tuple[Budget | None, list[BudgetFault]]:
    example = '{"period":"month","limits":{"nvidia.com/gpu":"5000h"}}'
    try:
        body = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None, [BudgetFault("", text, f"is no JSON; a budget is like {example}")]
    if not isinstance(body, dict):
        return None, [BudgetFault("", text, f"is no JSON object; a budget is like {example}")]
    reader = _Reader(body)
    for name in body:
        if name not in FIELDS:
            reader.fault(name[:64], body[name], f"is unknown; there are {', '.join(FIELDS)}")
    period = reader.choice("period", Period, None)
    zone, limits = reader.zone(), reader.limits()
    at_end, warn_at = reader.choice("atEnd", AtEnd, AtEnd.HOLD), reader.warnings()
    when_unknown = reader.choice("whenUnknown", WhenUnknown, WhenUnknown.ALLOW)
    if reader.faults or period is None or at_end is None or when_unknown is None:
        return None, reader.faults
    return Budget(period, limits, zone, at_end, warn_at, when_unknown), []


def _is_zone(name: str) -> bool:
    if not ZONE.fullmatch(name) or name.startswith(OTHER_FORMS):
        return False
    try:
        _zone(name)
    except (KeyError, ValueError, OSError):  # no such file, not a name of a file, or a folder
        return False
    return True


@lru_cache(maxsize=256)
def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - hundreds of files that most programs do not need

    return ZoneInfo(name)


def _first_day(period: Period, day: date) -> date:
    match period:
        case Period.WEEK:
            return day - timedelta(days=day.weekday())
        case Period.MONTH:
            return day.replace(day=1)
        case Period.QUARTER:
            return date(day.year, (day.month - 1) // 3 * 3 + 1, 1)
        case Period.YEAR:
            return date(day.year, 1, 1)
    return day


def _midnight(day: date, zone: tzinfo) -> int:
    """Return the beginning of a day; if the clocks skip midnight, the first time after that."""
    return int(datetime.combine(day, time(), zone).timestamp())


def _stamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _seconds(text: str) -> int:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time without its zone")
    return int(moment.timestamp())

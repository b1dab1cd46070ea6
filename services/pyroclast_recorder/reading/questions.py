"""The queries that the HTTP API accepts, parsed from the query string of a request. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyroclast.lifecycle.times import parse_time

GROUPS: Final = ("queue", "user", "namespace", "flow", "resource")
PERIODS: Final = ("hour", "day", "week", "month", "all")
UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
HOUR: Final = 3600
DEFAULT_SINCE: Final = "7d"
MOST_ROWS: Final = 10_000
DEFAULT_ROWS: Final = 1_000
LONGEST: Final = 317
LONGEST_NUMBER: Final = 9
FARTHEST_SECONDS: Final = 10 * 365 * 86_400
"""How far in the future a time may be, in seconds: a report has a row for each period, such as a month."""

MOST_NAMESPACES: Final = 200

STEPS: Final = {"minute": 60, "hour": HOUR, "day": 24 * HOUR}
LONGEST_OF_STEP: Final = {"minute": 26 * HOUR, "hour": 100 * 24 * HOUR}
"""The longest time, in seconds, for which a series has this step by default."""

MOST_STEPS: Final = 3_000

_AGO = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)


class BadQuestion(Exception):
    """A query parameter is invalid; the text names the parameter and the accepted values."""


@dataclass(frozen=True, slots=True)
class HistoryQuestion:
    """A query for the Jobs that were created between `since` and `until` and match all fields that are not empty.

    `name` is a glob. `limit` is the most Jobs in the response.
    """

    since: int
    until: int
    limit: int
    namespace: str = ""
    queue: str = ""
    user: str = ""
    flow: str = ""
    state: str = ""
    name: str = ""
    namespaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UsageQuestion:
    """A query for usage between `since` and `until`, grouped by the columns `by` and by the period `per`."""

    since: int
    until: int
    by: tuple[str, ...]
    per: str
    queue: str = ""
    user: str = ""
    namespace: str = ""
    namespaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SeriesQuestion:
    """A query for series in steps of `step` seconds. `since` and `until` are starts of steps.

    `queue`, `resource`: empty for all.
    """

    since: int
    until: int
    step: int
    queue: str = ""
    resource: str = ""


def history_question(query: Mapping[str, str], now: int) -> HistoryQuestion:
    """Parse a query for Jobs. Raises BadQuestion: a parameter is invalid."""
    since, until = window(query, now)
    _only(query, {"since", "until", "limit", "namespace", "queue", "user", "flow", "state", "name", "namespaces"})
    texts = {name: _text(query, name) for name in ("namespace", "queue", "user", "flow", "state", "name")}
    return HistoryQuestion(since, until, _limit(query.get("limit", "")), **texts, namespaces=chosen_namespaces(query))


def usage_question(query: Mapping[str, str], now: int) -> UsageQuestion:
    """Parse a query for usage. Raises BadQuestion: a parameter is invalid."""
    since, until = window(query, now)
    _only(query, {"since", "until", "by", "per", "queue", "user", "namespace", "namespaces"})
    by = tuple(dict.fromkeys(each for each in (query.get("by") or "queue,resource").split(",") if each))
    if wrong := [each for each in by if each not in GROUPS]:
        raise BadQuestion(f'by: there is no "{wrong[0][:64]}"; there are {", ".join(GROUPS)}')
    per = query.get("per") or "all"
    if per not in PERIODS:
        raise BadQuestion(f'per: there is no "{per[:64]}"; there are {", ".join(PERIODS)}')
    if "resource" not in by:  # amounts of different resources cannot be added
        by = (*by, "resource")
    texts = {name: _text(query, name) for name in ("queue", "user", "namespace")}
    return UsageQuestion(since, until, by, per, **texts, namespaces=chosen_namespaces(query))


def series_question(query: Mapping[str, str], now: int) -> SeriesQuestion:
    """Parse a query for series. Without `step`, a day has minutes, a quarter has hours. Raises BadQuestion."""
    _only(query, {"since", "until", "step", "queue", "resource"})
    since, until = window({"since": "24h", **query}, now)
    fitting = next((name for name, most in LONGEST_OF_STEP.items() if until - since <= most), "day")
    name = query.get("step") or fitting
    if name not in STEPS:
        raise BadQuestion(f'step: there is no "{name[:64]}"; there are {", ".join(STEPS)}')
    step = STEPS[name]
    since, until = since // step * step, min(until, now) // step * step + step
    if (until - since) // step > MOST_STEPS:
        points = f"{(until - since) // step} values, and the most are {MOST_STEPS}"
        raise BadQuestion(f"step: for each {name} of that time, that is {points}; ask for a shorter time, or step={fitting}")
    return SeriesQuestion(since, until, step, _text(query, "queue"), _text(query, "resource"))


def window(query: Mapping[str, str], now: int) -> tuple[int, int]:
    """Return the start and the end of a query, in seconds since the epoch.

    Raises BadQuestion: `since` or `until` is invalid, or `since` is after `until`.
    """
    since = _moment("since", query.get("since") or DEFAULT_SINCE, now)
    until = _moment("until", query.get("until") or "0s", now)
    if since > until:
        raise BadQuestion(f'since: "{query.get("since", DEFAULT_SINCE)[:64]}" is later than until')
    return since, until


def whole_hours(since: int, until: int, now: int) -> tuple[int, int]:
    """Return the start and the end of a query in whole hours, because usage is added up by hour.

    The start is rounded down. The end is rounded down too, unless it is `now` or later.
    """
    return since // HOUR * HOUR, until if until >= now else until // HOUR * HOUR


def chosen_namespaces(query: Mapping[str, str]) -> tuple[str, ...]:
    """Return the namespaces to which a query is limited; empty for all namespaces that the user may read.

    Raises BadQuestion: there are too many namespaces.
    """
    found = tuple(each for each in query.get("namespaces", "").split(",") if each)
    if len(found) > MOST_NAMESPACES:
        raise BadQuestion(f"namespaces: at most {MOST_NAMESPACES}, not {len(found)}")
    return found


def _moment(name: str, text: str, now: int) -> int:
    found = _AGO.fullmatch(text)
    try:
        moment = now - int(found[1]) * UNITS[found[2]] if found else int(parse_time(text))
    except (ValueError, OverflowError):
        raise BadQuestion(
            f'{name}: "{text[:64]}" is neither a time like 2026-03-01T00:00:00Z nor how long ago, like 7d'
        ) from None
    if not 0 <= moment <= now + FARTHEST_SECONDS:
        years = FARTHEST_SECONDS // UNITS["d"] // 365
        raise BadQuestion(f'{name}: "{text[:64]}" is too far away; give a time between 1970 and {years} years from now')
    return moment


def _limit(text: str) -> int:
    if not text:
        return DEFAULT_ROWS
    if not text.isdecimal() or len(text) > LONGEST_NUMBER or not 0 < int(text) <= MOST_ROWS:
        raise BadQuestion(f'limit: "{text[:64]}" is no number from 1 to {MOST_ROWS}')
    return int(text)


def _text(query: Mapping[str, str], name: str) -> str:
    text = query.get(name, "")
    if len(text) > LONGEST or "\0" in text:
        raise BadQuestion(f"{name}: at most {LONGEST} characters, none of them NUL")
    return text


def _only(query: Mapping[str, str], known: set[str]) -> None:
    if unknown := sorted(set(query) - known):
        raise BadQuestion(f'there is no parameter "{unknown[0][:64]}"; there are {", ".join(sorted(known))}')

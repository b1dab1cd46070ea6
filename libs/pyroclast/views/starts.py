"""Position and likely start of a waiting Job or PodGroup, as the scheduler wrote them, and clock times for users."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import orjson

from pyroclast.api.enums import NativeConditionType

WAITING_ANNOTATION: Final = "scheduling.volcano.sh/waiting"
MOST_BYTES: Final = 4096
"""The longest annotation that is read. The scheduler writes at most a quarter of that, but users can write anything."""


def said_of(group: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the wait information of a PodGroup (see `pyroclast.api.waiting`); empty without a valid annotation."""
    text = str(((group or {}).get("metadata") or {}).get("annotations", {}).get(WAITING_ANNOTATION) or _by_condition(group))
    if not text or len(text) > MOST_BYTES:
        return {}
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _by_condition(group: Mapping[str, Any] | None) -> str:
    """Return the same text of a native PodGroup, which has it in a condition."""
    listed = ((group or {}).get("status") or {}).get("conditions") or ()
    return next((str(each.get("message") or "") for each in listed if each.get("type") == NativeConditionType.WAITING), "")


def position_of(group: Mapping[str, Any] | None) -> int | None:
    """Return the position in the queue by the scheduler's own order, where 1 is next; None when unknown."""
    ahead = said_of(group).get("ahead")
    return ahead + 1 if isinstance(ahead, int) and ahead >= 0 else None


def start_of(group: Mapping[str, Any] | None) -> list[str] | None:
    """Return the earliest, likely and latest start as API timestamps; None without an estimate."""
    start = said_of(group).get("start")
    if not isinstance(start, list) or len(start) != 3:
        return None
    try:
        for each in start:
            datetime.fromisoformat(each)
    except (TypeError, ValueError):
        return None
    return start


def estimate_of(group: Mapping[str, Any] | None) -> dict[str, str] | None:
    """Return the estimate in the form of a `StartEstimate`, with its basis; None without an estimate."""
    start = start_of(group)
    if start is None:
        return None
    return {**dict(zip(("earliest", "likely", "latest"), start, strict=True)), "basis": str(said_of(group).get("basis") or "")}


def start_text(start: list[str] | str) -> str:
    """Return a text such as `14:20–18:40`, or the text that replaces an estimate."""
    if isinstance(start, str):
        return start
    first, last = clock_text(start[0]), clock_text(start[2])
    day, _, time = last.rpartition(" ")
    return f"{first}–{time}" if day and first.startswith(day) else f"{first}–{last}"


def clock_text(timestamp: str, today: datetime | None = None) -> str:
    """Return an API timestamp as local time of day, with the date if it differs from `today`."""
    when = datetime.fromisoformat(timestamp).astimezone()
    day = (today or datetime.now().astimezone()).date()
    return f"{when:%H:%M}" if when.date() == day else f"{when:%b %d %H:%M}"

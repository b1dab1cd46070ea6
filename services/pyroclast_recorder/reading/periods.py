"""The period that a time is in, by its name. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["period_of"]


def period_of(seconds: int | None, per: str) -> str:
    """The hour, day, week or month of a time in UTC, as ISO 8601 writes it; empty where there is one period for all."""
    if seconds is None or per == "all":
        return ""
    moment = datetime.fromtimestamp(seconds, UTC)
    match per:
        case "hour":
            return moment.strftime("%Y-%m-%dT%H:00Z")
        case "day":
            return moment.strftime("%Y-%m-%d")
        case "week":
            year, week, _ = moment.isocalendar()
            return f"{year}-W{week:02}"
    return moment.strftime("%Y-%m")

"""Times as the API writes them, and as seconds since the epoch, which is how the nodes reckon."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["epoch", "micro_rfc3339", "nano_rfc3339", "rfc3339"]


def epoch(text: str | None) -> float | None:
    """Seconds since the epoch of an RFC 3339 time; None for none."""
    return datetime.fromisoformat(text).timestamp() if text else None


def rfc3339(seconds: float) -> str:
    """The API's time, in whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_rfc3339(seconds: float) -> str:
    """The API's MicroTime."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def nano_rfc3339(seconds: float) -> str:
    """The time at the head of a log line, with nine digits of a second."""
    whole = int(seconds)
    return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{int((seconds - whole) * 1e9):09d}Z"

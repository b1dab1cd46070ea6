"""Times as the API writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

__all__ = ["micro_timestamp", "seconds_of", "timestamp"]


@lru_cache(maxsize=64)
def _whole(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def timestamp(seconds: float) -> str:
    """RFC 3339 in whole seconds, such as `2026-01-02T15:04:05Z`; `seconds` since the epoch."""
    return _whole(int(seconds))


def micro_timestamp(seconds: float) -> str:
    """RFC 3339 with microseconds, as Lease and Event times have it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(text: str) -> float:
    """Seconds since the epoch of a time as the API writes it.

    Raises:
        ValueError: it is no such time.
    """
    return datetime.fromisoformat(text).timestamp()

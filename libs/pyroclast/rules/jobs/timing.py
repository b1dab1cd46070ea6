"""Rules for durations in the spec of a Job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyroclast.resources.durations import DurationError, nanoseconds
from pyroclast.rules.errors import FieldError, invalid
from pyroclast.rules.values import Json, mapping
from pyroclast.rules.verdicts import Finding

_OF_RETRY: Final = ("backoff", "maxBackoff", "resetAfter")


def check_duration(value: Json, path: str) -> FieldError | None:
    """Return the error of a text at `path` that is not a duration; None for a duration."""
    if not isinstance(value, str):
        return None
    try:
        nanoseconds(value)
    except DurationError as error:
        return invalid(path, value, f"{error}; write it like 90s or 1h30m")
    return None


def check_estimate(spec: Mapping[str, Any], path: str) -> Sequence[Finding]:
    """Return a fault when `runningEstimate` is not a duration."""
    estimate = spec.get("runningEstimate")
    error = check_duration(estimate, f"{path}.runningEstimate") if estimate is not None else None
    return [said_of_duration(error)] if error else ()


def check_retry(spec: Mapping[str, Any], path: str) -> Iterator[Finding]:
    """Yield the faults of `retry`: its fields must be durations of at least 0, and the longest pause must not be below
    the first.
    """
    retry = mapping(spec.get("retry"))
    faulty = False
    for field in _OF_RETRY:
        where, value = f"{path}.retry.{field}", retry.get(field)
        error = check_duration(value, where)
        if error is None and isinstance(value, str) and nanoseconds(value) < 0:
            error = invalid(where, value, "must not be negative; write it like 10s")
        if error is not None:
            faulty = True
            yield said_of_duration(error)
    first, longest = retry.get("backoff"), retry.get("maxBackoff")
    if not faulty and isinstance(first, str) and isinstance(longest, str) and nanoseconds(longest) < nanoseconds(first):
        yield said_of_duration(invalid(f"{path}.retry.maxBackoff", longest, f"is shorter than backoff; give {first} or more"))


def said_of_duration(error: FieldError) -> Finding:
    """Return the finding for an invalid duration, which Volcano does not report."""
    return Finding(f"{error.detail.partition(';')[0]};", (error,), extra=True)

"""Durations in the spec of a Job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyroclast.resources.durations import DurationError, nanoseconds
from pyroclast.rules.errors import FieldError, invalid
from pyroclast.rules.values import Json
from pyroclast.rules.verdicts import Finding

__all__ = ["check_duration", "check_estimate", "said_of_duration"]


def check_duration(value: Json, path: str) -> FieldError | None:
    """The error of a text at `path` that is no duration."""
    if not isinstance(value, str):
        return None
    try:
        nanoseconds(value)
    except DurationError as error:
        return invalid(path, value, f"{error}; write it like 90s or 1h30m")
    return None


def check_estimate(spec: Mapping[str, Any], path: str) -> Sequence[Finding]:
    """`runningEstimate` must be a duration."""
    estimate = spec.get("runningEstimate")
    error = check_duration(estimate, f"{path}.runningEstimate") if estimate is not None else None
    return [said_of_duration(error)] if error else ()


def said_of_duration(error: FieldError) -> Finding:
    """The finding of such an error, which the original does not report."""
    return Finding(f"{error.detail.partition(';')[0]};", (error,), extra=True)

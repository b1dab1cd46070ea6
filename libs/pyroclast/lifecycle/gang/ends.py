"""The end of a Job by its times as its pods know it: annotations that nodes read, and variables that programs read.

A pod that is created before the start of its Job knows how long the Job may run, and counts from its own start, which is not
later than the start of the Job. A pod that is created later knows the time of the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.api import keys
from pyroclast.api.records import Job
from pyroclast.lifecycle.times import duration_seconds, format_time, lenient_seconds, parse_time


def deadline_of(job: Job) -> float | None:
    """Return the deadline of `job` in seconds since the epoch; None without a deadline, or with an invalid one."""
    text, created = job.spec.deadline, job.metadata.creation_timestamp
    if not text:
        return None
    try:
        return parse_time(text) if "T" in text.upper() else parse_time(created or "") + duration_seconds(text)
    except (ValueError, OverflowError):
        return None


def announced(job: Job) -> dict[str, str]:
    """Return the annotations of a new pod of `job` about its end; empty when `job` asks for no signal."""
    before, spec = job.spec.signal_before, job.spec
    if before is None:
        return {}
    ends = [deadline_of(job)]
    found = {keys.SIGNAL_BEFORE: f"{before.seconds}s {before.signal.removeprefix('SIG')}"}
    if spec.max_run_time and job.status.start_time:
        ends.append(parse_time(job.status.start_time) + lenient_seconds(spec.max_run_time))
    elif spec.max_run_time:
        found[keys.MAX_RUN_TIME] = spec.max_run_time
    try:
        known = format_time(min(end for end in ends if end is not None))
    except (ValueError, OverflowError):  # no end is known yet, or it is after the year 9999
        return found
    return {**found, keys.ENDS_AT: known}


def variables(annotations: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the environment variables for a pod with these annotations."""
    before, _, name = annotations.get(keys.SIGNAL_BEFORE, "").partition(" ")
    longest, at = annotations.get(keys.MAX_RUN_TIME), annotations.get(keys.ENDS_AT, "")
    values = {
        "VC_SIGNAL": name,
        "VC_SIGNAL_SECONDS": before.removesuffix("s"),
        "VC_MAX_RUN_SECONDS": f"{lenient_seconds(longest):.0f}" if longest else "",
        "VC_ENDS_AT": at,
    }
    return [{"name": key, "value": value} for key, value in values.items() if value]


def signal_of(annotations: Mapping[str, str], began: float) -> tuple[float, str] | None:
    """Return when a container that began at `began` gets a signal, in seconds since the epoch, and which; None for no signal."""
    before, _, name = annotations.get(keys.SIGNAL_BEFORE, "").partition(" ")
    longest, at = annotations.get(keys.MAX_RUN_TIME), annotations.get(keys.ENDS_AT)
    ends = [began + lenient_seconds(longest)] if longest else []
    try:
        ends += [parse_time(at)] if at else []
        return (min(ends) - duration_seconds(before), name) if ends and name else None
    except ValueError:
        return None

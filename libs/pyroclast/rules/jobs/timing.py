"""Rules for when a Job starts and ends, and for who decides that: `managedBy`, `after`, `maxRunTime`, `deadline`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyroclast.resources.durations import nanoseconds
from pyroclast.rules.errors import FieldError, invalid, required
from pyroclast.rules.jobs.policies import check_duration
from pyroclast.rules.names import dns_subdomain
from pyroclast.rules.podspecs.options import check_label_selector
from pyroclast.rules.values import Json, mapping, mappings, text
from pyroclast.rules.verdicts import Finding, untold

TIME: Final = (
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
"""The pattern of an RFC 3339 time."""

_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_TIME: Final = re.compile(TIME, re.ASCII)
SIGNALS: Final = tuple("ABRT ALRM CONT HUP INT KILL PIPE QUIT STOP TERM TSTP TTIN TTOU URG USR1 USR2 WINCH XCPU".split())  # noqa: SIM905
"""Signals that may come before the end of a Job."""

NOT_A_MANAGER: Final = 'must be a domain-prefixed path (such as "acme.io/foo")'
ONE_OF_BOTH: Final = "must set one of job and selector"
AFTER_ITSELF: Final = "a Job cannot run after itself"
NEEDS_ARRAYS: Final = "index same needs a Job of Pyroclast by its name, and a task with an array in this Job"
NO_TIME: Final = "must be an RFC 3339 time, or a duration above 0 such as 2h"
NOT_POSITIVE: Final = "must be a duration above 0, such as 2h"
NO_RUN_TIME: Final = "onTimeout has a meaning only with maxRunTime"
NO_END: Final = "signalBefore has a meaning only with maxRunTime or deadline"
NO_SIGNAL: Final = f"must be the name of a signal: {', '.join(SIGNALS)}"


def check_timing(spec: Mapping[str, Any], path: str, name: str) -> Sequence[Finding]:
    """Return the faults of `spec` at `path` of a Job called `name`, which is empty in a template."""
    return [untold(error) for error in (*_managed(spec, path), *_after(spec, path, name), *_times(spec, path))]


def _managed(spec: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    by = text(spec.get("managedBy"))
    domain, slash, rest = by.partition("/")
    if by and (not slash or dns_subdomain(domain) or not _PATH.fullmatch(rest)):
        yield invalid(f"{path}.managedBy", by, NOT_A_MANAGER)


def _after(spec: Mapping[str, Any], path: str, name: str) -> Iterator[FieldError]:
    has_arrays = any(task.get("array") for _, task in mappings(spec.get("tasks")))
    for index, entry in mappings(spec.get("after")):
        where, job, selector = f"{path}.after[{index}]", text(entry.get("job")), entry.get("selector")
        is_native = entry.get("kind") == "BatchJob"
        if bool(job) == (selector is not None):
            yield invalid(where, job, ONE_OF_BOTH) if job else required(where, ONE_OF_BOTH)
        if job and job == name and not is_native:
            yield invalid(f"{where}.job", job, AFTER_ITSELF)
        if entry.get("index") is not None and (not job or is_native or not has_arrays):
            yield invalid(f"{where}.index", entry.get("index"), NEEDS_ARRAYS)
        errors: list[FieldError] = []
        check_label_selector(selector, f"{where}.selector", errors)
        yield from errors


def _times(spec: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    longest, deadline, before = spec.get("maxRunTime"), spec.get("deadline"), spec.get("signalBefore")
    if isinstance(longest, str) and not _is_positive(longest):
        yield invalid(f"{path}.maxRunTime", longest, NOT_POSITIVE)
    if isinstance(deadline, str) and not (_TIME.fullmatch(deadline) or _is_positive(deadline)):
        yield invalid(f"{path}.deadline", deadline, NO_TIME)
    if spec.get("onTimeout") and not longest:
        yield invalid(f"{path}.onTimeout", spec.get("onTimeout"), NO_RUN_TIME)
    if before is not None and not (longest or deadline):
        yield invalid(f"{path}.signalBefore", before, NO_END)
    signal = text(mapping(before).get("signal"))
    if signal and signal.removeprefix("SIG") not in SIGNALS:
        yield invalid(f"{path}.signalBefore.signal", signal, NO_SIGNAL)


def _is_positive(value: Json) -> bool:
    return check_duration(value, "") is None and nanoseconds(value) > 0

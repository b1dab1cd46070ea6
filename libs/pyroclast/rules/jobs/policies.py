"""Rules for lifecycle policies of a Job or a task, and for the durations that decide about retries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pyroclast.api.enums import Action, BusEvent
from pyroclast.resources.durations import DurationError, nanoseconds
from pyroclast.rules.errors import FieldError, invalid, required, unsupported
from pyroclast.rules.values import Json, mapping, mappings, optional_integer, string_items, text
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
    error = check_duration(spec.get("runningEstimate"), f"{path}.runningEstimate")
    return [said_of_duration(error)] if error else ()


def check_retry(spec: Mapping[str, Any], path: str) -> Iterator[Finding]:
    """Yield the faults of `retry`: durations of at least 0, of which the longest pause is not below the first."""
    retry = mapping(spec.get("retry"))
    faulty = False
    for name in _OF_RETRY:
        where, value = f"{path}.retry.{name}", retry.get(name)
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


EVENTS: Final = tuple(sorted(event for event in BusEvent if not event.is_internal))
"""Events that a policy may name."""

ACTIONS: Final = tuple(sorted(action for action in Action if action.is_for_policies))
"""Actions that a policy may name."""

_LISTS = f" valid events are [{' '.join(EVENTS)}], valid actions are [{' '.join(ACTIONS)}];"
BOTH = "must not specify event and exitCode simultaneously"
SUCCESS_CODE = "0 is not a valid error code"
NEITHER = "either event and exitCode should be specified"
STAR_ALONE = "if there's * here, no other policy should be here"

_Fault: TypeAlias = tuple[str, FieldError, int]
"""Volcano's sentence, the error of the field, and the number of events that Volcano had read before the fault."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The events and exit codes that policies name, each with the position of the first policy that names it."""

    events: dict[str, int] = field(default_factory=dict)
    codes: dict[int, int] = field(default_factory=dict)


def check_policies(policies: Json, path: str, *, said_path: str) -> Sequence[Finding]:
    """Return all faults of the policies at `path`, which is `said_path` in Volcano's sentences.

    Volcano stops at the first faulty policy, and so knows only the events before it. The faults of later policies are extra.
    """
    if not policies:
        return ()
    said: list[_Fault] = []
    more: list[Finding] = []
    seen = _Seen()
    for index, policy in mappings(policies):
        if faults := _faults(policy, f"{path}[{index}]", seen, index, said_path):
            if not said:
                said.append(faults.pop(0))
            more += [Finding(f"{sentence};", (error,), extra=True) for sentence, error, _ in faults]
        if error := check_duration(policy.get("timeout"), f"{path}[{index}].timeout"):
            more.append(said_of_duration(error))
    events = list(seen.events)
    if "*" in seen.events and len(events) > 1:
        known = events[: said[0][2]] if said else events
        error = invalid(f"{path}[{seen.events['*']}]", "*", f"{STAR_ALONE}; leave either * or the other events")
        if "*" in known and len(known) > 1:
            said.append((STAR_ALONE, error, len(known)))
        else:
            more.append(Finding(f"{STAR_ALONE};", (error,), extra=True))
    return [_as_said(said), *more] if said else more


def _as_said(faults: list[_Fault]) -> Finding:
    """Return the finding that Volcano reports as one message."""
    count = len(faults)
    lines = "".join(f"\t* {sentence}\n" for sentence, *_ in faults)
    head = f"{count} error{'s' if count > 1 else ''} occurred:\n{lines}\n"
    return Finding(head + _LISTS, tuple(error for _, error, _ in faults))


_HIGHEST_EXIT_CODE: Final = 255


def policy_warnings(policies: Json, path: str) -> list[str]:
    """Return warnings for valid policies that never fire, or that have an unexpected effect."""
    lines: list[str] = []
    for index, policy in mappings(policies):
        events, timeout = _events(policy), policy.get("timeout")
        if "JobUpdated" in events:
            lines.append(f"{path}[{index}]: no policy fires on event JobUpdated, the job is updated without one")
        if "PodPending" in events and timeout is None:
            lines.append(f"{path}[{index}]: event PodPending without a timeout never fires")
        code = optional_integer(policy.get("exitCode"))
        if code is not None and not 0 <= code <= _HIGHEST_EXIT_CODE:
            lines.append(
                f"{path}[{index}].exitCode: no container on Linux ends with {code}, codes go from 0 to {_HIGHEST_EXIT_CODE}"
            )
        if isinstance(timeout, str) and timeout.startswith("-"):
            lines.append(f"{path}[{index}].timeout: {timeout} is negative, the action runs at once")
    return lines


def _faults(policy: Mapping[str, Any], where: str, seen: _Seen, index: int, said_path: str) -> list[_Fault]:
    events, has_code, known = _events(policy), policy.get("exitCode") is not None, len(seen.events)
    if events and has_code:
        return [(BOTH, invalid(f"{where}.exitCode", policy["exitCode"], f"{BOTH}; keep one of them"), known)]
    if events:
        return _faults_with_events(policy, events, where, seen, index, said_path=said_path)
    if has_code:
        return _faults_with_exit_code(policy, where, seen, index, said_path=said_path)
    return [(NEITHER, required(f"{where}.event", f"{NEITHER}: name an event, or a non-zero exitCode"), known)]


def _faults_with_events(
    policy: Mapping[str, Any], events: list[str], where: str, seen: _Seen, index: int, *, said_path: str
) -> list[_Fault]:
    faults: list[_Fault] = []
    action = text(policy.get("action"))
    for event in events:
        known = len(seen.events)
        if event not in EVENTS:
            faults.append((*_unknown(event, f"{where}.event", "invalid policy event", EVENTS, said_path), known))
        if action not in ACTIONS:
            faults.append((*_unknown(action, f"{where}.action", "invalid policy action", ACTIONS, said_path), known))
        if event in seen.events:
            sentence = f"duplicate event {event}  across different policy"
            error = invalid(f"{where}.event", event, f"{sentence}; policy {seen.events[event]} handles it already")
            faults.append((sentence, error, known))
        seen.events.setdefault(event, index)
    return faults


def _faults_with_exit_code(policy: Mapping[str, Any], where: str, seen: _Seen, index: int, *, said_path: str) -> list[_Fault]:
    code = optional_integer(policy.get("exitCode"))
    if code is None:
        return []
    faults: list[_Fault] = []
    known = len(seen.events)
    if code == 0:
        faults.append((SUCCESS_CODE, invalid(f"{where}.exitCode", 0, f"{SUCCESS_CODE}: it means success"), known))
    elif code in seen.codes:
        sentence = f"duplicate exitCode {code}"
        error = invalid(f"{where}.exitCode", code, f"{sentence}; policy {seen.codes[code]} handles it already")
        faults.append((sentence, error, known))
    seen.codes.setdefault(code, index)
    action = text(policy.get("action"))
    if action not in ACTIONS:
        faults.append((*_unknown(action, f"{where}.action", "invalid policy action", ACTIONS, said_path), known))
    return faults


def _events(policy: Mapping[str, Any]) -> list[str]:
    """Return the distinct events of a policy, `events` before `event`."""
    single, several = text(policy.get("event")), policy.get("events")
    ones = [single] if single else []
    return list(dict.fromkeys([*string_items(several), *ones])) if several else ones


def _unknown(value: str, path: str, sentence: str, known: tuple[str, ...], said_path: str) -> tuple[str, FieldError]:
    error = invalid(path, value, f"{sentence}, {unsupported(path, value, known).detail}")
    return str(invalid(said_path, value, sentence)), error

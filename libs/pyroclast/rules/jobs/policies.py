"""Lifecycle policies of a Job or of a task: which may stand together, what they may name, which can never fire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyroclast.rules.errors import FieldError, invalid, required, unsupported
from pyroclast.rules.jobs.timing import check_duration
from pyroclast.rules.values import Json, items, mappings, optional_integer, string_items, text
from pyroclast.rules.verdicts import Finding

__all__ = ["ACTIONS", "EVENTS", "check_policies", "policy_warnings"]

EVENTS = ("*", "JobUpdated", "PodEvicted", "PodFailed", "PodPending", "TaskCompleted", "TaskFailed", "Unknown")
"""Events that a policy may name."""

ACTIONS = (
    "AbortJob",
    "CompleteJob",
    "RestartJob",
    "RestartPartition",
    "RestartPod",
    "RestartTask",
    "ResumeJob",
    "TerminateJob",
)
"""Actions that a policy may ask for."""

_LISTS = f" valid events are [{' '.join(EVENTS)}], valid actions are [{' '.join(ACTIONS)}];"
_BOTH = "must not specify event and exitCode simultaneously"
_NEITHER = "either event and exitCode should be specified"
_STAR = "if there's * here, no other policy should be here"


@dataclass(slots=True)
class _Problems:
    """What is wrong with a list of policies: `said` by the original, and the errors per field."""

    said: list[str] = field(default_factory=list)
    errors: list[FieldError] = field(default_factory=list)
    more: list[Finding] = field(default_factory=list)


def check_policies(policies: Json, path: str, *, said_path: str) -> Iterator[Finding]:
    """Everything wrong with the list at `path`.

    `said_path` is how the original's sentences call it (without indices). It stops at the first policy at fault; the
    faults of the others are extra findings.
    """
    if not items(policies):
        return
    problems = _Problems()
    events: dict[str, int] = {}
    exit_codes: dict[int, int] = {}
    for index, policy in mappings(policies):
        where = f"{path}[{index}]"
        named = _events(policy)
        found = [
            *_check_trigger(policy, named, where),
            *_check_events(policy, named, where, said_path=said_path, seen=events, index=index),
            *_check_exit_code(policy, named, where, said_path=said_path, seen=exit_codes, index=index),
        ]
        if found and not problems.said:
            problems.said.append(found[0][0])
            problems.errors.append(found[0][1])
            found = found[1:]
        problems.more += [Finding(f"{sentence};", (error,), extra=True) for sentence, error in found]
        problems.more += _check_timeout(policy, where)
    if "*" in events and len(events) > 1:
        problems.said.append(_STAR)
        problems.errors.append(invalid(f"{path}[{events['*']}]", "*", f"{_STAR}; leave either * or the other events"))
    if problems.said:
        count = len(problems.said)
        lines = "".join(f"\t* {sentence}\n" for sentence in problems.said)
        head = f"{count} error{'s' if count > 1 else ''} occurred:\n{lines}\n"
        yield Finding(head + _LISTS, tuple(problems.errors))
    yield from problems.more


def policy_warnings(policies: Json, path: str) -> Iterator[str]:
    """Policies that are legal and never fire, or not as one would think."""
    for index, policy in mappings(policies):
        where = f"{path}[{index}]"
        events = _events(policy)
        timeout = policy.get("timeout")
        if "JobUpdated" in events:
            yield f"{where}: no policy fires on event JobUpdated, the job is updated without one"
        if "PodPending" in events and timeout is None:
            yield f"{where}: event PodPending without a timeout never fires"
        if isinstance(timeout, str) and timeout.startswith("-"):
            yield f"{where}.timeout: {timeout} is negative, the action runs at once"


def _check_trigger(policy: Mapping[str, Any], events: list[str], where: str) -> Iterator[tuple[str, FieldError]]:
    has_event, has_code = bool(events), policy.get("exitCode") is not None
    if has_event and has_code:
        yield _BOTH, invalid(f"{where}.exitCode", policy["exitCode"], f"{_BOTH}; keep one of them")
    elif not has_event and not has_code:
        yield _NEITHER, required(f"{where}.event", f"{_NEITHER}: name an event, or a non-zero exitCode")


def _check_events(
    policy: Mapping[str, Any], events: list[str], where: str, *, said_path: str, seen: dict[str, int], index: int
) -> Iterator[tuple[str, FieldError]]:
    if policy.get("exitCode") is not None:
        return
    action = text(policy.get("action"))
    for event in events:
        if event not in EVENTS:
            sentence = "invalid policy event"
            yield _said(said_path, event, sentence), _choice(f"{where}.event", event, sentence, EVENTS)
        if action not in ACTIONS:
            sentence = "invalid policy action"
            yield _said(said_path, action, sentence), _choice(f"{where}.action", action, sentence, ACTIONS)
        if event in seen:
            sentence = f"duplicate event {event}  across different policy"
            yield sentence, invalid(f"{where}.event", event, f"{sentence}; policy {seen[event]} handles it already")
        seen.setdefault(event, index)


def _check_exit_code(
    policy: Mapping[str, Any], events: list[str], where: str, *, said_path: str, seen: dict[int, int], index: int
) -> Iterator[tuple[str, FieldError]]:
    code = optional_integer(policy.get("exitCode"))
    if code is None or events:
        return
    if code == 0:
        sentence = "0 is not a valid error code"
        yield sentence, invalid(f"{where}.exitCode", 0, f"{sentence}: it means success")
    elif code in seen:
        sentence = f"duplicate exitCode {code}"
        yield sentence, invalid(f"{where}.exitCode", code, f"{sentence}; policy {seen[code]} handles it already")
    seen.setdefault(code, index)
    action = text(policy.get("action"))
    if action not in ACTIONS:
        sentence = "invalid policy action"
        yield _said(said_path, action, sentence), _choice(f"{where}.action", action, sentence, ACTIONS)


def _check_timeout(policy: Mapping[str, Any], where: str) -> Iterator[Finding]:
    if error := check_duration(policy.get("timeout"), f"{where}.timeout"):
        yield Finding(f"{error.detail.partition(';')[0]};", (error,), extra=True)


def _events(policy: Mapping[str, Any]) -> list[str]:
    """The distinct events of a policy, `events` before `event`."""
    single = text(policy.get("event"))
    ones = [single] if single else []
    many = string_items(policy.get("events"))
    return list(dict.fromkeys([*many, *ones])) if many else ones


def _said(path: str, value: str, sentence: str) -> str:
    return str(invalid(path, value, sentence))


def _choice(path: str, value: str, sentence: str, supported: tuple[str, ...]) -> FieldError:
    return invalid(path, value, f"{sentence}, {unsupported(path, value, supported).detail}")

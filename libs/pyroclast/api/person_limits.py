"""Limits of each person in a queue, as an annotation of the Queue sets them in JSON.

A person is the user who submitted a Job. Gangs without a submitter, such as plain pods, belong together by namespace, so that
nobody evades a limit with them. A limit of a queue also counts the Jobs of the queues below it. The limits of a class of service
count only the Jobs with that label.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Annotated, Final

import msgspec

from pyroclast.api import keys
from pyroclast.resources import durations, quantity

NORMAL: Final = "normal"
"""The class of service of a Job without the label."""

MOST_NAMES: Final = 256
"""The most resources, classes or persons in one annotation."""

EXAMPLE: Final = '{"runningJobs":8,"resources":{"nvidia.com/gpu":"16"},"runTime":"48h"}'


class PersonLimitsError(ValueError):
    """The annotation is not valid. The message says where and why."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one person may have. None, or an absent resource, means no limit.

    Attributes:
        running_jobs: the most Jobs that run or are let in.
        waiting_jobs: the most Jobs that wait; admission refuses further ones.
        resources: the most that the Jobs may use, by resource, as quantities.
        run_seconds: the longest time for which a Job runs.
    """

    running_jobs: int | None = None
    waiting_jobs: int | None = None
    resources: Mapping[str, str] = field(default_factory=dict)
    run_seconds: float | None = None

    def over(self, general: Limits) -> Limits:
        """Return `general` with the limits that are set here in place of its own."""
        return replace(
            general, **{each.name: value for each in fields(self) if (value := getattr(self, each.name)) not in (None, {})}
        )


@dataclass(frozen=True, slots=True)
class PersonLimits:
    """The limits of a queue: of each person, of single persons in place of these, and of each person in a class of service."""

    each: Limits
    persons: Mapping[str, Limits]
    classes: Mapping[str, Limits]

    def of(self, person: str, service_class: str) -> Iterator[tuple[str, Limits]]:
        """Yield the limits of a Job with the class that they count; an empty class counts all Jobs of the person."""
        own = self.persons.get(person)
        yield "", self.each if own is None else own.over(self.each)
        if service_class in self.classes:
            yield service_class, self.classes[service_class]

    def run_seconds(self, person: str, service_class: str) -> float | None:
        """Return the longest run time of a Job; None when there is no limit."""
        return min(
            (limits.run_seconds for _, limits in self.of(person, service_class) if limits.run_seconds is not None), default=None
        )

    def class_fault(self, service_class: str) -> str:
        """Return why a Job may not have this class; empty when it may. A queue without classes takes every class."""
        if not self.classes or service_class in self.classes or service_class == NORMAL:
            return ""
        known = ", ".join(sorted({NORMAL, *self.classes}))
        return f'there is no class of service "{service_class[:64]}" in this queue; it has {known}'


def person_of(annotations: Mapping[str, str], namespace: str) -> str:
    """Return who submitted an object with these annotations; where nobody knows, its namespace."""
    return annotations.get(keys.SUBMITTED_BY, "") or f"namespace {namespace}"


def class_of(labels: Mapping[str, str]) -> str:
    """Return the class of service in the labels of a Job or its PodGroup."""
    return labels.get(keys.SERVICE_CLASS, "") or NORMAL


_Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]


class _Limits(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    running_jobs: _Count | None = None
    waiting_jobs: _Count | None = None
    resources: dict[str, str] = {}
    run_time: str | None = None


class _Body(_Limits):
    persons: dict[str, _Limits] = {}
    classes: dict[str, _Limits] = {}


@lru_cache(maxsize=256)
def read_person_limits(annotation: str) -> PersonLimits:
    """Return the limits in the annotation. Raises PersonLimitsError: the annotation is not valid."""
    try:
        body = msgspec.json.decode(annotation, type=_Body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise PersonLimitsError(f"{str(error)[:300]}; limits are like {EXAMPLE}") from None
    named = {"persons": body.persons, "classes": body.classes}
    for path, parts in named.items():
        if len(parts) > MOST_NAMES:
            raise PersonLimitsError(f"{path}: {len(parts)} are too many; there may be {MOST_NAMES}")
    read = {
        path: {name: _limits(limits, f"{path}.{name[:64]}.") for name, limits in parts.items()} for path, parts in named.items()
    }
    return PersonLimits(_limits(body, ""), **read)


def _limits(body: _Limits, path: str) -> Limits:
    if len(body.resources) > MOST_NAMES:
        raise PersonLimitsError(f"{path}resources: {len(body.resources)} are too many; there may be {MOST_NAMES}")
    for name, text in body.resources.items():
        try:
            is_negative = quantity.parse(text).millis < 0
        except ValueError:
            is_negative = True
        if is_negative:
            raise PersonLimitsError(f"{path}resources.{name[:64]}: {text[:64]!r} is not a quantity of 0 or more, like 16 or 64Gi")
    return Limits(body.running_jobs, body.waiting_jobs, body.resources, _seconds(body.run_time, f"{path}runTime"))


def _seconds(text: str | None, path: str) -> float | None:
    if text is None:
        return None
    try:
        nanoseconds = durations.nanoseconds(text)
    except durations.DurationError:
        nanoseconds = 0
    if nanoseconds <= 0:
        raise PersonLimitsError(f"{path}: {text[:64]!r} is not a duration above 0s, like 48h")
    return nanoseconds / 1e9

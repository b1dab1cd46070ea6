"""Plugin tdm (time-division multiplexing): revocable nodes, which pods may only use during certain hours.

When the hours are over, running preemptable pods leave within the disruption budgets of their jobs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from operator import eq
from typing import Final

import numpy as np

from pyroclast.api import keys
from pyroclast.resources.go_flags import parse_bool
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.fit_errors import Code, Refusal
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Floats, Rows
from pyroclast_scheduler.model.tasks import Task, TaskStatus
from pyroclast_scheduler.model.values import parse_count
from pyroclast_scheduler.placement.plans import Load, PlacementPlan
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Candidate, Extensions, Vote
from pyroclast_scheduler.session.plugin_session import PluginSession

_DEFAULT = 1
_CLOCK: Final = re.compile(r"(\d{1,2}):(\d{2})")
_DAY: Final = 24 * 3600
_ZONE: Final = "tdm.revocable-zone."
_PERIOD: Final = "tdm.evict.period"
_LAST: Final = "tdm.last-eviction"
_WANTED: Final = 100.0
_NOT_ALLOWED: Final = "not allow to dispatch to revocable node"


def most_evictions(job: Job) -> int:
    """Return the number that the budget allows, 1 without a budget, and other than Volcano 0 if the job runs too few."""
    annotations = job.facts.group.metadata.annotations
    tasks = len(job.facts.tasks)
    running = job.tally[TaskStatus.RUNNING]
    least = annotations.get(keys.DISRUPTION_MIN_AVAILABLE, "")
    most = annotations.get(keys.DISRUPTION_MAX_UNAVAILABLE, "")
    if least:
        return max(0, running - _amount(least, tasks))
    if most:
        gone = tasks - job.tally[TaskStatus.SUCCEEDED] - job.tally[TaskStatus.FAILED] - running
        return max(0, _amount(most, tasks) - gone)
    return _DEFAULT


def _amount(text: str, whole: int) -> int:
    """Return a number, or a percentage of `whole` rounded up; 0 if `text` is neither."""
    number = parse_count(text.removesuffix("%")) or 0
    return -(-number * whole // 100) if text.endswith("%") else number


@dataclass(frozen=True, slots=True)
class Window:
    """A time of day: from `start`, in seconds since midnight, for `length` seconds, possibly beyond midnight."""

    start: int
    length: int

    def holds(self, second: float) -> bool:
        """Whether `second` since midnight is within the window, ends included."""
        return (second - self.start) % _DAY <= self.length


def parse_window(text: str) -> Window:
    """Parse a window such as `22:00-6:30`, or raise ValueError. An end that is not after the start is on the next day."""
    parts = [_CLOCK.fullmatch(part) for part in text.strip().split("-")]
    times = [(int(each[1]), int(each[2])) for each in parts if each]
    if len(parts) != 2 or len(times) != 2 or any(hour > 23 or minute > 59 for hour, minute in times):
        raise ValueError(f"{text!r} is not two times of day such as 22:00-6:30")
    start, end = (hour * 3600 + minute * 60 for hour, minute in times)
    return Window(start, (end - start) % _DAY or _DAY)


class Tdm:
    """Arguments: `tdm.revocable-zone.<zone>`, hours such as `22:00-6:30` in local time; `tdm.evict.period` (1m)."""

    def __init__(self, arguments: Arguments) -> None:
        self._windows: dict[str, Window] = {}
        self._texts: dict[str, str] = {}
        for key in arguments:
            if _ZONE in key:
                zone, text = key.partition(_ZONE)[2], arguments.text(key, "")
                self._texts[zone] = text
                try:
                    self._windows[zone] = parse_window(text)
                except ValueError as error:
                    arguments.warnings.append(f"argument {key}: {error}; the zone is closed")
        self._period = arguments.seconds(_PERIOD, "1m")

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of this plugin for one session."""
        memory, now = session.ports.memory, session.now()
        zones = _Zones(session, self._windows, self._texts, now=now)

        def leave(candidates: Sequence[Candidate], /) -> Sequence[Candidate]:
            if now - memory.get(_LAST, -np.inf) < self._period:
                return ()
            memory[_LAST] = now
            return zones.overdue(candidates)

        return Extensions(
            predicate=zones,
            node_order=zones.score,
            preemptable=zones.victims,
            victim_tasks=leave,
            job_order=lambda job: job.facts.is_preemptable,
            job_pipelined=lambda job: Vote.PERMIT if job.is_pipelined else Vote.REJECT,
            job_starving=lambda job: not job.facts.is_preemptable and job.tally[TaskStatus.PENDING] > 0,
        )


class _Zones:
    """The zones of nodes, and the zones that are open now."""

    def __init__(self, session: PluginSession, windows: Mapping[str, Window], texts: Mapping[str, str], *, now: float) -> None:
        local = datetime.fromtimestamp(now, UTC).astimezone()
        second = local.hour * 3600 + local.minute * 60 + local.second
        self._texts = texts
        self._open = {zone for zone, window in windows.items() if window.holds(second)}
        self._labels = session.features.label(keys.REVOCABLE_ZONE)
        self._has_zone = self._labels.where(bool)
        self._is_open = self._labels.where(lambda zone: zone in self._open)

    def mask(self, plan: PlacementPlan) -> Bools | None:
        """Return a mask of the nodes without a zone, and for revocable pods also of the nodes of open zones."""
        if not self._has_zone.any():
            return None
        return ~self._has_zone | (self._is_open & is_revocable(plan.shape.marks))

    def limits(self, plan: PlacementPlan, rows: Rows) -> Ints | None:
        del plan, rows
        return None

    def refusals(self, plan: PlacementPlan) -> Sequence[Refusal]:
        """Return the closed zones by name, then the open ones for pods that are not revocable."""
        found = []
        for zone in sorted({value for value in self._labels.values if value} - self._open):
            hours = self._texts.get(zone)
            beyond = f"current time beyond revocable zone {zone}:{hours}"
            reason = f"revocable zone {zone} not support" if hours is None else beyond
            found.append(Refusal(self._labels.where(partial(eq, zone)), reason, Code.UNRESOLVABLE))
        if not is_revocable(plan.shape.marks):
            found.append(Refusal(self._is_open, _NOT_ALLOWED, Code.UNRESOLVABLE))
        return found

    def score(self, plan: PlacementPlan, load: Load) -> Floats:
        """Return a score that prefers revocable nodes for revocable pods."""
        wanted = self._is_open & is_revocable(plan.shape.marks)
        return np.where(wanted[load.rows], _WANTED, 0.0)

    def victims(self, preemptor: Task, job: Job, candidates: Sequence[Candidate], /) -> list[Candidate]:
        """Return running preemptable pods outside zones, within their budgets; none for a preemptable or revocable preemptor."""
        del job
        if preemptor.facts.is_preemptable or is_revocable(preemptor.facts.shape.marks):
            return []
        return _within_budgets([each for each in candidates if _may_go(each[1]) and not self._has_zone[each[1].row]])

    def overdue(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return running preemptable pods on nodes of configured zones that are closed now, within their budgets."""
        is_closed = self._labels.where(lambda zone: zone in self._texts and zone not in self._open)
        return _within_budgets([each for each in candidates if _may_go(each[1]) and is_closed[each[1].row]])


def is_revocable(annotations: Mapping[str, str]) -> bool:
    """Whether a pod with these annotations may use revocable nodes."""
    return annotations.get(keys.REVOCABLE_ZONE) == "*" or parse_bool(annotations.get(keys.PREEMPTABLE, "")) is True


def _may_go(task: Task) -> bool:
    return task.facts.is_preemptable and task.status is TaskStatus.RUNNING and task.row >= 0


def _within_budgets(candidates: Sequence[Candidate]) -> list[Candidate]:
    left: dict[str, int] = {}
    chosen: list[Candidate] = []
    for job, task in candidates:
        key = job.facts.key
        left.setdefault(key, most_evictions(job))
        if left[key] > 0:
            left[key] -= 1
            chosen.append((job, task))
    return chosen

"""A Job with its PodGroup and why it waits, as every view of it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pyroclast.api.schedulers import SILENT_SECONDS, Schedulers
from pyroclast.views.amounts import main_resources
from pyroclast.views.waiting_causes import WAITS, WaitingCause, waiting_cause

__all__ = ["WAITING_PHASES", "Group", "JobView", "Reading", "absence_of", "seconds_since", "view_of"]

JOB_KIND: Final = "Job"
JUDGED_SECONDS: Final = SILENT_SECONDS + 5
"""After this time the job controller has said that a scheduler is missing, if it is."""
WAITING_PHASES: Final = frozenset({"", "Pending", "Inqueue"})
"""Phases of PodGroups that have no places yet."""

Group = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JobView:
    """A Job with its PodGroup, which may not be there yet."""

    job: Mapping[str, Any]
    group: Group | None
    cause: WaitingCause

    @property
    def namespace(self) -> str:
        """The namespace of the Job."""
        return str(self.job["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """The name of the Job."""
        return str(self.job["metadata"]["name"])

    @property
    def queue(self) -> str:
        """The queue that it is submitted to."""
        return str((self.job.get("spec") or {}).get("queue") or "default")

    @property
    def phase(self) -> str:
        """Its phase; empty before its controller has seen it."""
        return str(((self.job.get("status") or {}).get("state") or {}).get("phase", ""))

    @property
    def priority_class(self) -> str:
        """The name of its PriorityClass; empty for none."""
        return str((self.job.get("spec") or {}).get("priorityClassName") or "")

    @property
    def pods(self) -> int:
        """How many pods it has when all of it runs."""
        return sum(int(task.get("replicas", 1)) for task in (self.job.get("spec") or {}).get("tasks") or ())

    @property
    def asks(self) -> dict[str, str]:
        """What the gang needs at least; empty while there is no PodGroup."""
        return main_resources(((self.group or {}).get("spec") or {}).get("minResources") or {})


@dataclass(frozen=True, slots=True)
class Reading:
    """PodGroups. `is_complete`: of the whole cluster, since the user may see them."""

    groups: Sequence[Group]
    is_complete: bool

    def by_owner(self) -> dict[str, Group]:
        """The PodGroups of Jobs, by the Job's uid."""
        return {
            owner["uid"]: group
            for group in self.groups
            for owner in group["metadata"].get("ownerReferences") or ()
            if owner.get("kind") == JOB_KIND
        }


def seconds_since(timestamp: str, now: float) -> int:
    """Whole seconds from an API timestamp to `now`, seconds since the epoch; 0 for a time to come."""
    return max(0, int(now - datetime.fromisoformat(timestamp).timestamp()))


def view_of(job: Mapping[str, Any], group: Group | None, schedulers: Schedulers | None) -> JobView:
    """One Job with why it waits. `schedulers`: those at work, None where nobody knows."""
    return JobView(job, group, waiting_cause(job, group, absence=absence_of(job, schedulers)))


def absence_of(job: Mapping[str, Any], schedulers: Schedulers | None) -> str:
    """Why nobody schedules the pods of a Job, for the first scheduler that they ask for and that is not at work; empty: it is.

    A scheduler may work without a Lease, which shows on pods. The job controller sees these and says what it thinks after a
    while.
    """
    if schedulers is None:
        return ""
    spec = job.get("spec") or {}
    own = spec.get("schedulerName") or ""
    templates = ((task.get("template") or {}).get("spec") or {} for task in spec.get("tasks") or ())
    names = dict.fromkeys(filter(None, (template.get("schedulerName") or own for template in templates)))
    message = str(((job.get("status") or {}).get("state") or {}).get("message", ""))
    is_judged = message.startswith(WAITS) and seconds_since(job["metadata"]["creationTimestamp"], schedulers.at) > JUDGED_SECONDS
    found = (schedulers.absence(name) for name in names if schedulers.is_known(name) or not is_judged)
    return next(filter(None, found), "")

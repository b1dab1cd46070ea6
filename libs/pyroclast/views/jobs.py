"""A Job with its PodGroup and its cause, on which every view of Jobs is based."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pyroclast.api.schedulers import SILENT_SECONDS, Schedulers
from pyroclast.views.amounts import main_resources
from pyroclast.views.waiting_causes import WAITS, WaitingCause, waiting_cause

JOB_KIND: Final = "Job"
JUDGED_SECONDS: Final = SILENT_SECONDS + 5
"""Seconds after which the job controller has reported a missing scheduler."""
WAITING_PHASES: Final = frozenset({"", "Pending", "Inqueue"})
"""Phases of PodGroups that are not allocated yet."""

Group = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JobView:
    """A Job with its PodGroup, which may not exist yet."""

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
        """The queue to which the Job is submitted."""
        return str((self.job.get("spec") or {}).get("queue") or "default")

    @property
    def phase(self) -> str:
        """The phase of the Job; empty before the first reconciliation."""
        return str(((self.job.get("status") or {}).get("state") or {}).get("phase", ""))

    @property
    def priority_class(self) -> str:
        """The name of the Job's PriorityClass; empty for none."""
        return str((self.job.get("spec") or {}).get("priorityClassName") or "")

    @property
    def pods(self) -> int:
        """The number of pods of the Job when it runs completely."""
        return sum(int(task.get("replicas", 1)) for task in (self.job.get("spec") or {}).get("tasks") or ())

    @property
    def asks(self) -> dict[str, str]:
        """The minimum requests of the gang; empty while there is no PodGroup."""
        return main_resources(((self.group or {}).get("spec") or {}).get("minResources") or {})


@dataclass(frozen=True, slots=True)
class Reading:
    """PodGroups. `is_complete`: whether these are all PodGroups of the cluster; otherwise the user may not read all."""

    groups: Sequence[Group]
    is_complete: bool

    def by_owner(self) -> dict[str, Group]:
        """Return the PodGroups of Jobs, by the Job's UID."""
        return {
            owner["uid"]: group
            for group in self.groups
            for owner in group["metadata"].get("ownerReferences") or ()
            if owner.get("kind") == JOB_KIND
        }


def seconds_since(timestamp: str, now: float) -> int:
    """Return whole seconds from an API timestamp to `now` (seconds since the epoch); 0 for a future timestamp."""
    return max(0, int(now - datetime.fromisoformat(timestamp).timestamp()))


def view_of(job: Mapping[str, Any], group: Group | None, schedulers: Schedulers | None) -> JobView:
    """Return one Job with its cause. `schedulers`: the schedulers that lead; None when unknown."""
    return JobView(job, group, waiting_cause(job, group, absence=absence_of(job, schedulers)))


def absence_of(job: Mapping[str, Any], schedulers: Schedulers | None) -> str:
    """Return why no scheduler places the pods of a Job, for the first of the Job's schedulers that does not lead; empty if all
    lead.

    A scheduler may work without a Lease, which only its pods show. After a while, the job controller has checked the pods, and
    its message is used.
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

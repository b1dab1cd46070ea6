"""Jobs that a running scheduler has not examined."""

from __future__ import annotations

from typing import Final

from pyroclast.api.enums import JobPhase, PodGroupPhase
from pyroclast.api.records import Pod
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.lifecycle.job.facts import JobFacts
from pyroclast.lifecycle.times import parse_time

PATIENCE_SECONDS: Final = 30.0


def unexamined(facts: JobFacts) -> str:
    """Return `NotExamined: …` when the PodGroup is half a minute old and no scheduler has examined the gang; else empty."""
    if (due := _due(facts)) is None or facts.now < due:
        return ""
    return f"{PendingReason.NOT_EXAMINED}: the scheduler has not looked at it since it came or changed"


def recheck_at(facts: JobFacts) -> float | None:
    """Return the time at which `unexamined` will return another result without any event, in seconds since the epoch.

    None when time alone does not change the result.
    """
    due = _due(facts)
    return due if due is not None and facts.now < due else None


def _due(facts: JobFacts) -> float | None:
    group = facts.group
    waits = facts.job.status.state.phase in (JobPhase.NEW, JobPhase.PENDING)
    if not waits or group is None or group.metadata.is_terminating or not group.metadata.creation_timestamp:
        return None
    if group.status.phase not in (PodGroupPhase.PENDING, PodGroupPhase.INQUEUE) or group.status.conditions:
        return None
    if any(map(_is_examined, facts.pods.by_name.values())):
        return None
    return parse_time(group.metadata.creation_timestamp) + PATIENCE_SECONDS


def _is_examined(pod: Pod) -> bool:
    """Whether a scheduler has examined or bound `pod`."""
    return bool(pod.spec.node_name) or any(each.type == "PodScheduled" for each in pod.status.conditions)

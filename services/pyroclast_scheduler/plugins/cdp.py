"""Plugin cdp (cool-down protection): a pod is not evicted shortly after it was placed."""

from __future__ import annotations

from collections.abc import Sequence

from pyroclast.api import keys
from pyroclast.api.enums import PodPhase
from pyroclast.resources import durations
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.tasks import Task, TaskFacts, seconds_of
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Candidate, Extensions
from pyroclast_scheduler.session.plugin_session import PluginSession


class Cdp:
    """The label, or else the annotation, `volcano.sh/cooldown-time` of a pod declares how long the pod is protected."""

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of this plugin for one session."""

        def unprotected(preemptor: Task, job: Job, candidates: Sequence[Candidate], /) -> list[Candidate]:
            del preemptor, job
            return [(owner, task) for owner, task in candidates if not is_protected(task.facts)]

        def is_protected(task: TaskFacts) -> bool:
            until = protected_until(task)
            return until > 0 and session.now() < until

        return Extensions(preemptable=unprotected, reclaimable=unprotected)


def protected_until(task: TaskFacts) -> float:
    """Return until when, counted from its placement, a pod must not be evicted (epoch seconds); 0 if it is not protected."""
    meta, status = task.pod.metadata, task.pod.status
    text = meta.labels.get(keys.COOLDOWN_TIME) or meta.annotations.get(keys.COOLDOWN_TIME, "")
    placed = next((each for each in status.conditions if each.type == "PodScheduled" and each.status == "True"), None)
    if not text or status.phase is not PodPhase.RUNNING or placed is None:
        return 0.0
    try:
        return seconds_of(placed.last_transition_time) + durations.nanoseconds(text) / 1e9
    except ValueError:
        return 0.0

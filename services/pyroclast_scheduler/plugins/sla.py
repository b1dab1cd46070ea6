"""Plugin sla: a job that has waited too long is enqueued and may be pipelined, whatever later tiers vote."""

from __future__ import annotations

from pyroclast.api import keys
from pyroclast.resources import durations
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions, Rank, Vote
from pyroclast_scheduler.session.plugin_session import PluginSession

_ARGUMENT = "sla-waiting-time"


class Sla:
    """Argument `sla-waiting-time`: a duration such as `1h30m`; without the argument, only jobs with an annotation have a limit.

    The annotation `volcano.sh/sla-waiting-time` of a PodGroup takes precedence; `sla-waiting-time` is its older name.
    """

    def __init__(self, arguments: Arguments) -> None:
        text = arguments.text(_ARGUMENT, "")
        self._default = _seconds(text)
        if text and self._default is None:
            arguments.warnings.append(f"argument {_ARGUMENT}: {text!r} is no duration above 0 such as 1h30m; there is no limit")

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of this plugin for one session."""

        def vote(job: Job) -> Vote:
            limit = self._limit(job)
            return Vote.PERMIT if limit is not None and session.now() >= job.facts.created + limit else Vote.ABSTAIN

        return Extensions(job_order=self._rank, job_enqueueable=vote, job_pipelined=vote, is_enqueue_told=True)

    def _rank(self, job: Job) -> Rank:
        """Return the rank: jobs with a limit first, the earliest limit first."""
        limit = self._limit(job)
        return (True, 0.0) if limit is None else (False, job.facts.created + limit)

    def _limit(self, job: Job) -> float | None:
        annotations = job.facts.group.metadata.annotations
        text = annotations.get(keys.SLA_WAITING_TIME) or annotations.get(keys.SLA_WAITING_TIME_LEGACY, "")
        own = _seconds(text)
        return self._default if own is None else own


def _seconds(text: str) -> float | None:
    """Return a duration above 0 in seconds, None if `text` is not one."""
    seconds = durations.seconds(text)
    return seconds if seconds is not None and seconds > 0 else None

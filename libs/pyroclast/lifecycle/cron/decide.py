"""What is to be done about a CronJob now: what its status tells, which finished Jobs go, and whether one is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyroclast.api.records import CronJob, Job
from pyroclast.lifecycle.cron.clock import Clock
from pyroclast.lifecycle.cron.jobs import is_owned
from pyroclast.lifecycle.cron.plan import CronPlan, plan
from pyroclast.lifecycle.cron.review import Review, review
from pyroclast.lifecycle.cron.state import CronState
from pyroclast.lifecycle.notices import Notice

__all__ = ["CronDecision", "CronFacts", "decide"]


@dataclass(frozen=True, slots=True)
class CronFacts:
    """What is known of a CronJob at one moment.

    `jobs`: those that belong to it or that its status names, by name; `acted`: the time of the schedule that was acted on last,
    if the status may not tell of it yet; `clock`: its schedule, None while it makes no Jobs; `notices`: what is said of that.
    """

    cron_job: CronJob
    jobs: Mapping[str, Job]
    acted: float | None
    clock: Clock | None
    notices: tuple[Notice, ...]
    now: float


@dataclass(frozen=True, slots=True)
class CronDecision:
    """First what the `review` asks for, then what is in the `plan`."""

    review: Review
    plan: CronPlan


def decide(facts: CronFacts) -> CronDecision:
    """What follows from the facts."""
    cron_job = facts.cron_job
    if cron_job.metadata.is_terminating:
        return CronDecision(Review(CronState.of(cron_job), (), ()), CronPlan())  # its owner references clean up
    found = review(cron_job, facts.jobs)
    if facts.acted is not None:
        found = replace(found, state=found.state.acted_on(facts.acted))
    names = [name for name, job in facts.jobs.items() if is_owned(cron_job, job)]
    planned = plan(cron_job, found.state, facts.clock, now=facts.now, names=names) if facts.clock is not None else CronPlan()
    return CronDecision(found, replace(planned, notices=(*facts.notices, *planned.notices)))

"""The collection of the facts about a Job for a decision."""

from __future__ import annotations

from collections.abc import Iterable

from pyroclast.api.enums import JobReason
from pyroclast.api.records import Command, Job, PodGroup
from pyroclast.api.schedulers import Schedulers
from pyroclast.api.types import Key
from pyroclast.lifecycle.gang import members, ownership
from pyroclast.lifecycle.gang.observed_pods import ObservedPods
from pyroclast.lifecycle.job.facts import JobFacts, RequestedAction
from pyroclast_job_controller.caches import Caches
from pyroclast_job_controller.job.memory import JobMemory
from pyroclast_job_controller.plugins.registry import marks_of


def facts_of(
    caches: Caches,
    job: Job,
    memory: JobMemory,
    commands: Iterable[Command],
    now: float,
    *,
    schedulers: Schedulers | None = None,
    own_schedulers: frozenset[str] = frozenset(),
) -> JobFacts:
    """Return the facts about `job` at `now`, in seconds since the epoch.

    `commands`: the pending Commands for the Job. `schedulers`: the running schedulers; None when unknown. `own_schedulers`: the
    names of the schedulers that this controller works with.
    """
    job, namespace = members.named(job), job.metadata.namespace
    group = _group_of(caches, job)
    claims = (volume.volume_claim_name for volume in job.spec.volumes if volume.volume_claim_name)
    return JobFacts(
        job,
        now,
        pods=ObservedPods.of(job, caches.pods.members(job.metadata.uid)),
        group=group,
        queue=caches.queues.get(Key("", job.spec.queue)),
        claims=frozenset(name for name in claims if caches.claims.get(Key(namespace, name))),
        priorities={each.metadata.name: each.value for each in caches.priorities.values()},
        marks=marks_of(job),
        orders=(*map(_order_of, commands), *((memory.given_up,) if memory.given_up else ())),
        memory=memory.snapshot(now, group),
        schedulers=schedulers,
        own_schedulers=own_schedulers,
    )


def _order_of(command: Command) -> RequestedAction:
    message = command.message or f"{command.action} was asked for by a command"
    return RequestedAction(command.action, JobReason.COMMAND_ISSUED, message, command.metadata.uid)


def _group_of(caches: Caches, job: Job) -> PodGroup | None:
    """Return the PodGroup of `job`; None when the Job has none.

    A PodGroup whose name is the name of the Job, as in early versions of Volcano, is returned only if `job` owns it.
    """
    namespace = job.metadata.namespace
    group = caches.groups.get(Key(namespace, members.group_name(job)))
    if group is not None:
        return group
    legacy = caches.groups.get(Key(namespace, job.metadata.name))
    return legacy if legacy and ownership.is_ours(job, legacy.metadata) else None

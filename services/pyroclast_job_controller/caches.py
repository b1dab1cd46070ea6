"""What the controllers watch, and what their own writes add to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.records import Command, Job, PersistentVolumeClaim, Pod, PodGroup, PriorityClass, Queue
from pyroclast.api.types import COMMANDS, JOBS, PERSISTENT_VOLUME_CLAIMS, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES
from pyroclast.kube.client import Client
from pyroclast.kube.informer import Informer
from pyroclast.lifecycle import members
from pyroclast_job_controller.recent import GROUP, Recent

__all__ = ["CLAIM", "QUEUE", "Caches"]

QUEUE: Final = "queue"
"""Index of Jobs and PodGroups: the name of their queue."""
CLAIM: Final = "claim"
"""Index of Jobs: `namespace/name` of each claim that they name."""


class Caches:
    """The informers of all controllers of this process, so that none is kept twice.

    Args:
        client: the API server.
        clock: counts seconds; any origin will do.
        schedulers: names of our schedulers, whose pods without a Job are watched too; none: they are not.
    """

    def __init__(self, client: Client, clock: Callable[[], float], schedulers: Sequence[str] = ()) -> None:
        self.jobs = Recent(Informer(client, JOBS, Job, indexers={QUEUE: _queue_of_job, CLAIM: _claims_of_job}), clock)
        self.pods = Recent(
            Informer(client, PODS, Pod, label_selector=keys.JOB_NAME, indexers={GROUP: _owner_of}), clock, _owner_of
        )
        one = f"spec.schedulerName={schedulers[0]}" if len(schedulers) == 1 else ""  # the server cannot tell several from others
        self.plain_pods: Informer[Pod] = Informer(client, PODS, Pod, label_selector=f"!{keys.JOB_NAME}", field_selector=one)
        self.groups = Recent(Informer(client, POD_GROUPS, PodGroup, indexers={QUEUE: _queue_of_group}), clock)
        self.queues = Recent(Informer(client, QUEUES, Queue), clock)
        self.commands: Informer[Command] = Informer(client, COMMANDS, Command)
        self.claims = Recent(Informer(client, PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim), clock)
        self.priorities: Informer[PriorityClass] = Informer(client, PRIORITY_CLASSES, PriorityClass)
        self.informers: tuple[Informer[Any], ...] = (
            self.jobs.informer,
            self.pods.informer,
            *((self.plain_pods,) if schedulers else ()),
            self.groups.informer,
            self.queues.informer,
            self.commands,
            self.claims.informer,
            self.priorities,
        )


def _queue_of_job(job: Job) -> Iterable[str]:
    return (job.spec.queue,)


def _claims_of_job(job: Job) -> Iterable[str]:
    names = {volume.volume_claim_name for volume in job.spec.volumes if volume.volume_claim_name}
    return [f"{job.metadata.namespace}/{name}" for name in names]


def _owner_of(pod: Pod) -> Iterable[str]:
    owner = members.owner_of(pod)
    return (owner.uid,) if owner else ()


def _queue_of_group(group: PodGroup) -> Iterable[str]:
    return (group.spec.queue,)

"""What all controllers of the process share: clients, and informers whose caches contain the answers to our own writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pyroclast.api import keys, records, types
from pyroclast.kube.http.client import Client
from pyroclast.kube.lease.scheduler_leases import SchedulerLeases
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.watch.own_writes import GROUP, Recent
from pyroclast.lifecycle.gang import members, orphans
from pyroclast.lifecycle.job import after
from pyroclast.runtime.controllers import ControllerContext
from pyroclast.runtime.in_process.pod_additions import PodAdditions
from pyroclast.runtime.in_process.queues import QueueCache
from pyroclast_job_controller.metrics import ControllerMetrics

QUEUE: Final = "queue"
"""Name of the index of Jobs and PodGroups by the name of their queue."""
ORPHAN: Final = "orphan"
"""Name of the index of objects without an owner.

A PodGroup is indexed by the `namespace/name` of the Job that it was made for. A pod is indexed by that of its PodGroup.
"""
CLAIM: Final = "claim"
"""Name of the index of Jobs by the `namespace/name` of each claim that they name."""
HYPER_JOB: Final = "hyperjob"
"""Name of the index of Jobs by the UID of their HyperJob."""
NODE: Final = "node"
"""Name of the index of pods by the name of their node."""
OWNER: Final = "owner"
"""Name of the index of Jobs, and of pods without a Job, by the UID of their controller."""

AWAITED: Final = "awaited"
"""Name of the index of Jobs by the earlier Jobs for which they wait, see `after.awaited`."""
LABEL: Final = "label"
"""Name of the index of Jobs and native Jobs by their namespace, and by their namespace with each label."""

TARGET: Final = "target"
"""Name of the index of Commands by the name of their target."""


class Caches:
    """The informers of all controllers of this process, so that no object is cached twice.

    `schedulers`: names of Pyroclast's schedulers, whose pods without a Job are watched too. Empty when they are not watched.
    """

    def __init__(self, client: Client, clock: Callable[[], float], schedulers: Sequence[str] = ()) -> None:
        by = {QUEUE: _queue_of, CLAIM: _claims_of_job, OWNER: controller_of, HYPER_JOB: _hyper_job_of}
        by |= {AWAITED: after.awaited, LABEL: _labels_of}
        of_job = {GROUP: _owner_of, ORPHAN: _group_of_orphan, NODE: node_of}
        of_group = {QUEUE: _queue_of, ORPHAN: _job_of_orphan}
        self.jobs = Recent(Informer(client, types.JOBS, records.Job, indexers=by), clock)
        self.pods = Recent(
            Informer(client, types.PODS, records.Pod, label_selector=keys.JOB_NAME, indexers=of_job), clock, _owner_of
        )
        one = f"spec.schedulerName={schedulers[0]}" if len(schedulers) == 1 else ""  # a field selector cannot match several names
        without_job, by_owner = f"!{keys.JOB_NAME}", {OWNER: controller_of}
        self.plain_pods: Informer[records.Pod] = Informer(
            client, types.PODS, records.Pod, label_selector=without_job, field_selector=one, indexers=by_owner
        )
        self.groups = Recent(Informer(client, types.POD_GROUPS, records.PodGroup, indexers=of_group), clock)
        self.queues = Recent(Informer(client, types.QUEUES, records.Queue), clock)
        self.commands: Informer[records.Command] = Informer(
            client, types.COMMANDS, records.Command, indexers={TARGET: _target_of}
        )
        self.claims = Recent(Informer(client, types.PERSISTENT_VOLUME_CLAIMS, records.PersistentVolumeClaim), clock)
        self.priorities: Informer[records.PriorityClass] = Informer(client, types.PRIORITY_CLASSES, records.PriorityClass)
        self.namespaces: Informer[records.Namespace] = Informer(client, types.NAMESPACES, records.Namespace)
        """Watched only if a controller requests it with `watch`."""
        self.nodes: Informer[records.NodeHealth] = Informer(client, types.NODES, records.NodeHealth)
        """Watched only if a controller requests it with `watch`."""
        self.batch_jobs: Informer[records.BatchJob] = Informer(
            client, types.BATCH_JOBS, records.BatchJob, indexers={LABEL: _labels_of}
        )
        """Watched only if a controller requests it with `watch`, or a Job waits for a native Job."""
        self.departed: dict[str, str] = {}
        """The last phases of deleted Jobs for which others wait, by UID."""
        self.additions = PodAdditions(client)
        self.informers: list[Informer[Any]] = [
            self.jobs.informer,
            self.pods.informer,
            *((self.plain_pods,) if schedulers else ()),
            self.groups.informer,
            self.queues.informer,
            self.commands,
            self.claims.informer,
            self.priorities,
            *self.additions.informers,
        ]
        self.optional: list[Informer[Any]] = []
        """Informers of kinds that a cluster may not serve. No controller waits for their synchronisation."""

    @cached_property
    def queue_views(self) -> QueueCache:
        """Return the queues as the rules need them. Call this before the informers run."""
        return QueueCache(self.queues.informer)

    def watch(self, informer: Informer[Any], *, optional: bool = False) -> None:
        """Run `informer` too, which only some controllers need. With `optional`, the cluster may not serve its kind."""
        informers = self.optional if optional else self.informers
        if informer not in informers:
            informers.append(informer)


def one_config_map(client: Client, key: types.Key) -> Informer[records.ConfigMap]:
    """Return an informer of the ConfigMap of that key alone."""
    return Informer(
        client, types.CONFIG_MAPS, records.ConfigMap, namespace=key.namespace, field_selector=f"metadata.name={key.name}"
    )


def label_key(namespace: str, labels: Mapping[str, str]) -> str:
    """Return the value of the index LABEL for the first of `labels`; for all objects of the namespace without labels."""
    key = min(labels, default="")
    return f"{namespace}/{key}={labels[key]}" if key else namespace


def _labels_of(record: records.Record) -> Iterable[str]:
    meta = record.metadata
    return (meta.namespace, *(f"{meta.namespace}/{key}={value}" for key, value in meta.labels.items()))


def _queue_of(record: records.Job | records.PodGroup) -> Iterable[str]:
    return (record.spec.queue,)


def _hyper_job_of(job: records.Job) -> Iterable[str]:
    uid = job.metadata.labels.get(keys.HYPER_JOB_UID)
    return (uid,) if uid else ()


def _claims_of_job(job: records.Job) -> Iterable[str]:
    names = {volume.volume_claim_name for volume in job.spec.volumes if volume.volume_claim_name}
    return [f"{job.metadata.namespace}/{name}" for name in names]


def controller_of(record: records.Record) -> Iterable[str]:
    """Return the UID of the object's controller, as a tuple that is empty without a controller."""
    controller = record.metadata.controller
    return (controller.uid,) if controller else ()


def _target_of(command: records.Command) -> Iterable[str]:
    return (command.target.name,) if command.target else ()


def _owner_of(pod: records.Pod) -> Iterable[str]:
    uid = members.owner_uid(pod)
    return (uid,) if uid else ()


def node_of(pod: records.Pod) -> Iterable[str]:
    """Return the node of the pod, as a tuple that is empty without a node."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def _job_of_orphan(group: records.PodGroup) -> Iterable[str]:
    job = orphans.job_of(group)
    return (str(job),) if job else ()


def _group_of_orphan(pod: records.Pod) -> Iterable[str]:
    group = orphans.group_of(pod)
    return (str(group),) if group else ()


@dataclass(frozen=True, slots=True)
class Shared(ControllerContext):
    """The shared objects of the job controller, with its caches, metrics and scheduler Leases."""

    caches: Caches
    metrics: ControllerMetrics
    schedulers: SchedulerLeases

"""The mapping of changes in the cluster to the Jobs that must be reconciled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyroclast.api import keys
from pyroclast.api.enums import AfterKind, JobPhase, PodGroupPhase
from pyroclast.api.records import Job, NodeHealth, PersistentVolumeClaim, Pod, PodGroup, Queue
from pyroclast.api.types import JOBS, Key
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle.gang import members, orphans, podgroups
from pyroclast.lifecycle.job import job_events, tracked_pods, waits
from pyroclast_job_controller.caches import CLAIM, NODE, QUEUE, Shared
from pyroclast_job_controller.job.earlier import EarlierJobs
from pyroclast_job_controller.job.memory import JobMemories


class JobWatch:
    """Queues the keys of Jobs after changes, and remembers deletions, which no object shows when the Job is reconciled."""

    def __init__(
        self, shared: Shared, queue: ShardedQueue[Key], memories: JobMemories, start: Callable[[Informer[Any]], object]
    ) -> None:
        self._caches, self._shards, self._metrics, self._now = shared.caches, shared.shards, shared.metrics, shared.now
        self._queue, self._memories = queue, memories
        caches = shared.caches
        self._earlier = EarlierJobs(caches, queue, start)
        caches.jobs.informer.on_change(self._job)
        caches.pods.informer.on_change(self._pod)
        caches.groups.informer.on_change(self._group)
        caches.queues.informer.on_change(self._queue_changed)
        caches.claims.informer.on_change(self._claim)
        caches.watch(caches.nodes)
        caches.nodes.on_change(self._node)
        caches.additions.on_change(self._enqueue_waiting)
        shared.schedulers.on_change(self._enqueue_waiting)

    def enqueue_all(self) -> None:
        """Queue every Job in the shards of this replica, which has just begun to lead. Waiting Jobs come first."""
        for job in sorted(self._caches.jobs.informer.values(), key=_is_at_rest):
            self._queue.add(job.key)

    def _job(self, old: Job | None, new: Job | None) -> None:
        self._earlier.changed(AfterKind.JOB, old, new)
        if new is not None:
            if old is None or not self._caches.jobs.is_echo(new):
                self._queue.add(new.key)
        elif old is not None:
            self._memories.forget(old.key)
            self._metrics.job_deleted(old.key, old.spec.queue)

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        key = (members.job_key(pod) or orphans.key_of(pod)) if pod is not None else None
        if key is None:
            return
        if old is not None:
            had_ended = members.is_finished(old) and not old.metadata.is_terminating
            is_deleted = new is None or (had_ended and new.metadata.is_terminating)
            if is_deleted:
                self._remember_deletion(key, old, had_ended=had_ended, has_gone=new is None)
        if not self._caches.pods.is_echo(new) and (old is None or new is None or pod_changed(old, new)):
            self._queue.add_after(key, self._memories.pause(key))

    def _remember_deletion(self, key: Key, pod: Pod, *, had_ended: bool, has_gone: bool) -> None:
        """Remember the deletion of `pod`, as it was before.

        `had_ended`: whether the pod had succeeded or failed before its deletion. `has_gone`: whether the pod has gone. The
        deletion of a pod that had ended is remembered when it is requested, and not again when the pod has gone.
        """
        job = self._caches.jobs.get(key)
        if job is None or members.owner_uid(pod) != job.metadata.uid or not self._shards.owns(key):
            return
        memory = self._memories.of(job)
        if memory.is_new:
            return  # the first reconcile finds the deletion by trackedPods in the status
        is_ours = pod.metadata.uid in memory.deleted
        if has_gone:
            memory.deleted.discard(pod.metadata.uid)
        is_known = is_ours or (members.is_finished(pod) and tracked_pods.is_success(job, pod))
        happened = None if is_known else job_events.deleted(members.named(job), pod, self._now(), had_ended=had_ended)
        if happened is None:
            return
        if not has_gone:
            memory.deleted.add(pod.metadata.uid)
        if pod.metadata.is_terminating or not has_gone:
            memory.notice(happened, job)
        else:
            memory.vanished.append(happened)  # a pod that loses the label of the watch causes the same event

    def _group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        group = new or old
        if group is None:
            return
        owner = group.metadata.controller
        if owner is None or owner.kind != JOBS.kind:
            if (orphaned := orphans.job_of(group)) is not None:
                self._queue.add(orphaned)
            return
        key = Key(group.metadata.namespace, owner.name)
        if new is not None and _is_unknown(new) and not (old and _is_unknown(old) and old.metadata.uid == new.metadata.uid):
            job = self._caches.jobs.get(key)
            if job and job.metadata.uid == owner.uid and self._shards.owns(key):
                self._memories.of(job).notice(job_events.fell_apart(job, new, self._now()), job)
        if not self._caches.groups.is_echo(new) and (old is None or new is None or group_changed(old, new)):
            self._queue.add(key)

    def _queue_changed(self, old: Queue | None, new: Queue | None) -> None:
        queue = new or old
        if queue is not None and (new is None or old is None or queue_changed(old, new)):
            for job in self._caches.jobs.informer.by_index(QUEUE, queue.metadata.name):
                self._queue.add(job.key)

    def _enqueue_waiting(self, namespace: str = "") -> None:
        """Queue the waiting Jobs of `namespace`, or all, when a scheduler starts or stops, or when their pods would differ."""
        for job in self._caches.jobs.informer.values():
            if job.status.state.phase in (JobPhase.NEW, JobPhase.PENDING) and namespace in {"", job.metadata.namespace}:
                self._queue.add(job.key)

    def _node(self, old: NodeHealth | None, new: NodeHealth | None) -> None:
        """Queue the Jobs with pods on a node that stops to answer, or answers again."""
        node = new or old
        if node is None or (old.silent_since if old else "") == (new.silent_since if new else ""):
            return
        for key in {members.job_key(pod) for pod in self._caches.pods.informer.by_index(NODE, node.metadata.name)}:
            if key is not None:
                self._queue.add(key)

    def _claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if old is None and new is not None:
            for job in self._caches.jobs.informer.by_index(CLAIM, str(new.key)):
                self._queue.add(job.key)


def _is_unknown(group: PodGroup) -> bool:
    return group.status.phase is PodGroupPhase.UNKNOWN


def _is_at_rest(job: Job) -> bool:
    """Whether `job` probably needs no work, so that it can be reconciled last."""
    phase = job.status.state.phase
    return phase is JobPhase.RUNNING or phase.is_finished


def pod_changed(old: Pod, new: Pod) -> bool:
    """Whether a pod changed in a field that decisions read. The node, the addresses and the conditions of the pod are ignored."""
    return _pod_facts(old) != _pod_facts(new)


def _pod_facts(pod: Pod) -> tuple[object, ...]:
    meta, status = pod.metadata, pod.status
    containers = status.container_statuses, status.init_container_statuses
    said = pod.spec.node_name or status.conditions if keys.POD_GROUP in meta.annotations else ()  # what a PodGroup would say
    return status.phase, meta.uid, meta.deletion_timestamp, containers, meta.annotations, meta.labels, meta.owner_references, said


def group_changed(old: PodGroup, new: PodGroup) -> bool:
    """Whether a PodGroup changed in a field that decisions read.

    These are the admission, the newest condition, the phase Unknown, the spec, and the metadata that the controller writes.
    """
    return _group_facts(old) != _group_facts(new)


def _group_facts(group: PodGroup) -> tuple[object, ...]:
    meta, phase = group.metadata, (podgroups.is_admitted(group), _is_unknown(group))
    written = meta.owner_references, meta.annotations
    return phase, meta.uid, meta.deletion_timestamp, meta.finalizers, waits.newest_condition(group), group.spec, written


def queue_changed(old: Queue, new: Queue) -> bool:
    """Whether a queue changed its state or the clusters to which it forwards Jobs."""
    return old.spec.extend_clusters != new.spec.extend_clusters or old.status.state is not new.status.state

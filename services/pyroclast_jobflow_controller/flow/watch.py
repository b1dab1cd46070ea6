"""Maps changes in the cluster to the flows that must be reconciled."""

from __future__ import annotations

from typing import Final

from pyroclast.api.enums import FlowPhase, JobPhase
from pyroclast.api.records import Job, JobFlow, JobTemplate
from pyroclast.api.types import Key
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle.flow.jobs import flows_of
from pyroclast_jobflow_controller.caches import TEMPLATE, Shared
from pyroclast_jobflow_controller.flow.memory import FlowMemories, FlowMemory

_DEBOUNCE: Final = 0.02
"""Seconds during which changes of a flow's Jobs are collected before the flow is reconciled."""

_PER_ENTRY: Final = 0.0005
"""Further seconds for each entry of the flow, because the reconcile of a large flow takes longer."""

_UNHURRIED: Final = 4
"""The factor on the pause per entry for changes that normally start no Job, such as those of an unfinished Job."""


class FlowWatch:
    """Enqueues the keys of flows, and keeps deleted Jobs that had ended."""

    def __init__(self, shared: Shared, queue: ShardedQueue[Key], memories: FlowMemories) -> None:
        self._caches = shared.caches
        self._queue, self._memories = queue, memories
        shared.caches.flows.informer.on_change(self._flow)
        shared.caches.templates.on_change(self._template)
        shared.caches.jobs.informer.on_change(self._job)

    def _flow(self, old: JobFlow | None, new: JobFlow | None) -> None:
        flow = new or old
        if flow is None:
            return
        memory = self._memories.known(flow.key)
        if new is not None and memory is not None and memory.written == new.metadata.resource_version:
            return  # the watch event of our own write
        self._queue.add(flow.key)

    def _template(self, old: JobTemplate | None, new: JobTemplate | None) -> None:
        """Enqueue the flows that use a template after the template was created or changed."""
        if new is not None and (old is None or old.spec != new.spec):
            for flow in self._caches.flows.informer.by_index(TEMPLATE, str(new.key)):
                if (memory := self._memories.known(flow.key)) is not None:
                    memory.forget_refusals()
                self._queue.add(flow.key)

    def _job(self, old: Job | None, new: Job | None) -> None:
        job = new or old
        if job is None or (old is not None and new is not None and _looks_the_same(old, new)):
            return
        owner = job.metadata.controller
        for key in flows_of(job):
            memory = self._memories.known(key)
            if memory is not None and owner is not None and owner.uid == memory.uid:
                if old is None and job.status.state.phase is JobPhase.NEW:
                    continue  # the reconcile that created the Job knows it already: only this controller creates such Jobs
                if new is None and job.metadata.uid in memory.deleted:
                    memory.deleted.discard(job.metadata.uid)
                elif new is None and job.status.state.phase.is_finished:
                    memory.ghosts[job.metadata.name] = job
            self._queue.add_after(key, self._delay(key, memory, is_urgent=new is None or new.status.state.phase.is_finished))

    def _delay(self, key: Key, memory: FlowMemory | None, *, is_urgent: bool) -> float:
        """Return the seconds until a flow is reconciled after a change of a Job.

        A change that starts no Job only affects the status, so the flow waits until its status may be written again.
        """
        if memory is None:
            return _DEBOUNCE
        nodes = len(memory.graph.nodes)
        if is_urgent:
            return _DEBOUNCE + nodes * _PER_ENTRY
        delay = _DEBOUNCE + nodes * _PER_ENTRY * _UNHURRIED
        flow = self._caches.flows.get(key)
        is_running = flow is not None and flow.status.state.phase is FlowPhase.RUNNING
        return max(delay, memory.pace.wait()) if is_running and not memory.graph.follows_progress else delay


def _looks_the_same(old: Job, new: Job) -> bool:
    """Whether no field changed that the flow depends on."""
    before, after = old.metadata, new.metadata
    if old.status != new.status or before.is_terminating != after.is_terminating:
        return False
    return (before.uid, before.labels, before.owner_references) == (after.uid, after.labels, after.owner_references)

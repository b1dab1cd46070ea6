"""From what changes in the cluster to the flows that have to be looked at."""

from __future__ import annotations

from typing import Final

from pyroclast.api.enums import FlowPhase, JobPhase
from pyroclast.api.records import Job, JobFlow, JobTemplate
from pyroclast.api.types import Key
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle.flow.names import flows_of
from pyroclast_jobflow_controller.caches import TEMPLATE
from pyroclast_jobflow_controller.flow.memory import FlowMemories, FlowMemory
from pyroclast_jobflow_controller.shared import Shared

__all__ = ["FlowWatch"]

_DEBOUNCE: Final = 0.02
"""Seconds in which the changes of a flow's Jobs are gathered before the flow is looked at …"""

_PER_ENTRY: Final = 0.0005
"""… and so many more for each entry, because looking at many takes longer."""

_UNHURRIED: Final = 4
"""So many times that for changes by which nothing can start, as a rule: a Job that has not ended."""


class FlowWatch:
    """Puts the keys of flows on the queue, and remembers how Jobs ended that are gone."""

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
            return  # the echo of our own write
        self._queue.add(flow.key)

    def _template(self, old: JobTemplate | None, new: JobTemplate | None) -> None:
        """A template that appears or changes may be waited for."""
        if new is not None and (old is None or old.spec != new.spec):
            for flow in self._caches.flows.informer.by_index(TEMPLATE, str(new.key)):
                if (memory := self._memories.known(flow.key)) is not None:
                    memory.forget_refusals()
                self._queue.add(flow.key)

    def _job(self, old: Job | None, new: Job | None) -> None:
        job = new or old
        if job is None or (old is not None and new is not None and _looks_the_same(old, new)):
            return
        for key in flows_of(job):
            memory = self._memories.known(key)
            if old is None and memory is not None and _is_echo(memory, job):
                continue  # the flow knows
            if new is None and memory is not None and _ended_for(memory, job):
                memory.ghosts[job.metadata.name] = job
            self._queue.add_after(key, self._delay(key, memory, is_urgent=new is None or new.status.state.phase.is_finished))

    def _delay(self, key: Key, memory: FlowMemory | None, *, is_urgent: bool) -> float:
        """Seconds until a flow is looked at after a change of a Job.

        A change by which nothing can start is only told in the status, so it waits until that may be written again.
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


def _is_echo(memory: FlowMemory, job: Job) -> bool:
    """Whether `job` is one that was just made for the flow, which happens here alone, or is found when it is tried again."""
    owner = job.metadata.controller
    return owner is not None and owner.uid == memory.uid and job.status.state.phase is JobPhase.NEW


def _ended_for(memory: FlowMemory, job: Job) -> bool:
    """Whether `job` belonged to the flow, and had ended."""
    owner = job.metadata.controller
    return owner is not None and owner.uid == memory.uid and job.status.state.phase.is_finished


def _looks_the_same(old: Job, new: Job) -> bool:
    """Whether nothing changed that a flow looks at."""
    before, after = old.metadata, new.metadata
    return (
        old.status == new.status
        and before.uid == after.uid
        and before.labels == after.labels
        and before.owner_references == after.owner_references
        and before.is_terminating == after.is_terminating
    )

"""Reconciles flows: reads the facts, decides, carries out the decision and records Events. The rules of flows are elsewhere."""

from __future__ import annotations

from typing import Final

import msgspec
import structlog

from pyroclast.api.enums import FlowPhase
from pyroclast.api.records import FlowStatus, Job, JobFlow
from pyroclast.api.types import JOB_FLOWS, Key
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle.effects import normal, warning
from pyroclast.lifecycle.flow.decide import decide
from pyroclast.lifecycle.flow.facts import CancelJob, FlowDecision, FlowFacts, ReleaseFlow
from pyroclast.lifecycle.flow.jobs import controlling_flow, is_owned
from pyroclast.runtime.reconciler import NOW, Reconciler, Requeue
from pyroclast_jobflow_controller.caches import Caches, Shared
from pyroclast_jobflow_controller.flow.actions import FlowActions
from pyroclast_jobflow_controller.flow.memory import FlowMemories, FlowMemory
from pyroclast_jobflow_controller.flow.probes import ProbeController


def facts_of(caches: Caches, flow: JobFlow, memory: FlowMemory, now: float) -> FlowFacts:
    """Return the facts of `flow` at `now`, in seconds since the epoch."""
    namespace = flow.metadata.namespace
    jobs: dict[str, Job] = dict(memory.ghosts)
    labelled: dict[str, Job] = {}
    for job in caches.jobs.members(str(flow.key)).values():
        if is_owned(flow, job):
            jobs[job.metadata.name] = job
        elif controlling_flow(job) is None:  # a Job of another flow belongs to it alone, also when it is a deleted namesake
            labelled[job.metadata.name] = job

    def job_named(name: str) -> Job | None:
        return caches.jobs.get(Key(namespace, name))

    def template(name: str) -> msgspec.Raw | None:
        found = caches.templates.get(Key(namespace, name))
        return found.spec if found is not None and not found.metadata.is_terminating else None

    exit_codes = {
        name: code for name, (uid, code) in memory.exit_codes.items() if name not in jobs or jobs[name].metadata.uid == uid
    }
    return FlowFacts(
        flow,
        memory.graph,
        now,
        jobs=jobs,
        labelled=labelled,
        job_named=job_named,
        template=template,
        answers=memory.answers,
        refused=memory.refused,
        exit_codes=exit_codes,
        cancelled=frozenset(memory.cancelled),
    )


log = structlog.get_logger()

_MOST_NAMED: Final = 10
"""Most Jobs that one Event names."""


class FlowController(Reconciler[JobFlow, FlowFacts, FlowDecision, FlowMemory]):
    """Creates the Jobs of flows and writes the status of flows.

    `most_requeues`: the number of refusals in a row after which an Event reports that a Job cannot be created; negative: never.
    """

    ROUNDS = 12
    """Most decisions in one reconcile. A flow that starts and ends at once needs six."""

    def __init__(
        self,
        shared: Shared,
        actions: FlowActions,
        probes: ProbeController,
        memories: FlowMemories,
        queue: ShardedQueue[Key],
        *,
        most_requeues: int = 15,
    ) -> None:
        super().__init__(shared, JOB_FLOWS, decide, shared.caches.flows, memories=memories, queue=queue)
        self._caches, self._metrics = shared.caches, shared.metrics
        self._actions, self._probes, self._most_requeues = actions, probes, most_requeues

    def _facts(self, record: JobFlow, memory: FlowMemory) -> FlowFacts:  # noqa: ARG002 - `of` returns the memory for the current spec
        return facts_of(self._caches, record, self._memories.of(record), self._now())

    async def _act(self, facts: FlowFacts, memory: FlowMemory, decision: FlowDecision) -> Requeue:
        if await self._step(facts, memory, decision):
            return NOW
        self._probes.want(facts.flow.key, decision.probes)
        return Requeue(decision.recheck_at)

    def _gone(self, key: Key) -> None:
        super()._gone(key)
        self._probes.want(key, ())

    async def _step(self, facts: FlowFacts, memory: FlowMemory, decision: FlowDecision) -> bool:
        """Carry out one decision. Return whether the next decision follows at once."""
        flow = facts.flow
        if decision.exit_codes:
            there = [facts.jobs[name] for name in decision.exit_codes if name in facts.jobs]
            codes = await self._actions.exit_codes(flow, there)
            memory.exit_codes |= dict.fromkeys(decision.exit_codes, ("", None))
            memory.exit_codes |= {job.metadata.name: (job.metadata.uid, codes[job.metadata.name]) for job in there}
            return True
        if flow.metadata.is_terminating and decision.status is not None:
            flow = await self._write_status(flow, memory, decision.status)  # while the flow still exists
        if decision.effects:
            made = await self._actions.carry_out(facts, memory, decision.effects)
            for name in made:
                self._record(flow, normal("Created", f"create a job named {name}!"))
            if cancelled := [effect.name for effect in decision.effects if isinstance(effect, CancelJob)]:
                more = f" and {len(cancelled) - _MOST_NAMED} more" if len(cancelled) > _MOST_NAMED else ""
                names = ", ".join(cancelled[:_MOST_NAMED])
                self._record(flow, normal("Cancelled", f"terminate {names}{more}, as the flow has failed"))
            self._give_up(flow, memory)
            return not any(isinstance(effect, ReleaseFlow) for effect in decision.effects)
        before = flow.status.state.phase
        if decision.phase is before and (pause := memory.pace.wait()):
            self._queue.add_after(flow.key, pause)  # the status is computed only when it may be written
            return False
        if flow.metadata.is_terminating or decision.status is None or decision.status == flow.status:
            return memory.forget_ghosts(facts.jobs)
        await self._write_status(flow, memory, decision.status)
        were_ghosts = memory.forget_ghosts(facts.jobs)
        self._record(flow, *decision.notices)
        return were_ghosts or decision.waits_for_status or decision.status.state.phase is not before

    async def _write_status(self, flow: JobFlow, memory: FlowMemory, status: FlowStatus) -> JobFlow:
        """Write the status if it has changed. Return the flow with the written status."""
        old, new = flow.status.state.phase, status.state.phase
        if status == flow.status:
            return flow
        written = await self._actions.write_status(flow, memory, status)
        memory.pace.written()
        if new is not old:
            self._metrics.entered(flow.metadata.namespace, new)
            log.info("flow.phase", flow=str(flow.key), old=old.value, new=new.value)
        if new in (FlowPhase.SUCCEED, FlowPhase.FAILED):
            memory.refused.clear()
        return written

    def _give_up(self, flow: JobFlow, memory: FlowMemory) -> None:
        """Record an Event for each Job that was refused too often. The creation is still tried again, but rarely."""
        for name, refused in memory.refused.items():
            if memory.refusals.get(name) == self._most_requeues + 1 and self._most_requeues >= 0:
                memory.refusals[name] += 1
                cause = f"sync jobflow {flow.metadata.name} failed for {refused.message}"
                message = f"SyncJobFlow JobFlow failed for {cause}, event is OutOfSync, action is SyncJobFlow"
                self._record(flow, warning("SyncJobFlow", message))

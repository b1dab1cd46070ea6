"""Keeps the state of every Queue: opens and closes them, and lets closing and opening spread to their children."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog

from pyroclast.api import keys
from pyroclast.api.enums import Action, PodGroupPhase, QueueState
from pyroclast.api.records import Command, PodGroup, Queue
from pyroclast.api.types import QUEUES, Key
from pyroclast.kube.client import Client, PatchKind
from pyroclast.kube.errors import KubeError
from pyroclast.kube.events import Reference
from pyroclast.kube.sharded_queue import ShardedQueue
from pyroclast.lifecycle import queues
from pyroclast.lifecycle.queues import ROOT, ChildOrder, Operation, Step
from pyroclast_job_controller.commands import ISSUED
from pyroclast_job_controller.shared import Shared

__all__ = ["QueueController"]

log = structlog.get_logger()

_FIELD_MANAGER: Final = "queue-controller"
_FAILURES: Final = {
    Operation.OPEN: "Update queue status from {old} to {new} failed for {error}",
    Operation.CLOSE: "Close queue failed for {error}",
}


class QueueController:
    """Level-triggered, but for orders to open and close: those are remembered until they are carried out.

    Args:
        shared: what is watched, and the ways out.
        queue: keys of Queues to look at.
        most_requeues: how often an order that cannot be carried out is tried; -1: for ever.
    """

    def __init__(self, shared: Shared, queue: ShardedQueue[Key], *, most_requeues: int = 15) -> None:
        self._client: Client = shared.client
        self._caches, self._recorder, self._metrics, self._shards = shared.caches, shared.recorder, shared.metrics, shared.shards
        self._queue, self._most_requeues = queue, most_requeues
        self._orders: dict[Key, list[str]] = {}
        self._tallies: defaultdict[str, Counter[PodGroupPhase]] = defaultdict(Counter)
        """PodGroups by queue and phase, kept by increments."""
        shared.shards.on_give(self._forget)
        shared.caches.queues.informer.on_change(self._changed)
        shared.caches.groups.informer.on_change(self._group)

    def enqueue_all(self) -> None:
        """Look at every Queue that is for us: we have just become responsible."""
        for queue in self._caches.queues.informer.values():
            self._enqueue(queue.metadata.name)

    def order(self, queue: Queue, command: Command) -> None:
        """A user wants `queue` opened or closed."""
        waiting = self._orders.get(queue.key)  # they may bring it into another state before
        nothing = "" if waiting else queues.meaningless(queues.state_of(queue), command.action)
        if nothing:
            self._record(
                queue, "Warning", ISSUED, f"{command.action} of command {command.metadata.name} had no effect: {nothing}"
            )
        else:
            self._order(queue.metadata.name, command.action)

    async def reconcile(self, key: Key) -> None:
        """Carry out the oldest order for the Queue of `key`, or just keep its state."""
        queue = self._caches.queues.get(key)
        if queue is None:
            self._orders.pop(key, None)
            return
        orders = self._orders.get(key)
        action = orders[0] if orders else Action.SYNC_QUEUE.value
        refusal = await self._execute(queue, action)
        if refusal:
            self._refused(queue, action, refusal)
            return
        if orders:
            self._done(key)

    async def _execute(self, queue: Queue, action: str) -> str | None:
        """Do what `action` means; why it cannot be done, if so."""
        groups = self._tallies.get(queue.metadata.name, Counter())
        step = queues.step(queues.state_of(queue), action, pod_groups=groups.total())
        self._metrics.groups(queue.metadata.name, groups)
        match step.operation:
            case Operation.SYNC:
                queue = await self._with_parent(queue)
                await self._enter(queue, step, action)
                await self._follow_parent(queue)
            case Operation.OPEN:
                refusal = queues.refusal_to_open(queue, self._parent(queue))
                if refusal:
                    return refusal
                await self._spread(queue, Operation.OPEN)
                await self._enter(queue, step, action)
                await self._mark(queue, "false")
            case Operation.CLOSE:
                if queue.metadata.name == ROOT:
                    log.info("queue.not_closed", queue=ROOT, reason="the root queue cannot be closed")
                    return None
                await self._spread(queue, Operation.CLOSE)
                await self._enter(queue, step, action)
                self._record(queue, "Normal", Action.CLOSE_QUEUE, "Close queue succeed")
        return None

    def _refused(self, queue: Queue, action: str, refusal: str) -> None:
        """Try an order again later, behind the others; say so and drop it when it has been tried too often."""
        key = queue.key
        self._done(key)
        if 0 <= self._most_requeues <= self._queue.failures(key):
            self._record(queue, "Warning", action, f"{action} queue failed for {refusal}")
            self._queue.forget(key)
            return
        log.info("queue.refused", queue=queue.metadata.name, action=action, reason=refusal)
        self._orders.setdefault(key, []).append(action)
        self._queue.add_rate_limited(key)

    async def _with_parent(self, queue: Queue) -> Queue:
        """`queue` with the root for a parent, if it has none."""
        if queue.metadata.name == ROOT or queue.spec.parent:
            return queue
        return await self._patch(queue, {"spec": {"parent": ROOT}})

    async def _enter(self, queue: Queue, step: Step, action: str) -> None:
        """Write the state if it is another."""
        old = queue.status.state
        if old is step.to:
            return
        body = {
            "apiVersion": QUEUES.api_version,
            "kind": QUEUES.kind,
            "metadata": {"name": queue.metadata.name},
            "status": {"state": step.to.value},
        }
        try:
            answer = await self._client.patch(
                QUEUES, queue.key, body, PatchKind.APPLY, subresource="status", field_manager=_FIELD_MANAGER, force=True
            )
        except KubeError as error:
            what = _FAILURES.get(step.operation)
            if what is not None:
                self._record(queue, "Warning", action, what.format(old=old or QueueState.OPEN, new=step.to, error=error.message))
            raise
        self._keep(answer)
        log.info("queue.state", queue=queue.metadata.name, old=old, new=step.to.value, action=action)

    async def _mark(self, queue: Queue, value: str) -> None:
        """Say in the annotation whether the queue was closed by its parent."""
        if queue.metadata.annotations.get(keys.CLOSED_BY_PARENT) != value:
            await self._patch(queue, {"metadata": {"annotations": {keys.CLOSED_BY_PARENT: value}}})

    async def _follow_parent(self, queue: Queue) -> None:
        order = queues.order_from_parent(queue, self._parent(queue))
        if order is not None:
            await self._give([order])

    async def _spread(self, queue: Queue, operation: Operation) -> None:
        known = (self._caches.queues.get(other.key) for other in self._caches.queues.informer.values())
        await self._give(queues.children_to_order(queue, operation, [other for other in known if other]))

    async def _give(self, orders: list[ChildOrder]) -> None:
        for order in orders:
            child = self._caches.queues.get(Key("", order.queue))
            if child is not None and order.mark is not None:
                await self._mark(child, order.mark)
            self._order(order.queue, order.action)

    async def _patch(self, queue: Queue, patch: dict[str, Any]) -> Queue:
        return self._keep(await self._client.patch(QUEUES, queue.key, patch, PatchKind.MERGE))

    def _keep(self, answer: dict[str, Any]) -> Queue:
        queue = msgspec.convert(answer, Queue)
        self._caches.queues.put(queue)
        return queue

    def _parent(self, queue: Queue) -> Queue | None:
        name = queues.parent_of(queue)
        return self._caches.queues.get(Key("", name)) if name else None

    def _order(self, name: str, action: str) -> None:
        key = Key("", name)
        if not self._shards.owns(key):
            return  # who owns it sees the state and the mark of its parent
        orders = self._orders.setdefault(key, [])
        if orders[-1:] != [action]:
            orders.append(action)
        self._queue.add(key)

    def _done(self, key: Key) -> None:
        orders = self._orders.get(key)
        if orders:
            orders.pop(0)
            if orders:
                self._queue.add(key)
            else:
                del self._orders[key]

    def _forget(self, selected: Callable[[Key], bool]) -> None:
        for key in [key for key in self._orders if selected(key)]:
            del self._orders[key]

    def _enqueue(self, name: str) -> None:
        key = Key("", name)
        if self._shards.owns(key):
            self._queue.add(key)

    def _changed(self, old: Queue | None, new: Queue | None) -> None:
        if new is None and old is not None:
            self._metrics.queue_deleted(old.metadata.name)
            return
        if new is None:
            return
        if old is None or old.spec.parent != new.spec.parent:
            self._enqueue(new.metadata.name)
        if old is None or old.status.state is not new.status.state:
            for other in self._caches.queues.informer.values():
                if queues.parent_of(other) == new.metadata.name:
                    self._enqueue(other.metadata.name)

    def _group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        for group, step in ((old, -1), (new, 1)):
            if group is not None:
                self._tallies[group.spec.queue][group.status.phase] += step
        if old and new and old.status.phase is new.status.phase and old.spec.queue == new.spec.queue:
            return
        for name in {group.spec.queue for group in (old, new) if group}:
            self._enqueue(name)

    def _record(self, queue: Queue, type_: str, reason: str, message: str) -> None:
        self._recorder.event(Reference.of(queue, QUEUES), type_, reason, message)

"""Keeps the state of every Queue: opens and closes them by order of users, and lets them follow their parents."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
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
from pyroclast.lifecycle.queues import ROOT, Operation, Step
from pyroclast_job_controller.blocked import Cause, pause_after
from pyroclast_job_controller.commands import ISSUED
from pyroclast_job_controller.shared import Shared

__all__ = ["QueueController"]

log = structlog.get_logger()

_FIELD_MANAGER: Final = "queue-controller"
_FAILURES: Final = {
    Operation.OPEN: "Update queue status from {old} to {new} failed for {error}",
    Operation.CLOSE: "Close queue failed for {error}",
}


@dataclass(frozen=True, slots=True)
class _Retry:
    """An order to open that was refused: how often it was tried again, and when its next try is due, by the loop's clock."""

    tries: int
    due: float


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
        self._queue, self._most_requeues, self._clock = queue, most_requeues, shared.clock
        self._orders: dict[Key, list[str]] = {}
        self._retries: dict[Key, _Retry] = {}
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
        waiting = queue.key in self._orders or queue.key in self._retries  # they may bring it into another state before
        nothing = "" if waiting else queues.meaningless(queues.state_of(queue), command.action)
        if nothing:
            self._record(
                queue, "Warning", ISSUED, f"{command.action} of command {command.metadata.name} had no effect: {nothing}"
            )
        else:
            orders = self._orders.setdefault(queue.key, [])
            if orders[-1:] != [command.action]:
                orders.append(command.action)
            self._queue.add(queue.key)

    async def reconcile(self, key: Key) -> None:
        """Carry out the oldest order for the Queue of `key`, or just keep its state."""
        queue = self._caches.queues.get(key)
        if queue is None:
            self._orders.pop(key, None)
            self._retries.pop(key, None)
            return
        order, retry = self._orders.get(key, [None])[0], self._retries.get(key)
        if order is None and retry is not None and retry.due <= self._clock():
            order = Action.OPEN_QUEUE.value
        else:
            retry = None  # it waits, or a later order takes its place
        refusal = await self._execute(queue, order or Action.SYNC_QUEUE.value)
        if refusal:
            self._refused(queue, refusal, tries=retry.tries if retry is not None else 0)
            await self._execute(queue, Action.SYNC_QUEUE.value)  # an order that waits keeps the queue from nothing else
        elif order not in (None, Action.SYNC_QUEUE):
            self._retries.pop(key, None)
        if order is not None and retry is None:
            self._done(key)

    async def _execute(self, queue: Queue, action: str) -> str | None:
        """Do what `action` means; why it cannot be done, if so."""
        groups = self._tallies.get(queue.metadata.name, Counter())
        step = queues.step(queues.state_of(queue), action, pod_groups=groups.total())
        self._metrics.groups(queue.metadata.name, groups)
        match step.operation:
            case Operation.SYNC:
                queue = await self._with_parent(queue)
                queue = await self._enter(queue, step, action)
                await self._follow_parent(queue)
            case Operation.OPEN:
                refusal = queues.refusal_to_open(queue, self._parent(queue))
                if refusal:
                    return refusal
                await self._open(queue, step)
            case Operation.CLOSE:
                if queue.metadata.name == ROOT:
                    log.info("queue.not_closed", queue=ROOT, reason="the root queue cannot be closed")
                    return None
                if queues.is_marked(queue):
                    queue = await self._mark(queue, "false")  # it is not its parent that closes it
                await self._close(queue, step)
        return None

    def _refused(self, queue: Queue, refusal: str, *, tries: int) -> None:
        """Try to open the queue again later; say so and drop the order when it has been tried again so often in vain.

        The tries are counted apart from the work on the queue, which every PodGroup of it brings about.
        """
        key, action = queue.key, Action.OPEN_QUEUE
        if 0 <= self._most_requeues <= tries:
            self._retries.pop(key, None)
            self._record(queue, "Warning", action, f"{action} queue failed for {refusal}")
            return
        log.info("queue.refused", queue=queue.metadata.name, action=action, reason=refusal)
        pause = pause_after(Cause.FAULT, tries)
        self._retries[key] = _Retry(tries + 1, self._clock() + pause)
        self._queue.add_after(key, pause)

    async def _with_parent(self, queue: Queue) -> Queue:
        """`queue` with the root for a parent, if it has none."""
        if queue.metadata.name == ROOT or queue.spec.parent:
            return queue
        return await self._patch(queue, {"spec": {"parent": ROOT}})

    async def _open(self, queue: Queue, step: Step) -> None:
        queue = await self._enter(queue, step, Action.OPEN_QUEUE)
        await self._mark(queue, "false")

    async def _close(self, queue: Queue, step: Step) -> None:
        await self._enter(queue, step, Action.CLOSE_QUEUE)
        self._record(queue, "Normal", Action.CLOSE_QUEUE, "Close queue succeed")

    async def _enter(self, queue: Queue, step: Step, action: str) -> Queue:
        """Write the state if it is another."""
        old = queue.status.state
        if old is step.to:
            return queue
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
        log.info("queue.state", queue=queue.metadata.name, old=old, new=step.to.value, action=action)
        return self._keep(answer)

    async def _mark(self, queue: Queue, value: str) -> Queue:
        """Say in the annotation whether the queue was closed by its parent."""
        if queue.metadata.annotations.get(keys.CLOSED_BY_PARENT) == value:
            return queue
        return await self._patch(queue, {"metadata": {"annotations": {keys.CLOSED_BY_PARENT: value}}})

    async def _follow_parent(self, queue: Queue) -> None:
        """Close with the parent, or open again with it. The mark goes first when closing, so that the parent opens it again."""
        parent = self._parent(queue)
        action = queues.following_parent(queue, parent)
        if action is not None:
            groups = self._tallies.get(queue.metadata.name, Counter())
            step = queues.step(queues.state_of(queue), action, pod_groups=groups.total())
            if action is Action.OPEN_QUEUE:
                await self._open(queue, step)
            else:
                await self._close(await self._mark(queue, "true"), step)
        elif queues.bears_stale_mark(queue, parent):
            await self._mark(queue, "false")

    async def _patch(self, queue: Queue, patch: dict[str, Any]) -> Queue:
        return self._keep(await self._client.patch(QUEUES, queue.key, patch, PatchKind.MERGE))

    def _keep(self, answer: dict[str, Any]) -> Queue:
        queue = msgspec.convert(answer, Queue)
        self._caches.queues.put(queue)
        return queue

    def _parent(self, queue: Queue) -> Queue | None:
        name = queues.parent_of(queue)
        return self._caches.queues.get(Key("", name)) if name else None

    def _done(self, key: Key) -> None:
        orders = self._orders.get(key)
        if orders:
            orders.pop(0)
            if orders:
                self._queue.add(key)
            else:
                del self._orders[key]

    def _forget(self, selected: Callable[[Key], bool]) -> None:
        for held in (self._orders, self._retries):
            for key in [key for key in held if selected(key)]:
                del held[key]

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
                    self._retry_now(other.key)
                    self._enqueue(other.metadata.name)

    def _retry_now(self, key: Key) -> None:
        """What an order waits for may have come."""
        if (retry := self._retries.get(key)) is not None:
            self._retries[key] = replace(retry, due=self._clock())

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

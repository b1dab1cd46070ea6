"""Keeps the state of every Queue: opens and closes queues for Commands, and lets queues follow their parents."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog

from pyroclast.api import keys
from pyroclast.api.enums import Action, PodGroupPhase, QueueState
from pyroclast.api.pod_groups_on_pods import group_of
from pyroclast.api.records import Command, Pod, PodGroup, Queue, reading
from pyroclast.api.types import QUEUES, Key
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle import queues
from pyroclast.lifecycle.queues import ROOT, Operation, Step
from pyroclast_job_controller.blocked import Cause, pause_after
from pyroclast_job_controller.caches import Shared
from pyroclast_job_controller.commands import ISSUED, Orders

log = structlog.get_logger()

_FIELD_MANAGER: Final = "queue-controller"
_FAILURES: Final = {
    Operation.OPEN: "Update queue status from {old} to {new} failed for {error}",
    Operation.CLOSE: "Close queue failed for {error}",
}


@dataclass(frozen=True, slots=True)
class _Retry:
    """A refused Command: the number of its tries, and the time of its next try on the loop's clock."""

    command: str
    tries: int
    due: float


class QueueController:
    """Reconciles Queues, level-triggered: its actions follow from the queue, its parent, its PodGroups and the Commands.

    `most_requeues`: how often a refused Command is tried. -1 means without limit.
    """

    def __init__(self, shared: Shared, queue: ShardedQueue[Key], orders: Orders[Queue], *, most_requeues: int = 15) -> None:
        self._client: Client = shared.client
        self._caches, self._recorder, self._metrics = shared.caches, shared.recorder, shared.metrics
        self._queue, self._orders, self._most_requeues, self._clock = queue, orders, most_requeues, shared.clock
        self._retries: dict[Key, _Retry] = {}
        self._tallies: defaultdict[str, Counter[PodGroupPhase]] = defaultdict(Counter)
        """The numbers of PodGroups by queue and phase, updated with each change."""
        shared.shards.on_give(self._forget)
        shared.caches.queues.informer.on_change(self._changed)
        shared.caches.groups.informer.on_change(self._group)
        shared.caches.pods.informer.on_change(self._pod)

    def enqueue_all(self) -> None:
        """Enqueue every Queue of this replica's shards, after the replica became their leader."""
        for queue in self._caches.queues.informer.values():
            self._queue.add(queue.key)

    async def reconcile(self, key: Key) -> None:
        """Carry out the oldest Command for the Queue `key`. Without a Command, synchronise its state."""
        queue = self._caches.queues.get(key)
        if queue is None:
            self._retries.pop(key, None)
            return
        self._metrics.groups(queue.metadata.name, self._tally(queue))
        command = self._next(queue)
        if command is None:
            await self._synchronise(queue)
        elif refusal := await self._carry_out(queue, command):
            self._refused(queue, command, refusal)
            await self._synchronise(queue)  # a waiting Command must not delay the other work on the queue

    def _next(self, queue: Queue) -> Command | None:
        """Return the Command to carry out now. While one waits, the next Command that opens or closes the queue replaces it."""
        orders, retry = self._orders.of(queue), self._retries.get(queue.key)
        if retry is None or not orders or retry.command != orders[0].metadata.uid:
            self._retries.pop(queue.key, None)
            return self._worth_doing(queue, orders[0]) if orders else None
        if queues.meaningless(queues.state_of(queue), orders[0].action):
            self._orders.done(queue, orders[0].metadata.uid)  # the queue has reached the requested state meanwhile
            return None
        later = next((command for command in orders[1:] if command.action in queues.ORDERS), None)
        if later is not None:
            self._end(queue, orders[0], f"was given up for {later.action} of command {later.metadata.name}, which came after it")
            return None
        return orders[0] if retry.due <= self._clock() else None

    def _worth_doing(self, queue: Queue, command: Command) -> Command | None:
        """Return `command` if it has an effect that the reconcile does not have anyway. Otherwise finish it and return None."""
        nothing = queues.meaningless(queues.state_of(queue), command.action)
        if nothing:
            self._end(queue, command, f"had no effect: {nothing}")
        elif command.action in queues.ORDERS:
            return command
        else:
            self._orders.done(queue, command.metadata.uid)  # the reconcile synchronises the queue anyway
        return None

    def _end(self, queue: Queue, command: Command, why: str) -> None:
        """Finish a Command that is not carried out, with an Event that says why."""
        self._record(queue, "Warning", ISSUED, f"{command.action} of command {command.metadata.name} {why}")
        self._orders.done(queue, command.metadata.uid)

    async def _synchronise(self, queue: Queue) -> None:
        """Update the state from the PodGroups, then from the parent."""
        if queue.metadata.name != ROOT and not queue.spec.parent:
            queue = await self._patch(queue, {"spec": {"parent": ROOT}})
        queue = await self._enter(queue, self._step(queue, Action.SYNC_QUEUE), Action.SYNC_QUEUE)
        parent = self._parent(queue)
        match queues.following_parent(queue, parent):
            case Action.OPEN_QUEUE:
                await self._open(queue)
            case Action.CLOSE_QUEUE:
                await self._close(await self._mark(queue, "true"))
            case _ if queues.bears_stale_mark(queue, parent):
                await self._mark(queue, "false")

    async def _carry_out(self, queue: Queue, command: Command) -> str | None:
        uid = command.metadata.uid
        if command.action == Action.OPEN_QUEUE:
            refusal = queues.refusal_to_open(queue, self._parent(queue))
            if refusal:
                return refusal
            await self._open(queue, uid)
        elif queue.metadata.name == ROOT:
            log.info("queue.not_closed", queue=ROOT, reason="the root queue cannot be closed")
            self._orders.done(queue, uid)
        else:
            if queues.is_marked(queue):
                queue = await self._mark(queue, "false")  # a user and not the parent closes the queue
            await self._close(queue, uid)
        return None

    def _refused(self, queue: Queue, command: Command, refusal: str) -> None:
        """Schedule the next try to open the queue. After the last try, record an Event and finish the Command.

        The tries are counted separately, because every change of a PodGroup also reconciles the queue.
        """
        key, action, uid = queue.key, Action.OPEN_QUEUE, command.metadata.uid
        retry = self._retries.pop(key, None)
        tries = retry.tries if retry is not None else 0
        if 0 <= self._most_requeues <= tries:
            self._record(queue, "Warning", action, f"{action} queue failed for {refusal}")
            self._orders.done(queue, uid)
            return
        log.info("queue.refused", queue=queue.metadata.name, action=action, reason=refusal)
        pause = pause_after(Cause.FAULT, tries)
        self._retries[key] = _Retry(uid, tries + 1, self._clock() + pause)
        self._queue.add_after(key, pause)

    async def _open(self, queue: Queue, command: str = "") -> None:
        step = self._step(queue, Action.OPEN_QUEUE)
        queue = await self._enter(queue, step, Action.OPEN_QUEUE, command)
        await self._mark(queue, "false")

    async def _close(self, queue: Queue, command: str = "") -> None:
        step = self._step(queue, Action.CLOSE_QUEUE)
        await self._enter(queue, step, Action.CLOSE_QUEUE, command)
        self._record(queue, "Normal", Action.CLOSE_QUEUE, "Close queue succeed")

    def _step(self, queue: Queue, action: Action) -> Step:
        return queues.step(queues.state_of(queue), action, pod_groups=self._tally(queue).total())

    def _tally(self, queue: Queue) -> Counter[PodGroupPhase]:
        return self._tallies.get(queue.metadata.name, Counter())

    async def _enter(self, queue: Queue, step: Step, action: str, command: str = "") -> Queue:
        """Write the state if it has changed, with the UID of the Command that requests it.

        After a crash, a remaining Command with this UID is not carried out again.
        """
        old = queue.status.state
        if old is step.to:
            return queue
        noted = command or queue.status.last_command  # an apply without the field would remove it
        body = {
            "apiVersion": QUEUES.api_version,
            "kind": QUEUES.kind,
            "metadata": {"name": queue.metadata.name},
            "status": {"state": step.to.value, **({"lastCommand": noted} if noted else {})},
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
        queue = self._keep(answer)
        if command:
            self._orders.done(queue, command)
        return queue

    async def _mark(self, queue: Queue, value: str) -> Queue:
        if queue.metadata.annotations.get(keys.CLOSED_BY_PARENT) == value:
            return queue
        return await self._patch(queue, {"metadata": {"annotations": {keys.CLOSED_BY_PARENT: value}}})

    async def _patch(self, queue: Queue, patch: dict[str, Any]) -> Queue:
        return self._keep(await self._client.patch(QUEUES, queue.key, patch, PatchKind.MERGE))

    def _keep(self, answer: dict[str, Any]) -> Queue:
        queue = reading.convert(answer, Queue)
        self._caches.queues.put(queue)
        return queue

    def _parent(self, queue: Queue) -> Queue | None:
        name = queues.parent_of(queue)
        return self._caches.queues.get(Key("", name)) if name else None

    def _forget(self, selected: Callable[[Key], bool]) -> None:
        for key in [key for key in self._retries if selected(key)]:
            del self._retries[key]

    def _changed(self, old: Queue | None, new: Queue | None) -> None:
        if new is None and old is not None:
            self._metrics.queue_deleted(old.metadata.name)
            return
        if new is None:
            return
        if old is None or old.spec.parent != new.spec.parent:
            self._queue.add(new.key)
        if old is None or old.status.state is not new.status.state:
            for other in self._caches.queues.informer.values():
                if queues.parent_of(other) == new.metadata.name:
                    if (retry := self._retries.get(other.key)) is not None:  # the obstacle of a waiting Command may be gone
                        self._retries[other.key] = replace(retry, due=self._clock())
                    self._queue.add(other.key)

    def _group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        for group, step in ((old, -1), (new, 1)):
            if group is not None:
                self._tallies[group.spec.queue][group.status.phase] += step
        if old and new and old.status.phase is new.status.phase and old.spec.queue == new.spec.queue:
            return
        for name in {group.spec.queue for group in (old, new) if group}:
            self._queue.add(Key("", name))

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        """Count the group of a Job without a PodGroup, which its pod describes."""
        if any(each is not None and keys.POD_GROUP in each.metadata.annotations for each in (old, new)):
            self._group(*(None if each is None else group_of(each) for each in (old, new)))

    def _record(self, queue: Queue, type_: str, reason: str, message: str) -> None:
        self._recorder.event(Reference.of(queue, QUEUES), type_, reason, message)

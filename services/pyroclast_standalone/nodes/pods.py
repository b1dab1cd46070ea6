"""Reconciles every pod on a simulated node with its life. All I/O of pods is here, with the log of their starts and ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias, assert_never

import orjson
import structlog

from pyroclast.api.types import PODS, Key
from pyroclast.kube.basics.errors import Conflict, Invalid, NotFound
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.workqueue.queue import WorkQueue
from pyroclast.resources.backoff import Backoff
from pyroclast_standalone import times
from pyroclast_standalone.nodes import records
from pyroclast_standalone.nodes.capacity import AddressPool, pod_requests
from pyroclast_standalone.nodes.fleet import Fleet, SimulatedNode
from pyroclast_standalone.nodes.injections import NodeState, of_pod
from pyroclast_standalone.nodes.lifecycle import advance, resumed
from pyroclast_standalone.nodes.lives import AskProbe, Effect, Kill, Phase, PodLife, Start, Terminate, born
from pyroclast_standalone.nodes.statuses import pod_status

if TYPE_CHECKING:
    from pyroclast_standalone.nodes.processes.runtime import ProcessRuntime
    from pyroclast_standalone.nodes.simulated import SimulatedRuntime

    Runtime: TypeAlias = SimulatedRuntime | ProcessRuntime
    """Runs the containers of pods. It writes changes into the `Execution` of a container; processes then wake their pod."""


class PodLog:
    """Appends to an open file. Without a file it does nothing.

    After a restart, the nodes write a line again for each running pod. Readers must use one line for each UID and event.
    """

    def __init__(self, file: IO[bytes] | None) -> None:
        self._file = file

    def started(self, pod: records.Pod, node: str, at: float) -> None:
        """Record the start of a pod. `bound` in the line is the time of binding by the clock of the API server."""
        scheduled = (c.last_transition_time for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "True")
        bound = next(scheduled, "") or pod.metadata.creation_timestamp
        self._write("started", at, pod.key, pod.metadata.uid, node, bound=bound)

    def ended(self, key: Key, uid: str, node: str, at: float) -> None:
        """Record the end of a pod's last container."""
        self._write("ended", at, key, uid, node)

    def _write(self, event: str, at: float, key: Key, uid: str, node: str, **more: str | None) -> None:
        if self._file is None:
            return
        line = {"time": times.micro_rfc3339(at), "event": event, "pod": str(key), "uid": uid, "node": node, **more}
        self._file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


@contextmanager
def pod_log(path: str) -> Iterator[PodLog]:
    """Open the pod log. With an empty path nothing is written."""
    if not path:
        yield PodLog(None)
        return
    with Path(path).open("ab", buffering=0) as file:  # each line is in the file at once, also when the nodes are killed
        yield PodLog(file)


log = structlog.get_logger()

# of decisions and actions in one reconcile: more means that the pod's life does not settle, which would be a bug
_MAX_ROUNDS = 100
_BY_NODE = "node"
_ORPHAN_SECONDS = 40.0  # how long a cluster's pod garbage collector waits for a missing node
_REMOVAL_SECONDS = 5.0  # how long the API server may take to remove a pod that is deleted without grace


@dataclass(slots=True)
class Entry:
    """A pod on a node. `published` is the digest of the last written status, and `version` the resourceVersion after that write.

    `has_ended` means that the pod log contains the end of the pod.
    """

    life: PodLife
    node: str
    published: int = 0
    version: str = ""
    is_deleted: bool = False
    delete_at: float | None = None
    has_ended: bool = False


class PodKeeper:
    """Reconciles pods, level-triggered: a key only means that the pod must be reconciled.

    `pods` has all bound pods, and the index `node`. `backoff` has the delays between restarts of a container.
    """

    def __init__(
        self,
        client: Client,
        pods: Informer[records.Pod],
        runtime: Runtime,
        *,
        addresses: AddressPool,
        backoff: Backoff,
        queue: WorkQueue[Key],
        events: EventRecorder,
        log: PodLog,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client, self._pods, self._runtime, self._addresses = client, pods, runtime, addresses
        self._backoff, self._queue, self._events, self._now = backoff, queue, events, now
        self._log = log
        self._entries: dict[Key, Entry] = {}
        self._orphans: dict[Key, tuple[str, float]] = {}  # UID, and the time at which the pod is ended
        self.fleet: Fleet | None = None
        pods.on_change(self._on_change)

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: Key) -> tuple[records.Pod, PodLife] | None:
        """Return the pod with that key and its life. None if it is not on a simulated node.

        The life of a pod that had ended before this process started is restored from its status.
        """
        pod, entry = self._pods.get(key), self._entries.get(key)
        if pod is None or self.fleet is None or self.fleet.get(pod.spec.node_name) is None:
            return None
        if entry is not None and entry.life.uid == pod.metadata.uid:
            return pod, entry.life
        return pod, resumed(pod, self._now(), self._backoff)[0]

    def look_at_node(self, name: str) -> None:
        """Enqueue every pod on that node."""
        for pod in self._pods.by_index(_BY_NODE, name):
            self._queue.add(pod.key)

    def _on_change(self, old: records.Pod | None, new: records.Pod | None) -> None:
        pod = new or old
        if pod is None:
            return
        entry = self._entries.get(pod.key)
        if entry is not None and old is not None and new is not None and _is_own_write(entry, old, new):
            return
        node = pod.spec.node_name
        if entry is not None or (self.fleet and (self.fleet.get(node) or not self.fleet.is_known(node))):
            self._queue.add(pod.key)

    async def reconcile(self, key: Key) -> None:
        """Reconcile one pod."""
        assert self.fleet is not None  # noqa: S101 - set before the queue is processed
        pod, entry = self._pods.get(key), self._entries.get(key)
        node = self.fleet.get(pod.spec.node_name) if pod is not None else None
        is_homeless = pod is not None and node is None and not self.fleet.is_known(pod.spec.node_name)
        if not is_homeless:
            self._orphans.pop(key, None)
        elif entry is None and pod is not None:
            await self._collect(pod)
        if entry is not None and (pod is None or node is None or pod.metadata.uid != entry.life.uid):
            await self._forget(key, entry)
            if pod is not None and is_homeless:
                await self._lose(pod)
            entry = None
        if pod is None or node is None or node.state is NodeState.LOST:
            return
        if entry is None:
            if _is_over(pod) and not pod.metadata.is_terminating:
                return  # the pod has ended, so its node has no further work
            entry = await self._accept(pod, node)
        await self._advance(pod, entry)
        await self._publish(pod, entry)
        if entry.life.phase.is_over:
            node.ledger.release(entry.life.uid)
            self._runtime.release(entry.life.uid)
            self._addresses.give_back(entry.life.uid, entry.life.pod_ip)
        if entry.life.may_be_deleted and not entry.is_deleted:
            await self._remove(pod, entry)
        elif entry.life.wake_at is not None:
            self._queue.add_at(key, entry.life.wake_at)

    async def _accept(self, pod: records.Pod, node: SimulatedNode) -> Entry:
        now = self._now()
        self._log.started(pod, node.name, now)
        if pod.status.start_time:
            return await self._resume(pod, node)
        uid = pod.metadata.uid
        refusal = await self._runtime.admit(pod)
        life = born(pod, self._host_ip if pod.spec.host_network else self._addresses.take(uid), now)
        entry = self._entries[pod.key] = Entry(life, node.name)
        self._count(node)
        refusal = refusal or node.ledger.take(uid, pod_requests(pod))
        if refusal is not None:
            self._addresses.give_back(uid, life.pod_ip)
            life.pod_ip = ""
            life.phase, life.reason, life.message = Phase.FAILED, refusal.reason, refusal.message
            log.warning("pod.refused", pod=str(pod.key), node=node.name, reason=refusal.reason, message=refusal.message)
        return entry

    def _count(self, node: SimulatedNode) -> None:
        """Add the pods from before the start to the ledger of a node, before the node accepts its first pod."""
        if node.is_counted:
            return
        node.is_counted = True
        for pod in self._pods.by_index(_BY_NODE, node.name):
            if pod.status.start_time and not _is_over(pod):
                node.ledger.enter(pod.metadata.uid, pod_requests(pod))

    @property
    def _host_ip(self) -> str:
        return self.fleet.shape.host_ip if self.fleet is not None else ""

    async def _resume(self, pod: records.Pod, node: SimulatedNode) -> Entry:
        now = self._now()
        life, running = resumed(pod, now, self._backoff)
        entry = self._entries[pod.key] = Entry(life, node.name)
        if not life.phase.is_over:
            node.ledger.enter(life.uid, pod_requests(pod))
            if life.pod_ip:
                self._addresses.keep(life.uid, life.pod_ip)
            else:
                life.pod_ip = self._addresses.take(life.uid)
        for name, started_at in running.items():
            container = life.container(name)
            container.execution = await self._runtime.resume(pod, life, container, started_at)
        entry.published = _digest(pod_status(pod, life, of_pod(pod.metadata.annotations), host_ip=self._host_ip, now=now))
        return entry

    async def _advance(self, pod: records.Pod, entry: Entry) -> None:
        life = entry.life
        if _is_over(pod) and not life.phase.is_over:  # another client has written the end of the pod
            for container in life.containers:
                if container.is_alive:
                    await self._runtime.kill(pod, life, container)
                    container.execution = None
            life.phase, life.reason = Phase(pod.status.phase), pod.status.reason
        injection = of_pod(pod.metadata.annotations)
        for _ in range(_MAX_ROUNDS):
            effects = advance(pod, life, self._now(), injection, self._backoff)
            if not effects:
                return
            for effect in effects:
                await self._apply(pod, life, effect)
        log.error("pod.unsettled", pod=str(pod.key))

    async def _apply(self, pod: records.Pod, life: PodLife, effect: Effect) -> None:
        container = life.container(effect.container)
        match effect:
            case Start():
                container.execution = await self._runtime.start(pod, life, container)
                trouble = container.execution.trouble
                if trouble is not None:
                    text = trouble.message if trouble.event != "Failed" else f"Error: {trouble.message}"
                    self._record(pod, "Warning", trouble.event, text)
                elif container.restarts > 1:
                    self._record(pod, "Warning", "BackOff", f"Back-off restarting failed container {container.name}")
            case Terminate():
                await self._runtime.terminate(pod, life, container)
                self._record(pod, "Normal", "Killing", f"Stopping container {container.name}")
            case Kill():
                await self._runtime.kill(pod, life, container)
            case AskProbe(kind=kind):
                state = container.probes[kind]
                state.take(await self._runtime.probe(pod, life, container, kind), self._now())
                if state.message:
                    self._record(pod, "Warning", "Unhealthy", f"{kind.capitalize()} probe failed: {state.message}")
            case _:
                assert_never(effect)

    async def _publish(self, pod: records.Pod, entry: Entry) -> None:
        if entry.life.phase.is_over:
            self._note_end(pod.key, entry)
        status = pod_status(pod, entry.life, of_pod(pod.metadata.annotations), host_ip=self._host_ip, now=self._now())
        digest = _digest(status)
        never_ran = not any(c.ending or c.is_alive for c in entry.life.containers)
        is_lost = entry.life.phase.is_over and not _is_over(pod)  # the API server was restored to a state before the last write
        if (digest == entry.published and not is_lost) or (entry.life.may_be_deleted and never_ran):
            return
        body = {"metadata": {"uid": entry.life.uid}, "status": status}
        try:
            written = await self._client.patch(PODS, pod.key, body, PatchKind.STRATEGIC, subresource="status")
        except (NotFound, Conflict):
            log.info("pod.gone", pod=str(pod.key))  # the watch delivers the deletion
            return
        except Invalid as error:
            if "metadata.uid" not in error.message:
                raise
            return  # another pod has the name: the watch delivers it
        entry.published, entry.version = digest, written["metadata"]["resourceVersion"]
        log.debug("pod.status", pod=str(pod.key), phase=str(entry.life.phase))

    async def _remove(self, pod: records.Pod, entry: Entry) -> None:
        """Remove an ended pod that is to be deleted.

        Without grace the API server does that itself, unless its client was killed in the middle of the request.
        """
        if pod.metadata.deletion_grace_period_seconds == 0 and entry.delete_at is None:
            entry.delete_at = self._now() + _REMOVAL_SECONDS
        if entry.delete_at is None or self._now() >= entry.delete_at:
            await self._delete(pod)
            entry.is_deleted = True
        else:
            self._queue.add_at(pod.key, entry.delete_at)

    async def _delete(self, pod: records.Pod) -> None:
        try:
            await self._client.delete(PODS, pod.key, uid=pod.metadata.uid, grace_seconds=0)
        except (NotFound, Conflict):
            log.info("pod.gone", pod=str(pod.key))

    async def _collect(self, pod: records.Pod) -> None:
        """End a pod whose node does not exist and never accepted the pod, unless the node appears soon."""
        uid, due = self._orphans.get(pod.key, ("", 0.0))
        if uid != pod.metadata.uid:
            due = self._now() + _ORPHAN_SECONDS
            self._orphans[pod.key] = pod.metadata.uid, due
        if self._now() < due:
            self._queue.add_at(pod.key, due)
        else:
            await self._lose(pod)

    async def _lose(self, pod: records.Pod) -> None:
        """End a pod whose node was deleted, as the pod garbage collector would."""
        why = {"reason": "DeletionByPodGC", "message": "PodGC: node no longer exists"}
        condition = {"type": "DisruptionTarget", "status": "True", **why}
        body = {"metadata": {"uid": pod.metadata.uid}, "status": {"phase": "Failed", "conditions": [condition]}}
        log.info("pod.orphaned", pod=str(pod.key), node=pod.spec.node_name)
        try:
            if not _is_over(pod):
                await self._client.patch(PODS, pod.key, body, PatchKind.STRATEGIC, subresource="status")
        except NotFound:
            return
        await self._delete(pod)

    def _note_end(self, key: Key, entry: Entry) -> None:
        """Record the end of a pod in the pod log, once."""
        if not entry.has_ended:
            entry.has_ended = True
            ends = [container.ending.finished_at for container in entry.life.containers if container.ending]
            self._log.ended(key, entry.life.uid, entry.node, max(ends, default=self._now()))

    async def _forget(self, key: Key, entry: Entry) -> None:
        self._note_end(key, entry)
        del self._entries[key]
        self._addresses.give_back(entry.life.uid, entry.life.pod_ip)
        node = self.fleet.get(entry.node) if self.fleet is not None else None
        if node is not None:
            node.ledger.release(entry.life.uid)
        await self._runtime.forget(entry.life.uid)

    def _record(self, pod: records.Pod, type_: str, reason: str, message: str) -> None:
        self._events.event(Reference.of(pod, PODS), type_, reason, message)


def _is_own_write(entry: Entry, old: records.Pod, new: records.Pod) -> bool:
    """Return whether only the status changed, by our own write. After a relist, one event may contain changes of others too."""
    before, after = old.metadata, new.metadata
    return (
        entry.version == after.resource_version
        and before.generation == after.generation
        and before.deletion_timestamp == after.deletion_timestamp
        and before.annotations == after.annotations
        and not new.spec.readiness_gates
    )


def _is_over(pod: records.Pod) -> bool:
    return pod.status.phase in (Phase.SUCCEEDED, Phase.FAILED)


def _digest(status: dict[str, Any]) -> int:
    """Return a digest of `status`. Nulls, which only remove earlier values, are ignored."""
    conditions = [{key: value for key, value in condition.items() if value is not None} for condition in status["conditions"]]
    return hash(orjson.dumps({**status, "conditions": conditions}, option=orjson.OPT_SORT_KEYS))

"""Withdraws seats whose pods are not created in time, or whose node is lost, so that other jobs get the room.

A withdrawn seat still counts until the creator of the pods confirms it by removing the seats from the PodGroup.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog

from pyroclast.api import keys, records
from pyroclast.api.types import POD_GROUPS, PODS, Key
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import KubeError, NotFound
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.http.response_records import readable
from pyroclast.lifecycle.gang.groups import Group
from pyroclast.lifecycle.seats.contract import SeatsError, encode, parse_placement
from pyroclast.lifecycle.seats.eligibility import SeatRefusal
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cache.seats import Outstanding
from pyroclast_scheduler.model.features import tolerates
from pyroclast_scheduler.model.shapes import Toleration

log = structlog.get_logger()


_OVERDUE_SECONDS: Final = 5.0
_READ_SECONDS: Final = 10.0
PATIENCE_SECONDS: Final = 30.0
"""How long seats stay placed while none of their pods is created."""
ABANDONED_SECONDS: Final = 60.0
"""How long withdrawn seats count without a confirmation: longer than any request to create a pod can last."""
_LOOK_SECONDS: Final = 1.0
_FORBIDDING: Final = frozenset({"NoSchedule", "NoExecute"})
_CLOSED: Final = records.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_EVENT: Final = "SeatsWithdrawn"
_THEN: Final = "they are placed once they exist"
_SAID: Final = {
    SeatRefusal.STALLED: f"no pod of the gang was created on its node for {PATIENCE_SECONDS:.0f} s: {_THEN}",
    SeatRefusal.NODE_LOST: f"a node went, or takes no new pods, before the pods of the gang were created: {_THEN}",
}


class Verifier:
    """Reads the pods whose assumption was not confirmed in time, and ends the assumption; `run` must be running."""

    def __init__(self, client: Client, cache: Cache, *, now: Callable[[], float]) -> None:
        self._client = client
        self._cache = cache
        self._now = now

    async def run(self) -> None:
        """Check for overdue assumptions until cancelled."""
        while True:
            await asyncio.sleep(_OVERDUE_SECONDS)
            for uid in self._cache.assumptions.overdue(self._now()):
                await self._verify(uid)

    async def _verify(self, uid: str) -> None:
        task = self._cache.tasks.get(uid)
        if task is None:
            self._cache.assumptions.end(uid)
            return
        pod: records.Pod | None = None
        try:
            body = await self._client.get(PODS, Key(task.namespace, task.name), deadline=Deadline.after(_READ_SECONDS))
            pod = readable(body, records.Pod)
        except NotFound:
            log.debug("pod.gone", pod=task.key)
        except KubeError as error:  # the assumption has a new deadline
            log.warning("pod.not_read", pod=task.key, error=str(error))
            return
        log.info("assumption.ended", pod=task.key, status=task.status.label)
        self._cache.pods.read(uid, pod)


class SeatKeeper:
    """Checks at intervals the seats that have a node; `run` must be running. `now`: returns seconds of the cache's clock."""

    def __init__(self, client: Client, cache: Cache, recorder: EventRecorder, *, now: Callable[[], float]) -> None:
        self._client = client
        self._cache = cache
        self._recorder = recorder
        self._now = now
        self._told: dict[str, str] = {}

    async def run(self) -> None:
        """Check the seats at intervals until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_SECONDS)

    async def look(self) -> None:
        """Withdraw overdue seats, remove abandoned placements, and report malformed annotations."""
        self._cache.seats.expire()
        self._tell()
        for key, seats in list(self._cache.seats.outstanding()):
            idle = self._now() - seats.since
            if seats.withdrawn:
                if idle >= ABANDONED_SECONDS:
                    await self._write(key, seats.group, self._cache.seats.emptied(key))
            elif any(self._is_lost(name, pod) for name, pod in seats.nodes.items()):
                await self._withdraw(key, seats, SeatRefusal.NODE_LOST)
            elif idle >= PATIENCE_SECONDS:
                await self._withdraw(key, seats, SeatRefusal.STALLED)

    def _is_lost(self, name: str, pod: records.Pod) -> bool:
        row = self._cache.nodes.rows.get(name)
        node = None if row is None else self._cache.nodes.records[row]
        return node is None or closes_to(node, pod)

    async def _withdraw(self, key: str, seats: Outstanding, why: SeatRefusal) -> None:
        try:
            placement = parse_placement(seats.group.metadata.annotations.get(keys.PLACEMENT, ""))
            text = encode(msgspec.structs.replace(placement, withdrawn=why.value))
        except SeatsError:
            return  # changed meanwhile: the next check reads it again
        if await self._write(key, seats.group, text):
            log.warning("seats.withdrawn", podgroup=key, reason=why.value)
            self._recorder.event(Reference.of(seats.group, POD_GROUPS), "Warning", _EVENT, f"{why}: {_SAID[why]}")

    async def _write(self, key: str, group: Group, text: str | None) -> bool:
        meta = group.metadata
        guard = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        patch: dict[str, Any] = {"metadata": {**guard, "annotations": {keys.PLACEMENT: text}}}
        try:
            body = await self._client.patch(POD_GROUPS, Key(meta.namespace, meta.name), patch, PatchKind.MERGE)
        except KubeError as error:  # the next check reads the object again
            log.debug("placement.not_written", podgroup=key, error=str(error))
            return False
        answer = readable(body, records.PodGroup)
        if answer is not None:
            self._cache.group_changed(None, answer)
        return True

    def _tell(self) -> None:
        """Record one Event for each annotation that is ignored."""
        problems = self._cache.seats.problems
        for key in [key for key in self._told if key not in problems]:
            del self._told[key]
        for key, problem in problems.items():
            group = self._cache.groups.current(key)
            if group is not None and self._told.get(key) != problem:
                self._told[key] = problem
                self._recorder.event(Reference.of(group, POD_GROUPS), "Warning", "SeatsIgnored", problem)


def closes_to(node: records.Node, pod: records.Pod) -> bool:
    """Whether `node` rejects new pods like `pod`: it is cordoned, or has a taint that the pod does not tolerate."""
    taints = [taint for taint in node.spec.taints if taint.effect in _FORBIDDING]
    if node.spec.unschedulable:
        taints.append(_CLOSED)
    tolerations = [Toleration(each.key, each.operator, each.value, each.effect) for each in pod.spec.tolerations]
    return any(not any(tolerates(each, taint) for each in tolerations) for taint in taints)

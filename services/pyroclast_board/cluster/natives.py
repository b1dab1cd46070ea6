"""Native PodGroups of Kubernetes as rows beside the Jobs. The board watches the kind once the API server serves it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import structlog

from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.native_groups import LOOK_SECONDS, kind_served
from pyroclast.kube.watch.informer import Informer
from pyroclast.views.groups import native_waiter, own_groups, queue_of_pod, start_of
from pyroclast_board.cluster.jobs import JobRow, as_object
from pyroclast_board.cluster.records import ShownObject, ShownPod

log = structlog.get_logger()

PODGROUP: Final = "PodGroup"
ENDED: Final = frozenset({"Succeeded", "Failed"})


class NativeGangs:
    """Native groups by UID, and the pods of each group by phase. `put_row` stores the row of a UID; None removes the row."""

    def __init__(self, put_row: Callable[[str, JobRow | None], None]) -> None:
        self._put_row = put_row
        self._groups: dict[Key, ShownObject] = {}
        self._pods: dict[Key, tuple[Key, str]] = {}
        self._phases: dict[Key, Counter[str]] = {}
        self._queues: dict[Key, dict[Key, str]] = {}

    def group(self, uid: str) -> ShownObject | None:
        """Return the group with this UID. None when it does not exist."""
        return next((each for each in self._groups.values() if each.metadata.uid == uid), None)

    def put_group(self, old: ShownObject | None, new: ShownObject | None) -> None:
        """Handle an added, updated or deleted group."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._groups.pop(old.key, None)
            self._put_row(old.metadata.uid, None)
        if new is not None:
            self._groups[new.key] = new
            self._renew(new.key)

    def put_pod(self, old: ShownPod | None, new: ShownPod | None) -> None:
        """Handle an added, updated or deleted pod."""
        changed = set()
        if old is not None and (former := self._pods.pop(old.key, None)) is not None:
            of, phase = former
            self._phases[of][phase] -= 1
            self._queues.get(of, {}).pop(old.key, None)
            if not self._phases[of].total():
                del self._phases[of]
                self._queues.pop(of, None)
            changed.add(of)
        if new is not None and (group := group_of(new)) is not None and new.status.phase not in ENDED:
            self._pods[new.key] = (group, new.status.phase)
            self._phases.setdefault(group, Counter())[new.status.phase] += 1
            if queue := queue_of_pod({"annotations": new.metadata.annotations, "labels": new.metadata.labels}):
                self._queues.setdefault(group, {})[new.key] = queue
            changed.add(group)
        for each in changed:
            self._renew(each)

    def _renew(self, key: Key) -> None:
        group = self._groups.get(key)
        if group is not None:
            queue = next(iter(self._queues.get(key, {}).values()), "")
            self._put_row(group.metadata.uid, _row(group, self._phases.get(key, Counter()), queue))


def group_of(pod: ShownPod) -> Key | None:
    """Return the key of the native PodGroup to which a pod belongs. None when it belongs to none."""
    name = pod.spec.scheduling_group.pod_group_name
    return Key(pod.metadata.namespace, name) if name else None


async def follow_natives(client: Client, gangs: NativeGangs, watch: Callable[[Informer[Any]], None]) -> None:
    """Poll the API server until it serves the kind, then `watch` its objects. Runs until cancelled."""
    followed: set[ResourceType] = set()
    trouble = ""
    while True:
        try:
            kind = await kind_served(client)
        except KubeError as error:  # a later request may succeed
            kind = None
            if str(error) != trouble:
                log.warning("native_groups.not_asked", error=str(error))
            trouble = str(error)
        if kind is not None and kind not in followed:
            followed.add(kind)
            informer = Informer(client, kind, ShownObject)
            informer.on_change(gangs.put_group)
            watch(informer)
        await asyncio.sleep(LOOK_SECONDS)


def _row(group: ShownObject, phases: Counter[str], queue: str) -> JobRow | None:
    """Return the row of a group, with the `queue` of its pods when it names none.

    None for a group of a Job of Pyroclast, without a scheduler of Pyroclast, or whose pods have ended.
    """
    shown = as_object(group)
    native = native_waiter(shown) if own_groups([shown]) else None
    if native is None or (native.cause is None and not phases.total()):
        return None
    meta, cause = group.metadata, native.cause
    return JobRow(
        kind=PODGROUP,
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        queue=native.queue or queue,
        user="",
        flow="",
        phase=native.phase,
        reason="",
        code="" if cause is None else cause.code,
        is_final=cause is not None and cause.is_final,
        start=tuple(start_of(shown) or ()) if cause is not None and not cause.is_final else (),
        sentence="" if cause is None else cause.sentence,
        priority=native.priority or "",
        pods=phases.total() if cause is None else native.pods or 1,
        ready=phases["Running"],
        retries=0,
        asks=native.asks,
        created=meta.creation_timestamp or "",
        changed=native.since or meta.creation_timestamp or "",
        labels=meta.labels,
    )

"""PodGroups that belong to no Job as rows beside the Jobs: native ones of Kubernetes, and those of Volcano of plain pods.

The board watches the native kind once the API server serves it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from pyroclast.api import keys
from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.native_groups import LOOK_SECONDS, kind_served
from pyroclast.kube.watch.informer import Informer
from pyroclast.views.groups import native_waiter, own_groups, plain_waiter, queue_of_pod, start_of
from pyroclast.views.jobs import Waiter
from pyroclast_board.cluster.jobs import JobRow, as_object
from pyroclast_board.cluster.records import ShownGroup, ShownObject, ShownPod

log = structlog.get_logger()

NATIVE: Final = "PodGroup of Kubernetes"
PLAIN: Final = "PodGroup"
ENDED: Final = frozenset({"Succeeded", "Failed"})


class Gangs:
    """Groups of one kind that belong to no Job, by key, and the pods of each group by phase.

    `put_row` stores the row of a UID; None removes the row. `group_of` returns the group of a pod, and `waiter` the group in the
    form of what waits, None for a group without a row. `kind`: the kind of the rows.
    """

    def __init__(
        self,
        put_row: Callable[[str, JobRow | None], None],
        group_of: Callable[[ShownPod], Key | None],
        waiter: Callable[[Mapping[str, Any]], Waiter | None],
        kind: str,
    ) -> None:
        self._put_row, self.group_of, self._waiter, self._kind = put_row, group_of, waiter, kind
        self._groups: dict[Key, ShownObject | ShownGroup] = {}
        self._pods: dict[Key, tuple[Key, str]] = {}
        self._phases: dict[Key, Counter[str]] = {}
        self._queues: dict[Key, dict[Key, str]] = {}

    def waiter(self, uid: str) -> Waiter | None:
        """Return the group with this UID in the form of what waits. None when it does not exist."""
        found = next((each for each in self._groups.values() if each.metadata.uid == uid), None)
        return None if found is None else self._waiter(as_object(found))

    def put_group(self, old: ShownObject | ShownGroup | None, new: ShownObject | ShownGroup | None) -> None:
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
        if new is not None and (group := self.group_of(new)) is not None and new.status.phase not in ENDED:
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
            shown = as_object(group)
            waiter, phases = self._waiter(shown), self._phases.get(key, Counter())
            is_shown = waiter is not None and (waiter.cause is not None or phases.total())
            self._put_row(group.metadata.uid, _row(group, waiter, phases, queue, self._kind) if waiter and is_shown else None)


def native_gangs(put_row: Callable[[str, JobRow | None], None]) -> Gangs:
    """Return the native PodGroups, without those of Jobs of Pyroclast and those without a scheduler of Pyroclast."""

    def group_of(pod: ShownPod) -> Key | None:
        name = pod.spec.scheduling_group.pod_group_name
        return Key(pod.metadata.namespace, name) if name else None

    return Gangs(put_row, group_of, lambda group: native_waiter(group) if own_groups([group]) else None, NATIVE)


def plain_gangs(put_row: Callable[[str, JobRow | None], None]) -> Gangs:
    """Return the PodGroups of Volcano that belong to no Job."""

    def group_of(pod: ShownPod) -> Key | None:
        name = pod.metadata.annotations.get(keys.GROUP_NAME)
        return Key(pod.metadata.namespace, name) if name else None

    return Gangs(put_row, group_of, plain_waiter, PLAIN)


async def follow_natives(client: Client, gangs: Gangs, watch: Callable[[Informer[Any]], None]) -> None:
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


def _row(group: ShownObject | ShownGroup, waiter: Waiter, phases: Counter[str], queue: str, kind: str) -> JobRow:
    """Return the row of a group, with the `queue` of its pods when it names none."""
    meta, cause, owner = group.metadata, waiter.cause, group.metadata.controller
    return JobRow(
        kind=kind if owner is None else f"{kind} of {owner.kind} {owner.name}",
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        queue=waiter.queue or queue,
        user="",
        flow="",
        phase=waiter.phase,
        reason="",
        code="" if cause is None else cause.code,
        is_final=cause is not None and cause.is_final,
        start=tuple(start_of(waiter.group) or ()) if cause is not None and not cause.is_final else (),
        sentence="" if cause is None else cause.sentence,
        priority=waiter.priority or "",
        pods=phases.total() if cause is None else waiter.pods or 1,
        ready=phases["Running"],
        retries=0,
        asks=waiter.asks,
        created=meta.creation_timestamp or "",
        changed=waiter.since or meta.creation_timestamp or "",
        labels=meta.labels,
    )

"""Writes the results of sessions: statuses of PodGroups and queues, conditions of pods, Events.

Only differences are written, and not too often.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

import structlog

from pyroclast.api import keys, records
from pyroclast.api.enums import NativeConditionType, PodGroupConditionType, PodGroupPhase
from pyroclast.api.pod_groups_on_pods import CONDITIONS
from pyroclast.api.types import POD_GROUPS, PODS, QUEUES
from pyroclast.api.waiting_reasons import reason_of
from pyroclast.kube.basics.time_slices import in_turns
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.http.response_records import readable
from pyroclast.lifecycle.gang.groups import Group, GroupStatus
from pyroclast.lifecycle.times import format_time
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.explaining.annotations import said_of
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.reservations import Reservation, written
from pyroclast_scheduler.model.tasks import TaskFacts, TaskStatus, was_preempted
from pyroclast_scheduler.session.outcome import Note, Outcome, WaitingTask
from pyroclast_scheduler.shell.debounce import (
    HOLD_SECONDS,
    Debounce,
    Pruner,
    seconds_of_pod,
    seconds_of_reason,
    waiting_condition,
    waiting_reason,
)
from pyroclast_scheduler.shell.native_conditions import EvictedGroups, conditions_patch, said_class
from pyroclast_scheduler.shell.patch_queue import Patch, PatchQueue, Placements
from pyroclast_scheduler.shell.patches import (
    group_patch,
    queue_patch,
    reason_class,
    said_on_pod,
    said_waiting,
    waiting_class,
    waiting_patch,
    without_queue_gate,
)

log = structlog.get_logger()

WORKERS: Final = 8  # fewer than the workers of the binder, so that binds have priority
_COUNT_SECONDS: Final = 0.3  # the members of a gang start one after another
_OF_PODS: Final = frozenset({"Scheduled", "Unschedulable"})  # Events of groups that the pods get in other words
_NATIVE_SECONDS: Final = 5.0  # between two writes of the conditions of one PodGroup of the Kubernetes API


class Writer:
    """Receives outcomes of sessions; `run` must be running. Only the thread of the event loop may use it.

    `waiting`: returns the explanation that the object of a group should have. `writes`: whether this scheduler, among several,
    writes the status of a queue.
    """

    def __init__(
        self,
        client: Client,
        cache: Cache,
        recorder: EventRecorder,
        *,
        waiting: Callable[[Group], str] = said_of,
        writes: Callable[[str], bool] = lambda _queue: True,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._cache = cache
        self._recorder = recorder
        self._now = now
        self._groups: Debounce[str, GroupStatus] = Debounce()
        self._placements = Placements(client, cache)
        self._queues: Debounce[str, Amounts] = Debounce(shortest=0.5)
        self._pods: Debounce[str, WaitingTask] = Debounce()
        self._notes: Debounce[tuple[str, str], Note] = Debounce()
        self._natives: Debounce[str, None] = Debounce(shortest=_NATIVE_SECONDS, longest=_NATIVE_SECONDS)
        self._reserved: Debounce[str, str] = Debounce(shortest=0.5)
        self._reserving: set[str] = set()
        self._gates: Debounce[str, TaskFacts] = Debounce()
        self._conditions: dict[str, str] = {}
        self._bare: dict[str, str] = {}
        self._evicted = EvictedGroups(cache.natives)
        self._pruners = Pruner(), Pruner()
        self._noted: dict[tuple[str, str], str] = {}
        self._waits: dict[str, set[str]] = {}
        self._slots: dict[str, set[tuple[str, str]]] = {}
        self._patches = PatchQueue(client, recorder, now)
        self._alarm = asyncio.Event()
        self._annotations: Debounce[str, None] = Debounce()
        self._lanes: tuple[tuple[Debounce[Any, Any], Callable[[Any, Any], None]], ...] = (
            (self._groups, self._send_group),
            (self._gates, self._send_without_gate),
            (self._natives, self._send_native),
            (self._reserved, partial(self._annotate, keys.RESERVATION, self._reserved)),
            (self._annotations, self._send_annotation),
            (self._queues, self._send_queue),
            (self._pods, self._send_waiting),
            (self._notes, self._record),
        )
        self._numbers: set[str] = set()
        self._waiting = waiting
        self._writes = writes

    async def take(self, outcome: Outcome) -> None:
        """Plan the writes of `outcome`, and drop earlier plans that are not needed any more."""
        now = self._now()
        conditions, bare = self._pruners
        conditions.prune(self._conditions, self._cache.tasks.__contains__)
        bare.prune(self._bare, lambda key: self._cache.groups.current(key) is not None)
        preempting = frozenset(waiting.task.job for waiting in outcome.waiting if waiting.nominated)
        await self._take_groups(outcome, now, preempting)
        await self._take_waiting(outcome, now)
        for name, amounts in outcome.queues.items():
            if not self._writes(name):
                continue
            queue = self._cache.queues.get(name)
            if queue is None or queue_patch(queue.record.status, amounts, queue.guarantee) is None:
                self._queues.drop(name)
            else:
                self._queues.wish(name, amounts, now, hold=_COUNT_SECONDS)
        await self._take_notes(outcome, now, preempting)
        if outcome.reservations is not None:
            self._take_reservations(outcome.reservations, outcome.released, now)
        for task in outcome.let_in:
            self._gates.wish(task.uid, task, now, mark=task.uid)
        self.sweep()
        self._alarm.set()

    def sweep(self) -> None:
        """Drop the claims of gangs without pods that will not be written, for instance after a failed session."""
        self._placements.sweep(self._groups.__contains__)

    def bind_refused(self, task: TaskFacts, why: str) -> None:
        """Plan a condition of the pod that its bind failed."""
        self._conditions.pop(task.uid, None)
        self._pods.wish(task.uid, WaitingTask(task, "SchedulerError", why), self._now(), mark="SchedulerError")
        self._alarm.set()

    def annotate(self, job: str) -> None:
        """Plan the explanation `waiting` for a PodGroup, even if nothing else has changed."""
        group = self._cache.groups.current(job)
        if group is None or group.keeps_phase:
            self._annotations.wish(job, None, self._now())
        else:
            self._numbers.add(job)
            self._wish_native(job, self._now())
        self._alarm.set()

    async def run(self) -> None:
        """Write until cancelled."""
        self._placements.restart()
        async for task in in_turns(list(self._cache.tasks.values())):
            if task.status is TaskStatus.RELEASING and was_preempted(task.pod):
                self.evicted(task)  # the process before may have ended before it wrote the condition
        async with asyncio.TaskGroup() as group:
            group.create_task(self._release_due())
            for _ in range(WORKERS):
                group.create_task(self._write_all())

    def _take_reservations(self, reservations: Mapping[str, Reservation], released: Collection[str], now: float) -> None:
        """Plan the annotations of PodGroups with reservations, and remove outdated ones, whichever process wrote them."""
        for key in self._reserving.union(released, reservations):
            group = self._cache.groups.current(key)
            text = written(reservations[key]) if key in reservations else ""
            if group is None or not group.keeps_phase:  # objects of the Kubernetes API are not annotated
                self._reserving.discard(key)
            elif group.metadata.annotations.get(keys.RESERVATION, "") != text:
                self._reserved.wish(key, text, now)
                self._reserving.add(key)
            else:
                self._reserved.drop(key)
                if key not in reservations:
                    self._reserving.discard(key)

    async def _take_groups(self, outcome: Outcome, now: float, preempting: Collection[str]) -> None:
        async for key, status in in_turns(outcome.statuses.items()):
            group = self._cache.groups.current(key)
            if group is None:
                continue
            if group.is_on_pod:
                self._cache.groups.believe(key, status)
                if (reason := waiting_reason(status)) != waiting_reason(group.status):  # mostly written with `PodScheduled`
                    hold = HOLD_SECONDS + seconds_of_reason(waiting_reason(group.status), reason)
                    self._annotations.wish(key, None, now, hold=hold, mark=reason)
            elif not group.keeps_phase:
                is_again = status.phase is PodGroupPhase.RUNNING and group.status.phase is not PodGroupPhase.RUNNING
                self._cache.groups.believe(key, status)
                self._wish_natives(key, now, is_again=is_again)
            elif status.phase is not group.status.phase or key in preempting:
                self._cache.groups.believe(key, status)  # keeps the message about evictions, even if the victims are gone soon
                will_start = status.phase is PodGroupPhase.RUNNING and not status.running
                hold = HOLD_SECONDS if will_start else 0.0  # the next counts are written together with the phase
                self._groups.wish(key, status, now, hold=hold, mark=status.phase, is_urgent=True)
            else:
                if _decision(status) != _decision(group.status):
                    self._cache.groups.believe(key, status)  # the next session uses the status before it is written
                counts = (status.running, status.succeeded, status.failed)
                is_count = counts != (group.status.running, group.status.succeeded, group.status.failed)
                hold = _COUNT_SECONDS if is_count else seconds_of_reason(waiting_reason(group.status), waiting_reason(status))
                says = tuple(reason_class(each.reason, each.message) for each in status.conditions)
                self._groups.wish(key, status, now, hold=hold, mark="counts" if is_count else says)
        bare = {
            key
            for key in outcome.bare
            if (group := self._cache.groups.current(key))
            and group.keeps_phase
            and not group.is_on_pod
            and self._bare.get(key) != group.metadata.uid
        }
        for key in bare:
            self._groups.wish(key, GroupStatus(), now, hold=HOLD_SECONDS, mark="bare")
        async for key in in_turns(outcome.seen):
            if key not in outcome.statuses and key not in bare and not self._cache.groups.is_believed(key):
                self._groups.drop(key)
            if self._cache.natives.mirrors(key):
                self._wish_natives(key, now)
        self._answer_seats(outcome, now)

    def _answer_seats(self, outcome: Outcome, now: float) -> None:
        """Plan the answers to PodGroups that ask for seats, since the creator of their pods waits for them."""

        def status(key: str) -> GroupStatus | None:
            group = self._cache.groups.current(key)
            found = outcome.statuses.get(key) or (None if group is None else group.status)
            return None if found is None or found.phase is PodGroupPhase.PENDING else found

        self._cache.seats.seal(outcome.seen, may=lambda key: status(key) is not None)
        for key in self._cache.seats.answers():
            if (found := status(key)) is not None:
                self._groups.wish(key, found, now, mark="seats", is_urgent=True)

    async def _take_waiting(self, outcome: Outcome, now: float) -> None:
        waiting = await self._who_waits(outcome)
        async for uid, each in in_turns(waiting.items()):
            mark = waiting_class(each)
            if self._conditions.get(uid) == mark:
                self._pods.drop(uid)
            elif said_waiting(each) == mark:
                self._conditions[uid] = mark
                self._pods.drop(uid)
            else:
                hold = seconds_of_pod(each, self._cache.groups.current(each.task.job))
                self._pods.wish(uid, each, now, hold=hold, mark=(mark, each.members))

    async def _who_waits(self, outcome: Outcome) -> dict[str, WaitingTask]:
        """Return the pending pods by UID. Earlier pods of the same jobs that do not wait any more are dropped."""
        waiting = {}
        async for each in in_turns(outcome.waiting):
            waiting[each.task.uid] = each
        async for uid in in_turns(uid for key in outcome.seen for uid in self._waits.pop(key, ())):
            if uid not in waiting:
                self._conditions.pop(uid, None)
                self._pods.drop(uid)
        async for each in in_turns(outcome.waiting):
            self._waits.setdefault(each.task.job, set()).add(each.task.uid)
        return waiting

    async def _take_notes(self, outcome: Outcome, now: float, preempting: Collection[str]) -> None:
        """Plan the Events whose content is new and lasts. Others were recorded before."""
        found = {(note.job, f"{note.kind} {note.reason}"): note for note in outcome.notes}
        async for key in in_turns(outcome.seen):
            for slot in self._slots.pop(key, ()):
                if slot not in found:
                    self._noted.pop(slot, None)
                    self._notes.drop(slot)
        async for slot, note in in_turns(found.items()):
            self._slots.setdefault(note.job, set()).add(slot)
            mark = reason_class(note.reason, note.message)
            if self._noted.get(slot) == mark:
                self._notes.drop(slot)
            else:
                is_now = note.kind != "Warning" or note.job in preempting
                group = self._cache.groups.written(note.job)
                hold = HOLD_SECONDS if group is None else seconds_of_reason(waiting_reason(group.status), reason_of(note.message))
                self._notes.wish(slot, note, now, hold=0.0 if is_now else hold, mark=mark)

    async def _release_due(self) -> None:
        while True:
            now = self._now()
            for lane, send in self._lanes:
                for key, value in lane.due(now):
                    send(key, value)
            for lane, _ in self._lanes:
                lane.forget_quiet(now)
            times = [when for lane, _ in self._lanes if (when := lane.next_due()) is not None]
            self._alarm.clear()
            try:
                async with asyncio.timeout(max(0.0, min(times) - now) if times else None):
                    await self._alarm.wait()
            except TimeoutError:
                continue

    def _record(self, slot: tuple[str, str], note: Note) -> None:
        group = self._cache.groups.current(note.job)
        if group is not None and not (group.is_on_pod and note.reason in _OF_PODS):
            self._noted[slot] = reason_class(note.reason, note.message)
            self._recorder.event(Reference.of(group, group.kind), note.kind, note.reason, note.message)

    def _send_group(self, key: str, status: GroupStatus) -> None:
        group = self._cache.groups.written(key)
        if group is None:
            return
        patch = self._placements.joined(group, status, group_patch(group.status, status))
        if patch is None and status == GroupStatus() and self._bare.get(key) != group.metadata.uid:
            self._bare[key] = group.metadata.uid  # an absent phase is decoded as Pending, so the phase is written once
            patch = {"status": {"phase": str(status.phase)}}
        if patch is None:
            self._cache.groups.believe(key, None)
            return
        self._cache.groups.believe(key, status)
        if status.phase is not group.status.phase:
            log.info("podgroup.phase", podgroup=key, old=str(group.status.phase), new=str(status.phase))
        text = self._waiting(group)
        if text != said_of(group):
            patch.setdefault("metadata", {}).setdefault("annotations", {})[keys.WAITING] = text or None
        is_awaited = status.phase is PodGroupPhase.INQUEUE
        about = Reference.of(group, group.kind)
        self._patches.put(Patch(POD_GROUPS, about, patch, PatchKind.MERGE, self._groups, key, key, is_awaited=is_awaited))

    def _send_without_gate(self, uid: str, task: TaskFacts) -> None:
        patch, about = {"metadata": {"uid": uid}, **without_queue_gate()}, Reference.of(task.pod, PODS)
        self._patches.put(Patch(PODS, about, patch, PatchKind.STRATEGIC, self._gates, uid, is_status=False, is_awaited=True))

    def _send_annotation(self, key: str, _: None) -> None:
        group = self._cache.groups.written(key)
        if group is not None and group.is_on_pod and (now := self._cache.groups.current(key)) is not None:
            is_new = self._waiting(now) != said_of(group) or waiting_reason(now.status) != waiting_reason(group.status)
            if is_new and (said := self._why_on_pod(now)):
                self._say_on_pod(now, self._annotations, *said)
        elif group is not None and (text := self._waiting(group)) != said_of(group):
            self._annotate(keys.WAITING, self._annotations, key, text)

    def _annotate(self, annotation: str, lane: Debounce[Any, Any], key: str, text: str) -> None:
        group = self._cache.groups.current(key)
        if group is not None and group.is_on_pod:
            self._say_on_pod(group, lane, said_on_pod(CONDITIONS[annotation], "Reserved", text, format_time(self._now())))
        elif group is not None:
            about = Reference.of(group, POD_GROUPS)
            metadata = {"uid": about.uid, "annotations": {annotation: text or None}}
            self._patches.put(Patch(POD_GROUPS, about, {"metadata": metadata}, PatchKind.MERGE, lane, key))

    def _say_on_pod(self, group: Group, lane: Debounce[Any, Any], *said: dict[str, Any]) -> None:
        about = Reference.of(group, PODS)
        body = {"metadata": {"uid": about.uid}, "status": {"conditions": said}}
        self._patches.put(Patch(PODS, about, body, PatchKind.STRATEGIC, lane, group.key))

    def _why_on_pod(self, group: Group) -> list[dict[str, Any]]:
        """Return the conditions of the pod of `group` that say why it waits; none once it does not wait any more."""
        why, text, now = waiting_condition(group.status), self._waiting(group), format_time(self._now())
        if why is None or not text:
            return []
        kinds = (NativeConditionType.QUEUED, why.message), (NativeConditionType.WAITING, text)
        return [said_on_pod(kind, why.reason, message, now) for kind, message in kinds]

    def evicted(self, task: TaskFacts, whom: str = "") -> None:
        """Plan the condition of each group that is evicted as a whole with `task`, if its object has such a condition.

        `whom`: names the jobs that get the room; empty if they are not known.
        """
        for key in self._evicted.add(task, whom):
            self._wish_native(key, self._now())
            self._alarm.set()

    def _wish_natives(self, job: str, now: float, *, is_again: bool = False) -> None:
        """Plan the conditions of all objects that show the state of a job. `is_again`: it has been placed just now."""
        keys = self._cache.natives.told_of(job)
        for key in keys:
            if key in self._evicted and (is_again if len(keys) == 1 else self._has_places(key)):
                self._evicted.remove(key)  # its pods are placed again
            self._wish_native(key, now)

    def _has_places(self, key: str) -> bool:
        group = self._cache.natives.shown(key)
        return group is not None and group.status.phase is PodGroupPhase.RUNNING

    def _wish_native(self, key: str, now: float) -> None:
        """Plan the conditions of a group whose phase exists only in memory, if they differ by then."""
        group, evicted = self._evicted.shown(key), self._evicted.message(key)
        waiting = self._waiting_of(key) if key in self._numbers else None
        if group is None or conditions_patch(group, "", evicted, waiting=waiting) is None:
            self._numbers.discard(key)
            self._natives.drop(key)
        else:
            is_late = bool(evicted) and all(each.type != NativeConditionType.DISRUPTION_TARGET for each in group.said)
            hold = 0.0 if is_late else HOLD_SECONDS
            self._natives.wish(key, None, now, hold=hold, mark=said_class(group, evicted))

    def _send_native(self, key: str, _: None) -> None:
        group, evicted, now = self._evicted.shown(key), self._evicted.message(key), format_time(self._now())
        patch = None if group is None else conditions_patch(group, now, evicted, waiting=self._waiting_of(key))
        self._numbers.discard(key)
        if group is not None and patch is not None:
            about = Reference.of(group, group.kind)
            self._patches.put(Patch(group.kind, about, patch, PatchKind.STRATEGIC, self._natives, key, key))

    def _waiting_of(self, key: str) -> str | None:
        """Return the explanation for the object of that key; None to keep the present one, as for objects of parts."""
        group = self._cache.groups.current(key)
        return None if group is None or group.keeps_phase else self._waiting(group)

    def _send_queue(self, name: str, amounts: Amounts) -> None:
        queue = self._cache.queues.get(name)
        patch = queue_patch(queue.record.status, amounts, queue.guarantee) if queue is not None else None
        if queue is not None and patch is not None:
            self._patches.put(Patch(QUEUES, Reference.of(queue.record, QUEUES), patch, PatchKind.MERGE, self._queues, name))

    def _send_waiting(self, uid: str, waiting: WaitingTask) -> None:
        self._conditions[uid] = waiting_class(waiting)
        about = Reference.of(waiting.task.pod, PODS)
        self._recorder.event(about, "Warning", "FailedScheduling", waiting.message)
        patch = waiting_patch(waiting, format_time(self._now()))
        if (group := self._cache.groups.current(waiting.task.job)) is not None and group.is_on_pod:
            patch["status"]["conditions"] += self._why_on_pod(group)
        patch["metadata"] = {"uid": uid}  # a new pod may have the same name
        self._patches.put(Patch(PODS, about, patch, PatchKind.STRATEGIC, self._pods, uid, waiting.task.job))

    async def _write_all(self) -> None:
        while True:
            patch = await self._patches.get()
            try:
                task = self._cache.tasks.get(patch.slot) if patch.lane is self._pods else None
                body = None if task is not None and task.node else await self._patches.send(patch)  # it waits no more
                if body is None:
                    self._not_written(patch)
                if patch.lane is self._groups:
                    body = await self._placements.settled(patch.slot, body)
            finally:
                patch.lane.end(patch.slot)
                self._alarm.set()
            if patch.kind is POD_GROUPS:
                self._group_written(patch.slot, body)
            if patch.lane is self._groups:
                self._placements.conclude(patch.slot)
            if patch.lane is self._natives and body is None:
                self._numbers.add(patch.slot)
                self._wish_native(patch.slot, self._now())

    def _not_written(self, patch: Patch) -> None:
        if patch.kind is PODS:
            self._conditions.pop(patch.slot, None)
            self._cache.pods.unnominate(patch.slot)
        self._cache.jobs.retry([patch.job])

    def _group_written(self, key: str, body: dict[str, Any] | None) -> None:
        """Pass a response to the cache, so that no session decides on an older state. What was deleted stays deleted."""
        known = self._cache.groups.written(key)
        group = None if body is None or known is None else readable(body, records.PodGroup)
        if known is not None and group is not None and known.metadata.uid == group.metadata.uid:
            self._cache.group_changed(None, group)
        if key not in self._groups:
            self._cache.groups.believe(key, None)
        if self._cache.natives.mirrors(key):
            self._wish_natives(key, self._now())


def _decision(status: GroupStatus) -> str:
    """Return the message of the condition Scheduled, which a traced group has from the session that placed it."""
    return next((each.message for each in status.conditions if each.type == PodGroupConditionType.SCHEDULED), "")

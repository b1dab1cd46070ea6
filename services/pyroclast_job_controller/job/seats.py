"""The seats of Jobs: the pod templates of seats, with the changes by admission, and the creation of pods on seats."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec
import structlog

from pyroclast.api import keys
from pyroclast.api.records import Job, Pod, PodGroup, Task, reading
from pyroclast.api.types import Key
from pyroclast.kube.basics.errors import KubeError
from pyroclast.lifecycle.effects import AskSeats, Slot
from pyroclast.lifecycle.gang import members, pods, seating
from pyroclast.lifecycle.job.facts import JobFacts
from pyroclast.lifecycle.jobplugins import PluginError
from pyroclast.lifecycle.seats.contract import PodTemplate, Seat, Seats, SeatsError, TaskSeats, asking, encode, template_of
from pyroclast.lifecycle.seats.eligibility import SeatRefusal, refusal_of_job, refusal_of_pod
from pyroclast.runtime.in_process.creation import Creator
from pyroclast_job_controller.blocked import Blocked, Outage
from pyroclast_job_controller.job.memory import JobMemory
from pyroclast_job_controller.plugins.registry import adapted, plugins_of

log = structlog.get_logger()

REMEMBERED_SECONDS: Final = 600.0
"""Seconds for which the result of a dry run is used for further Jobs with the same template."""
_MOST_REMEMBERED: Final = 2000
_OF_THE_JOB: Final = frozenset({keys.JOB_NAME, keys.TEMPLATE_UID, keys.GROUP_NAME})
_DRY: Final = "-seats"


@dataclass(frozen=True, slots=True)
class _Answer:
    """The result of a dry run for a template.

    `labels` and `annotations`: the entries that admission adds or changes. `pod`: the pod of the dry run; None without seats.
    `until`: when the result expires, by the monotonic clock. `way`: why the template gets no seats; None with seats.
    """

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pod: Pod | None
    until: float
    way: SeatRefusal | None = None


class SeatPublisher:
    """Publishes the seats of Jobs on their PodGroups, if `is_enabled`.

    `creator`: creates the pods of dry runs. `schedulers`: the names of our schedulers. `clock`: a monotonic clock, in seconds.
    """

    def __init__(self, creator: Creator, schedulers: Collection[str], clock: Callable[[], float], *, is_enabled: bool) -> None:
        self._creator, self._schedulers, self._clock, self._is_enabled = creator, schedulers, clock, is_enabled
        self._answers: OrderedDict[bytes, _Answer] = OrderedDict()
        self._asking: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()

    async def published(self, job: Job, group: dict[str, Any], *, forwarding: bool) -> dict[str, Any]:
        """Return `group`, the manifest of the PodGroup of `job`, with its seats, or with one word for why it has no seats."""
        if not self._is_enabled:
            return group
        try:
            text = encode(await self._seats(job, forwarding=forwarding))
        except SeatsError:
            text = encode(Seats(way=SeatRefusal.SIZE))
        meta = group["metadata"]
        return {**group, "metadata": {**meta, "annotations": {**meta["annotations"], keys.SEATS: text}}}

    async def asked(self, facts: JobFacts, ask: AskSeats, *, forwarding: bool) -> dict[str, Any]:
        """Return the patch of the PodGroup that publishes the seats again, with the present changes by admission."""
        try:
            found = await self._seats(facts.job, forwarding=forwarding) if self._is_enabled else Seats(way=SeatRefusal.STARTED)
            slots = None if ask.slots is None or found.way else asking(Seat(slot.task, slot.index) for slot in ask.slots)
            text = encode(msgspec.structs.replace(found, generation=ask.generation, asked=slots))
        except SeatsError:
            text = encode(Seats(generation=ask.generation, way=SeatRefusal.SIZE))
        uid = facts.group.metadata.uid if facts.group is not None else None
        return {"metadata": {"uid": uid, "annotations": {keys.SEATS: text, keys.PLACEMENT: None}}}

    def seating(self, facts: JobFacts, memory: JobMemory, group_now: Callable[[Key], PodGroup | None]) -> Seating:
        """Return the seats of a Job for the creation of its pods. `group_now`: returns the present PodGroup of a key."""
        group, seats = facts.group, seating.seats_of(facts.group)
        if group is None or seats is None:
            return Seating({}, memory.seats(group), lambda: False, lambda _: None)
        placement = group.metadata.annotations.get(keys.PLACEMENT)

        def stands() -> bool:
            now = group_now(group.key)
            return now is not None and now.metadata.annotations.get(keys.PLACEMENT) == placement

        templates = {task.role: task.pod for task in seats.tasks}
        return Seating(templates, memory.seats(group), stands, lambda role: self._distrust(facts.job, role))

    async def _seats(self, job: Job, *, forwarding: bool) -> Seats:
        if (way := refusal_of_job(job, schedulers=self._schedulers, forwarding=forwarding)) is not None:
            return Seats(way=way)
        tasks = []
        for task in (task for task in job.spec.tasks if task.replicas):
            template = await self._template(job, task)
            if isinstance(template, SeatRefusal):
                return Seats(way=template)
            prefix = members.pod_name(job.metadata.name, task.name, 0)[:-1]
            tasks.append(TaskSeats(role=task.name, prefix=prefix, count=task.replicas, pod=template))
        return Seats(tasks=tuple(tasks)) if tasks else Seats(way=SeatRefusal.SIZE)

    async def _template(self, job: Job, task: Task) -> PodTemplate | SeatRefusal:
        """Return the template of the pods of `task` for the scheduler, or why the task gets no seats."""
        try:
            manifest = adapted(plugins_of(job), job, task, 0, pods.build(job, task, 0))
            wanted = reading.convert(manifest, Pod)
        except (PluginError, msgspec.ValidationError):
            return SeatRefusal.REFUSED  # the creation of the pods reports the error
        if (way := refusal_of_pod(wanted, schedulers=self._schedulers)) is not None:
            return way
        sent = template_of(wanted)
        key = _key(job, sent)
        answer = await self._answer(key, manifest, sent)
        if answer.pod is None:
            return answer.way or SeatRefusal.REFUSED
        labels, annotations = {**sent.labels, **answer.labels}, {**sent.annotations, **answer.annotations}
        return PodTemplate(labels=labels, annotations=annotations, spec=template_of(answer.pod).spec)

    async def _answer(self, key: bytes, manifest: dict[str, Any], sent: PodTemplate) -> _Answer:
        """Return the result for pods of `key`, from memory or from a dry run. Concurrent calls for one key share one dry run."""
        async with self._asking.setdefault(key, asyncio.Lock()):
            answer = self._answers.get(key)
            if answer is None or answer.until <= self._clock():
                answer = await self._ask(manifest, sent)
                self._keep(key, answer)
        return answer

    async def _ask(self, manifest: dict[str, Any], sent: PodTemplate) -> _Answer:
        """Create the pod in a dry run. The pod has a special name, because an earlier pod may still have the usual name."""
        until = self._clock() + REMEMBERED_SECONDS
        named = {**manifest, "metadata": {**manifest["metadata"], "name": manifest["metadata"]["name"] + _DRY}}
        try:
            pod = reading.convert(await self._creator.create(named, dry_run=True), Pod)
        except KubeError as error:
            log.info("seats.refused", pod=named["metadata"]["name"], reason=str(error))
            return _Answer({}, {}, None, self._clock(), SeatRefusal.REFUSED)  # the next Job tries again
        if (way := refusal_of_pod(pod, schedulers=self._schedulers)) is not None:
            return _Answer({}, {}, None, until, way)
        made = template_of(pod)
        return _Answer(_added(sent.labels, made.labels), _added(sent.annotations, made.annotations), pod, until)

    def _distrust(self, job: Job, role: str) -> None:
        """Publish no seats for the template of `role` for a while, because admission differed from the dry run."""
        task = next((each for each in job.spec.tasks if each.name == role), None)
        if task is None:
            return
        wanted = reading.convert(adapted(plugins_of(job), job, task, 0, pods.build(job, task, 0)), Pod)
        until = self._clock() + REMEMBERED_SECONDS
        self._keep(_key(job, template_of(wanted)), _Answer({}, {}, None, until, SeatRefusal.ADMISSION))

    def _keep(self, key: bytes, answer: _Answer) -> None:
        self._answers[key] = answer
        self._answers.move_to_end(key)
        if len(self._answers) > _MOST_REMEMBERED:
            self._answers.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Seating:
    """The seats of a gang while its pods are created. `templates`: the published templates, by role.

    `stands`: returns whether the placement is unchanged. `distrust`: called with a role when admission changes a pod in another
    way than the dry run.
    """

    templates: Mapping[str, PodTemplate]
    memory: JobMemory
    stands: Callable[[], bool]
    distrust: Callable[[str], None]

    def take(self, slot: Slot, manifest: dict[str, Any]) -> str:
        """Set the node of `slot` in `manifest`, if the placement is still valid; return the node, empty if it is not."""
        node = slot.node if slot.node and not self.memory.seats_refused and self.stands() else ""
        if node:
            manifest["spec"]["nodeName"] = node
            manifest["metadata"]["annotations"][keys.CREATED_ON_NODE] = "true"
        return node

    def misfit(self, slot: Slot, pod: Pod | None) -> Pod | None:
        """Note that a pod was created on the seat of `slot`; return the pod if its spec differs from the placed template.

        `pod` is None when the pod existed already.
        """
        self.memory.seated.add(Slot(slot.task, slot.index))
        made, told = (template_of(pod) if pod is not None else None), self.templates.get(slot.task)
        if made == told or pod is None or made is None:
            return None
        log.warning("seats.admission_differs", pod=str(pod.key), task=slot.task)
        self.memory.seats_refused = SeatRefusal.ADMISSION.value
        self.distrust(slot.task)
        if told is not None and made.spec == told.spec:
            return None
        self.memory.deleted.add(pod.metadata.uid)  # its deletion is no eviction
        return pod

    @contextlib.contextmanager
    def closing_when_refused(self) -> Iterator[None]:
        """Create no further pods on seats when the API server refuses a pod, because the gang cannot be complete.

        An unavailable webhook does not count. If it stays unavailable for long, the scheduler withdraws the placement.
        """
        try:
            yield
        except Outage:
            raise
        except Blocked:
            self.memory.seats_refused = self.memory.seats_refused or SeatRefusal.REFUSED.value
            raise


def _key(job: Job, sent: PodTemplate) -> bytes:
    """Return the key of a template: Jobs with the same template in one namespace have the same key."""
    own = [{key: value for key, value in each.items() if key not in _OF_THE_JOB} for each in (sent.labels, sent.annotations)]
    return _ENCODER.encode((job.metadata.namespace, *own, sent.spec))


def _added(sent: Mapping[str, str], made: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in made.items() if sent.get(key) != value}


_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")

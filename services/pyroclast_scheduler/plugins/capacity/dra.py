"""Device quotas: the number of devices of each class that the pods of a queue use by their claims, and may use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from pyroclast.api import records
from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.resources import quantity
from pyroclast.resources.quantity import QuantityError
from pyroclast_scheduler.model.causes import Cause
from pyroclast_scheduler.model.claims import class_counts, device_claims
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.promises import Why
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.tasks import ALLOCATED, Task, TaskFacts, TaskStatus
from pyroclast_scheduler.model.triggers import DeviceRelease, ObjectChange, QueueUse, Trigger
from pyroclast_scheduler.plugins.capacity.tree import Tree
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.statement import Move

_MARK: Final = "deviceclass/"
_MOST: Final = int(np.iinfo(np.int64).max)


def limits_of(capability: Mapping[str, str | int] | None) -> dict[str, int]:
    """Return the device limits of a capability.

    `deviceclass/CLASS` limits the number of devices, and `DIMENSION.deviceclass/CLASS` the sum of their capacity in a dimension.
    Malformed limits are ignored.
    """
    found: dict[str, int] = {}
    for name, text in (capability or {}).items():
        if name.startswith(_MARK) or f".{_MARK}" in name:
            amount = _whole(text)
            if amount is not None:
                found[name] = amount
    return found


def amounts_of(claim: records.ResourceClaim, *, has_capacity: bool) -> dict[str, int]:
    """Return the requests of a claim under the names of limits, with the requested capacity of devices if `has_capacity`."""
    found = {f"{_MARK}{name}": count for name, count in class_counts(claim).items()}
    for wish in (request.exactly for request in claim.spec.devices.requests if has_capacity):
        if wish is None or wish.allocation_mode == "All":
            continue
        for dimension, text in ((wish.capacity or {}).get("requests") or {}).items():
            name = f"{dimension}.{_MARK}{wish.device_class_name}"
            found[name] = min(found.get(name, 0) + (wish.count or 1) * (_whole(text) or 0), _MOST)
    return found


def _whole(text: str | int) -> int | None:
    """Return a quantity in whole units, rounded up; None if it is malformed."""
    try:
        return -(-quantity.parse(str(text)).nanos // 10**9)
    except QuantityError:
        return None


class Accounts:
    """The devices that queues use. The limits of a queue also apply to its descendants.

    A claim that several pods share counts once. `paths`: by row of a queue, the row itself and those of all ancestors.
    """

    def __init__(
        self,
        limits: Mapping[int, Mapping[str, int]],
        claims: Mapping[str, records.ResourceClaim],
        paths: Sequence[Sequence[int]],
        *,
        has_capacity: bool = False,
    ) -> None:
        self._has_capacity = has_capacity
        self._limits = {row: classes for row, classes in limits.items() if classes}
        self._claims = claims
        self._paths = paths
        self._users: dict[int, Counter[str]] = {row: Counter() for row in self._limits}
        self._allocated: dict[int, Counter[str]] = {row: Counter() for row in self._limits}
        self._inqueue: dict[int, Counter[str]] = {row: Counter() for row in self._limits}

    @property
    def is_empty(self) -> bool:
        """Whether no queue has a limit."""
        return not self._limits

    def move(self, row: int, task: TaskFacts, sign: int) -> None:
        """Count a pod of queue `row` that was placed (1) or removed (−1). A claim is used from its first to its last pod."""
        for each in self.limited(row):
            for key in _keys(task):
                users = self._users[each]
                before, users[key] = users[key], users[key] + sign
                if (before > 0) != (users[key] > 0):
                    for name, count in self._counts(key).items():
                        self._allocated[each][name] += sign * count

    def is_room(self, row: int, task: TaskFacts) -> bool:
        """Whether the claims of the pod fit into the limits of queue `row` and its ancestors."""
        return all(self._is_within(each, self._wanted(each, [task]), Counter()) for each in self.limited(row))

    def may_enter(self, row: int, job: Job) -> bool:
        """Whether the claims of the job's minimum fit beside the used and the reserved devices."""
        tasks = _minimum(job)
        return all(self._is_within(each, self._wanted(each, tasks), self._inqueue[each]) for each in self.limited(row))

    def entered(self, row: int, job: Job) -> None:
        """Reserve the devices that an enqueued job will use."""
        tasks = [task for task in _minimum(job) if task.status not in ALLOCATED]
        for each in self.limited(row):
            self._inqueue[each] += Counter(self._wanted(each, tasks))

    def limited(self, row: int) -> Iterator[int]:
        """Yield the rows of the queues that have a limit, among queue `row` and its ancestors."""
        return (each for each in self._paths[row] if each in self._limits)

    def _counts(self, key: str) -> Mapping[str, int]:
        claim = self._claims.get(key)
        return {} if claim is None else amounts_of(claim, has_capacity=self._has_capacity)

    def _wanted(self, row: int, tasks: Iterable[TaskFacts]) -> dict[str, int]:
        """Return the requests of the claims that are not counted yet."""
        found: dict[str, int] = {}
        for key in dict.fromkeys(key for task in tasks for key in _keys(task)):
            if self._users[row][key] <= 0:
                for name, count in self._counts(key).items():
                    found[name] = min(found.get(name, 0) + count, _MOST)
        return found

    def _is_within(self, row: int, wanted: Mapping[str, int], beside: Mapping[str, int]) -> bool:
        limits, has = self._limits[row], self._allocated[row]
        classes = {name.partition(_MARK)[2] for name in limits}
        for name, count in wanted.items():
            is_number, of_class = name.startswith(_MARK), name.partition(_MARK)[2]
            if of_class not in classes or (is_number and limits.get(name, 0) <= 0):
                continue
            if name not in limits or has[name] + beside.get(name, 0) + count > limits[name]:
                return False
        return True


class DeviceQuota:
    """The device quotas of one session."""

    def __init__(self, session: PluginSession, tree: Tree, *, has_capacity: bool) -> None:
        self._session = session
        self._tree = tree
        self._names = list(session.queues)
        limits = {tree.rows[name]: limits_of(queue.facts.record.spec.capability) for name, queue in session.queues.items()}
        paths = [tree.path(row) for row in range(len(tree.rows))]
        self._accounts = Accounts(limits, session.told_objects(records.ResourceClaim), paths, has_capacity=has_capacity)
        if not self.is_empty:
            for job in session.all_jobs().values():
                row = tree.rows.get(job.facts.queue)
                concerned = [task for task in job.facts.tasks if task.shape.has_claims]
                if row is None or not concerned:
                    continue
                for task in concerned:
                    if task.status in ALLOCATED:
                        self._accounts.move(row, task, 1)
                if job.phase is PodGroupPhase.INQUEUE and job.facts.promise.why is not Why.HELD_UP:
                    self._accounts.entered(row, job)

    @property
    def is_empty(self) -> bool:
        """Whether no queue has a limit."""
        return self._accounts.is_empty

    def entered(self, job: Job) -> None:
        """Reserve the devices that an enqueued job will use."""
        self._accounts.entered(self._tree.rows[job.facts.queue], job)

    def allocatable(self, queue: Queue, task: Task) -> bool:
        """Whether the claims of the pod fit into the limits of the queue and its ancestors."""
        return self._accounts.is_room(self._tree.rows[queue.name], task.facts)

    def retry_when(self, job: Job, tasks: Iterable[TaskFacts]) -> set[Trigger]:
        """Return the triggers by claims, released devices and limited queues after which the queue may accept more."""
        keys = {key for task in tasks for key in _keys(task)}
        if not keys:
            return set()
        queues = self._accounts.limited(self._tree.rows[job.facts.queue])
        return {
            DeviceRelease(),
            *(ObjectChange(records.ResourceClaim, key) for key in keys),
            *(QueueUse(self._names[row]) for row in queues),
        }

    def may_enter(self, job: Job) -> bool:
        """Whether the claims of the job's minimum fit. If they do not, the job is refused."""
        if self._accounts.may_enter(self._tree.rows[job.facts.queue], job):
            return True
        text = "queue resource quota insufficient: insufficient devices"
        retry_when = frozenset(self.retry_when(job, job.facts.tasks))
        self._session.refuse(job, Cause(PendingReason.QUEUE_FULL, lambda: text, retry_when=retry_when))
        return False

    def moved(self, move: Move, sign: int) -> None:
        """Count pods that were placed or evicted."""
        row = self._tree.rows.get(move.job.facts.queue)
        if row is not None and move.plan.shape.has_claims:
            for task in move.tasks:
                self._accounts.move(row, task.facts, -sign if move.status is TaskStatus.RELEASING else sign)


def _keys(task: TaskFacts) -> list[str]:
    return [key for key in dict.fromkeys(device_claims(task.pod).values()) if key is not None]


def _minimum(job: Job) -> list[TaskFacts]:
    """Return the pods that the job needs to start: by role as many as its minimum, or else the first ones by name."""
    facts = job.facts
    ordered = sorted(facts.tasks, key=lambda task: (task.namespace, task.name, task.uid))
    if not facts.role_minimum:
        return ordered[: facts.min_available]
    left = dict(facts.role_minimum)
    found: list[TaskFacts] = []
    for task in ordered:
        if left.get(task.role, 0) > 0:
            left[task.role] -= 1
            found.append(task)
    return found

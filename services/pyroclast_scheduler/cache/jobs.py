"""The table of jobs: PodGroups and their pods by events, with sums kept by increments, and which of them sessions must look at.

A job rests when the last session that looked at it found nothing more to do or say; a change of it wakes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from pyroclast.api import records
from pyroclast.api import waiting_reasons as pending
from pyroclast.api.enums import JobEventReason, PodGroupPhase
from pyroclast_scheduler.cache.changes import same_but_told
from pyroclast_scheduler.cache.invalid_objects import LEFT_OUT, reason_of
from pyroclast_scheduler.cache.noted_changes import Changes
from pyroclast_scheduler.model.dimensions import Amounts, Dimensions
from pyroclast_scheduler.model.faults import Fault
from pyroclast_scheduler.model.groups import Group, GroupStatus
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.minded_labels import MindedLabels
from pyroclast_scheduler.model.resource_sums import Contribution, QueueSums, QueueTotals, TaskSums
from pyroclast_scheduler.model.tasks import TaskFacts, group_of

__all__ = ["Entry", "JobTable", "Stranger"]

_WAITING_PHASES = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE, PodGroupPhase.UNKNOWN})
_FIRST_PAUSE = 4  # schedule periods until a job that was left out is tried again
_LONGEST_PAUSE = 512


class _Retry(NamedTuple):
    """When a job that was left out is tried again: in period `at`, which is `pause` periods later."""

    at: int
    pause: int


class Stranger(NamedTuple):
    """A pod that waits for another scheduler: the name of that, and the key of the group that the pod names."""

    scheduler: str
    group: str


class Source(Protocol):
    """What a group is read from."""

    @property
    def uid(self) -> str:
        """UID of the object that describes the group."""
        ...

    def read(self, entry: Entry) -> tuple[Group | None, bool]:
        """The group with the pods of `entry`, None if it is not ours; and whether time alone may change what is read."""
        ...


@dataclass(slots=True)
class Entry:
    """A job in the making: it may have pods before it has a PodGroup. `believed` is a status that is being written.

    `counted`: what it adds to its queue's sums at present. `strangers`: its pods that wait for another scheduler, by UID.
    `is_shared`: sessions see `sums`, which then must stay as they are. `source`: what `group` is read from anew when a pod
    changes, None where the group does not depend on its pods. `joined`: when the last pod came.
    """

    group: Group | None = None
    believed: GroupStatus | None = None
    tasks: dict[str, TaskFacts] = field(default_factory=dict)
    sums: TaskSums = field(default_factory=TaskSums)
    counted: Contribution | None = None
    strangers: dict[str, Stranger] = field(default_factory=dict)
    is_shared: bool = False
    source: Source | None = None
    joined: float = 0.0

    def own_sums(self) -> TaskSums:
        """The sums, to be changed."""
        if self.is_shared:
            self.sums, self.is_shared = self.sums.copy(), False
        return self.sums

    @property
    def current(self) -> Group | None:
        """The PodGroup with the status that is being written."""
        if self.group is None or self.believed is None:
            return self.group
        return msgspec.structs.replace(self.group, status=self.believed)


class JobTable:
    """Keeps entries by key. `problems` are told by key of the PodGroup; they stand until the job changes.

    `minded`: the labels that decide where pods go. `names`: those of our scheduler where others work beside it, whose jobs count
    and are not looked at; empty where it is alone. `ours`: those of our scheduler anyway. `now`: seconds of a clock that never
    goes back. `changes`: where it is noted which queues' sums change. `roots`: by the key of a group that is a part of a larger
    one, the key of the job that its pods belong to.
    """

    def __init__(
        self,
        dimensions: Dimensions,
        *,
        default_queue: str,
        names: Collection[str],
        ours: Collection[str],
        now: Callable[[], float],
        minded: MindedLabels,
        changes: Changes,
        roots: Mapping[str, str],
    ) -> None:
        self.entries: dict[str, Entry] = {}
        self.problems: dict[str, str] = {}
        self._retries: dict[str, _Retry] = {}
        self._period = 0
        self._dimensions = dimensions
        self._default_queue = default_queue
        self._names = names
        self._ours = ours
        self._now = now
        self._timed: set[str] = set()
        self._roots = roots
        self._minded = minded
        self._changes = changes
        self._warned: dict[str, Fault] = {}
        self._facts: dict[str, JobFacts] = {}
        self._awake: dict[str, JobFacts] = {}
        self._let_in: dict[str, JobFacts] = {}
        self._totals: dict[str, QueueTotals] = {}
        self._stale: dict[str, None] = {}
        self._woken: dict[str, None] = {}
        self._shared: dict[str, JobFacts] | None = None

    # -- events ------------------------------------------------------------------------------------------------------

    def entry(self, key: str) -> Entry:
        """The entry of that key, made if there is none; its facts are worked out anew."""
        self._stale[key] = None
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = Entry()
        return entry

    def show(self, key: str, group: Group | None, believed: GroupStatus | None) -> None:
        """The PodGroup of that key came, changed or went (None); `believed`: the status of it that is being written.

        That what was written is there now is no change.
        """
        entry = self.entries.get(key) or self.entry(key)
        before = entry.current
        entry.group, entry.believed = group, believed
        now = entry.current
        if before is None or now is None or not same_but_told(before, now):
            self._stale[key] = None

    def describe(self, key: str, source: Source | None) -> None:
        """The object that describes a group which depends on its pods came, changed or went (None)."""
        entry = self.entry(key)
        if source is None or entry.source is None or entry.source.uid != source.uid:
            entry.group = entry.believed = None
        entry.source = source

    def believe(self, key: str, status: GroupStatus | None) -> None:
        """Take `status` as that of a group while it is being written; for good where its object keeps none."""
        entry = self.entries.get(key)
        if entry is None or entry.believed == status or (status is None and entry.source is not None):
            return
        if entry.source is None:
            self.show(key, entry.group, status)
        else:
            entry.believed = status
            self._stale[key] = None

    def rewrite(self, key: str, source: Source, metadata: records.Meta, said: tuple[records.NativeCondition, ...]) -> None:
        """The object has another version, or other conditions, of which sessions see nothing."""
        entry = self.entries.get(key) or self.entry(key)
        entry.source = source
        if entry.group is not None:
            version = msgspec.structs.replace(entry.group.metadata, resource_version=metadata.resource_version)
            entry.group = msgspec.structs.replace(entry.group, metadata=version, said=said)

    def add(self, task: TaskFacts) -> None:
        """A pod came."""
        entry = self.entry(task.job)
        entry.tasks[task.uid] = task
        entry.joined = self._now()
        entry.own_sums().add(task)

    def remove(self, task: TaskFacts) -> None:
        """A pod went, or is about to come back changed."""
        entry = self.entries.get(task.job)
        if entry is not None and entry.tasks.pop(task.uid, None) is not None:
            self._stale[task.job] = None
            entry.own_sums().add(task, -1)

    def replace(self, before: TaskFacts, task: TaskFacts) -> None:
        """A pod changed, and keeps its place among those of its job."""
        if before.job != task.job or task.uid not in self.entry(task.job).tasks:
            self.remove(before)
            self.add(task)
            return
        entry = self.entries[task.job]
        sums = entry.own_sums()
        sums.add(before, -1)
        entry.tasks[task.uid] = task
        sums.add(task)

    def count_strangers(self, old: records.Pod | None, new: records.Pod | None) -> None:
        """A pod came, changed, or went: keep those known that wait for another scheduler, as whose job it is depends on them."""
        for pod, is_there in ((old, False), (new, True)):
            if pod is None or pod.spec.scheduler_name in self._ours or not (self._names or pod.spec.scheduling_group):
                continue
            group = group_of(pod)
            if not group:
                continue
            key = self._roots.get(group, group)
            uid, known = pod.metadata.uid, self.entries.get(key)
            is_known = known is not None and uid in known.strangers
            if is_there and not pod.spec.node_name and not is_known:
                self.entry(key).strangers[uid] = Stranger(pod.spec.scheduler_name, group)
            elif is_known and not (is_there and not pod.spec.node_name):
                del self.entry(key).strangers[uid]

    def move_strangers(self, group: str, before: str, after: str) -> None:
        """The pods that name `group` belong to another job than before."""
        known = self.entries.get(before)
        moved = {} if known is None else {uid: each for uid, each in known.strangers.items() if each.group == group}
        if known is None or not moved:
            return
        for uid in moved:
            del self.entry(before).strangers[uid]
        self.entry(after).strangers.update(moved)

    def all_changed(self) -> None:
        """Work out all facts anew."""
        self._stale = dict.fromkeys(self.entries)

    def queue_changed(self, name: str) -> None:
        """Work out anew the facts of the jobs of a queue that came or went."""
        for key, facts in self._facts.items():
            if facts.queue == name:
                self._stale[key] = None
        for key in self.problems:
            entry = self.entries.get(key)
            if entry is not None and entry.group is not None and self._queue_of(entry.group) == name:
                self._stale[key] = None

    def leave_out(self, key: str, reason: str) -> None:
        """Keep a job out of sessions until it changes, or until a pause is over that grows each time: others may be at fault."""
        entry = self.entries.get(key)
        if entry is None or entry.group is None:
            return  # it went meanwhile
        self._stale.pop(key, None)
        self._forget(key)
        self._count(entry, None)
        before = self._retries.get(key)
        pause = _FIRST_PAUSE if before is None else min(2 * before.pause, _LONGEST_PAUSE)
        self._retries[key] = _Retry(self._period + pause, pause)
        self.problems[key] = f"{reason}; it is tried again in {pause} schedule periods, and when something of it changes"

    def recheck(self) -> None:
        """A schedule period began: have those looked at again that were left out for long enough."""
        self._period += 1
        for key in self._timed:
            self._stale[key] = None
        self._timed.clear()
        for key, retry in list(self._retries.items()):
            if key not in self.entries or (key not in self.problems and self._period > retry.at + retry.pause):
                del self._retries[key]  # it has gone, or it did no harm since
            elif key in self.problems and self._period >= retry.at:
                self._stale[key] = None

    def try_left_out_again(self) -> None:
        """Have all of them looked at again, with the shortest pause before the next time."""
        self._stale.update(dict.fromkeys(key for key in self._retries if key in self.problems))
        self._retries.clear()

    def rest(self, facts: JobFacts) -> bool:
        """A session that saw `facts` has nothing more to do for the job, nor to say of it; False if anything came up since."""
        if self._facts.get(facts.key) is not facts or facts.key in self._stale or facts.key in self._woken:
            return False
        self._awake.pop(facts.key, None)
        return True

    def draw(self, key: str) -> None:
        """A session looked at a job that was at rest."""
        facts = self._facts.get(key)
        if facts is not None:
            self._awake[key] = facts

    def wake(self, keys: Iterable[str]) -> None:
        """Let the next session look at these jobs, also if one is looking at them now."""
        self._woken.update(dict.fromkeys(keys))

    # -- snapshot ----------------------------------------------------------------------------------------------------

    @property
    def stale(self) -> int:
        """How many jobs changed since their facts were worked out."""
        return len(self._stale)

    @property
    def woken(self) -> int:
        """How many jobs are to be looked at again and were not taken up."""
        return len(self._woken)

    def refresh(
        self, queues: Mapping[str, object], priority: Callable[[str], int], *, at_most: int | None = None
    ) -> Iterable[str]:
        """Work out the facts of jobs that changed, and say which. `queues`: those that exist; `priority`: of a class by name."""
        if not self._stale:
            return ()
        stale = _taken(self._stale, at_most)
        self._shared = None
        for key in stale:
            entry = self.entries.get(key)
            if entry is None:
                continue
            self._forget(key)
            facts: JobFacts | None = None
            try:
                facts = self._made(key, entry, queues, priority)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one job, it must not stop the others
                self.problems[key] = reason_of(error)
            self._count(entry, None if facts is None else facts.contribution)
            if facts is not None:
                self._facts[key] = facts
                if facts.group.warning:
                    self._warned[key] = Fault.of_group(facts.group, facts.group.warning, JobEventReason.QUEUE_NOT_TAKEN)
                if facts.sums.let_in:
                    self._let_in[key] = facts
                if self._is_ours(entry):
                    self._awake[key] = facts
            elif entry.group is None and entry.source is None and not entry.tasks and not entry.strangers:
                del self.entries[key]
        return stale

    def rouse(self, *, at_most: int | None = None) -> Iterable[str]:
        """Have the next session look at jobs that were woken, and say which."""
        woken = _taken(self._woken, at_most)
        for key in woken:
            facts = self._facts.get(key)
            if facts is not None and self._is_ours(self.entries[key]):
                self._awake[key] = facts
        return woken

    def left_out(self) -> dict[str, str]:
        """Why jobs that wait are in no snapshot, by key."""
        groups = {key: self.entries[key].current for key in self.problems if key in self.entries}
        waiting = {key for key, group in groups.items() if group is not None and group.status.phase in _WAITING_PHASES}
        return {key: reason for key, reason in self.problems.items() if key in waiting}

    def faults(self) -> frozenset[Fault]:
        """What is wrong with jobs in no snapshot that are not over, and what of others is passed over."""
        groups = ((self.entries[key].current, why) for key, why in self.problems.items() if key in self.entries)
        left_out = (
            Fault.of_group(group, f"{LEFT_OUT}{why}")
            for group, why in groups
            if group is not None and group.status.phase is not PodGroupPhase.COMPLETED
        )
        return frozenset([*left_out, *self._warned.values()])

    @property
    def awake(self) -> list[JobFacts]:
        """The jobs that a session has to look at."""
        return list(self._awake.values())

    @property
    def let_in(self) -> list[JobFacts]:
        """The jobs with pods that went through their queue's gate and have no place yet, also those that rest."""
        return list(self._let_in.values())

    def all_facts(self) -> Mapping[str, JobFacts]:
        """All jobs by key. Not to be changed; it stays as it is."""
        if self._shared is None:
            self._shared = self._facts.copy()
        return self._shared

    def queue_sums(self) -> dict[str, QueueSums]:
        """The sums of queues that have jobs."""
        return {name: totals.vectors(self._dimensions) for name, totals in self._totals.items()}

    def placed(self) -> dict[str, Amounts]:
        """What the jobs of each queue have, without what they have none of."""
        return {name: dict(totals.allocated) for name, totals in self._totals.items()}

    def facts(self, key: str) -> JobFacts | None:
        """The job of that key, as sessions see it."""
        return self._facts.get(key)

    def _is_ours(self, entry: Entry) -> bool:
        """Whether a job has a pod for us, or none at all so far; where we are alone, every job."""
        if not self._names or not (entry.tasks or entry.strangers):
            return True
        return any(task.pod.spec.scheduler_name in self._names for task in entry.tasks.values())

    def _queue_of(self, group: Group) -> str:
        return group.spec.queue or self._default_queue

    def _made(self, key: str, entry: Entry, queues: Mapping[str, object], priority: Callable[[str], int]) -> JobFacts | None:
        if entry.source is not None:
            entry.group, is_timed = entry.source.read(entry)
            if is_timed:
                self._timed.add(key)
        group = entry.current
        if group is None:
            return None
        queue = self._queue_of(group)
        if queue not in queues:
            raise ValueError(pending.missing_queue(queue))
        spec, tasks = group.spec, tuple(entry.tasks.values())
        rank = priority(spec.priority_class_name) if spec.priority is None else spec.priority
        facts = JobFacts(group, tasks, entry.sums, priority=rank, queue=queue, minded=self._minded, is_ours=self._is_ours(entry))
        entry.is_shared = True
        return facts

    def _forget(self, key: str) -> None:
        """Take a job out of what sessions see."""
        self.problems.pop(key, None)
        self._facts.pop(key, None)
        self._let_in.pop(key, None)
        self._warned.pop(key, None)
        self._awake.pop(key, None)
        self._shared = None

    def _count(self, entry: Entry, contribution: Contribution | None) -> None:
        """Let the sums of queues have `contribution` in the place of what they have of this job."""
        before = entry.counted
        if before == contribution:
            return
        entry.counted = contribution
        self._changes.used.update(each.queue for each in (before, contribution) if each is not None)
        if before is not None:
            totals = self._totals[before.queue]
            totals.add(before, -1)
            if not totals.jobs:
                del self._totals[before.queue]
        if contribution is not None:
            self._totals.setdefault(contribution.queue, QueueTotals()).add(contribution)


def _taken(keys: dict[str, None], at_most: int | None) -> list[str]:
    """Take out all of them, or so many of the last ones: whoever takes the first ones walks past all that were taken before."""
    if at_most is None or len(keys) <= at_most:
        taken = list(keys)
        keys.clear()
        return taken
    return [keys.popitem()[0] for _ in range(at_most)]

"""The table of jobs: PodGroups and their pods by watch events, with incremental sums, and the jobs that sessions must examine.

A session examines the active jobs. A job becomes inactive when a session found no decision and no status to change for it. After
any change of the job, or when it is retried, it is active again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from pyroclast.api import records
from pyroclast.api import waiting_reasons as pending
from pyroclast.api.enums import JobEventReason, PodGroupPhase
from pyroclast.lifecycle.gang.groups import Group, GroupStatus
from pyroclast.resources.backoff import Backoff
from pyroclast_scheduler.cache.changes import Changes, same_but_told
from pyroclast_scheduler.cache.job_entries import Entry, Source, Stranger
from pyroclast_scheduler.model.dimensions import Amounts, Dimensions
from pyroclast_scheduler.model.faults import LEFT_OUT, Fault, reason_of
from pyroclast_scheduler.model.job_facts import WAITING_PHASES, JobFacts
from pyroclast_scheduler.model.promises import Why
from pyroclast_scheduler.model.recovery import lost_members
from pyroclast_scheduler.model.resource_sums import Contribution, QueueSums, QueueTotals
from pyroclast_scheduler.model.shapes import PlacementLabels
from pyroclast_scheduler.model.tasks import TaskFacts, TaskStatus, group_of

_SHOWN: Final = frozenset({Why.HELD_UP, Why.LOST_PODS})  # gangs that are owed no amounts, but listed
_PAUSES = Backoff(4, 512)  # schedule periods until a left-out job is tried again
_PATIENCE_SECONDS: Final = 20.0  # the PodGroup may be created after its pods
_AGAIN_SECONDS: Final = 60.0  # until a condition that could not be written is planned again


class _Retry(NamedTuple):
    """When a left-out job is tried again: in schedule period `at`, after so many `failures` before the last one."""

    at: int
    failures: int


class JobTable:
    """The entries of all jobs, by key.

    Attributes:
        problems: why jobs are left out; a problem lasts until the job changes.
        active: the jobs that the next session must examine.
        let_in: the jobs with pending pods whose queue gate was removed, including unschedulable jobs.
        promised: the jobs for which room is kept, or would be if nothing held them up, including unschedulable jobs.

    Args:
        names: the names of this scheduler if other schedulers work on the same queues: their jobs are counted but not examined.
            Empty if this scheduler is alone.
        ours: the names of this scheduler in any case.
        roots: the key of the job to which the pods of a group belong, by key of the group, if the group is a part of a tree.
    """

    def __init__(
        self,
        dimensions: Dimensions,
        *,
        default_queue: str,
        names: Collection[str],
        ours: Collection[str],
        now: Callable[[], float],
        placement_labels: PlacementLabels,
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
        self._placement_labels = placement_labels
        self._changes = changes
        self._groupless: dict[str, float] = {}
        self._warned: dict[str, Fault] = {}
        self._facts: dict[str, JobFacts] = {}
        self.active: dict[str, JobFacts] = {}
        self.let_in: dict[str, JobFacts] = {}
        self.promised: dict[str, JobFacts] = {}
        self._tables: tuple[dict[str, Any], ...] = (
            self.problems,
            self._facts,
            self.let_in,
            self.promised,
            self._warned,
            self.active,
        )
        self._totals: dict[str, QueueTotals] = {}
        self._stale: dict[str, None] = {}
        self._to_retry: dict[str, None] = {}
        self._shared: dict[str, JobFacts] | None = None

    # -- events ------------------------------------------------------------------------------------------------------

    def entry(self, key: str) -> Entry:
        """Return the entry of that key, created if it does not exist. Its facts are calculated again."""
        self._stale[key] = None
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = Entry()
        return entry

    def show(self, key: str, group: Group | None, believed: GroupStatus | None) -> None:
        """Handle that a PodGroup changed or was deleted (None). A watch event that shows an assumed status is no change."""
        entry = self.entries.get(key) or self.entry(key)
        before = entry.current
        entry.group, entry.believed = group, believed
        now = entry.current
        if before is None or now is None or not same_but_told(before, now):
            self._stale[key] = None

    def describe(self, key: str, source: Source | None) -> None:
        """Handle that the source of a group was created, changed or deleted (None)."""
        entry = self.entry(key)
        if source is None or entry.source is None or entry.source.uid != source.uid:
            entry.group = entry.believed = None
        entry.source = source

    def believe(self, key: str, status: GroupStatus | None) -> None:
        """Assume `status` for a group while it is being written, or for ever if the object of the group has no status."""
        entry = self.entries.get(key)
        if entry is None or entry.believed == status or (status is None and entry.source is not None):
            return
        if entry.source is None:
            self.show(key, entry.group, status)
        else:
            entry.believed = status
            self._stale[key] = None

    def rewrite(self, key: str, source: Source, metadata: records.Meta, said: tuple[records.NativeCondition, ...]) -> None:
        """Handle that the version or the conditions of a group's object changed, which sessions do not see."""
        entry = self.entries.get(key) or self.entry(key)
        entry.source = source
        if entry.group is not None:
            version = msgspec.structs.replace(entry.group.metadata, resource_version=metadata.resource_version)
            entry.group = msgspec.structs.replace(entry.group, metadata=version, said=said)

    def add(self, task: TaskFacts) -> None:
        """Add a pod."""
        entry = self.entry(task.job)
        entry.tasks[task.uid] = task
        entry.joined = self._now()
        if task.arrival:
            entry.first = min(entry.first, (task.created, task.arrival))
        entry.own_sums().add(task)

    def remove(self, task: TaskFacts) -> None:
        """Remove a pod that was deleted or is about to be replaced."""
        entry = self.entries.get(task.job)
        if entry is not None and entry.tasks.pop(task.uid, None) is not None:
            self._stale[task.job] = None
            entry.depart(task)
            entry.own_sums().add(task, -1)

    def replace(self, before: TaskFacts, task: TaskFacts) -> None:
        """Replace a pod by its changed state, in the same position among the pods of its job."""
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
        """Record the pending pods of other schedulers, which decide whether a job belongs to this scheduler."""
        for pod, is_there in ((old, False), (new, True)):
            if pod is None or pod.spec.scheduler_name in self._ours or not (self._names or pod.spec.scheduling_group):
                continue
            group = group_of(pod)
            if not group:
                continue
            key = self._roots.get(group, group)
            uid, entry = pod.metadata.uid, self.entries.get(key)
            was_there, is_waiting = entry is not None and uid in entry.strangers, is_there and not pod.spec.node_name
            if is_waiting and not was_there:
                self.entry(key).strangers[uid] = Stranger(pod.spec.scheduler_name, group)
            elif was_there and not is_waiting:
                del self.entry(key).strangers[uid]

    def move_strangers(self, group: str, before: str, after: str) -> None:
        """Move the strangers that name `group` from the job `before` to the job `after`."""
        known = self.entries.get(before)
        moved = {} if known is None else {uid: each for uid, each in known.strangers.items() if each.group == group}
        if known is None or not moved:
            return
        for uid in moved:
            del self.entry(before).strangers[uid]
        self.entry(after).strangers.update(moved)

    def all_changed(self) -> None:
        """Calculate the facts of all jobs again."""
        self._stale = dict.fromkeys(self.entries)

    def queue_changed(self, name: str) -> None:
        """Calculate the facts of the jobs of a queue again, since the queue was created or deleted."""
        keys = [key for key, facts in self._facts.items() if facts.queue == name]
        groups = ((key, self.current(key)) for key in self.problems)
        keys += [key for key, group in groups if group is not None and self._queue_of(group) == name]
        self._stale.update(dict.fromkeys(keys))

    def leave_out(self, key: str, reason: str) -> None:
        """Leave a job out of sessions until it changes or a pause is over.

        The pause doubles each time, since another object may be the cause of the failure.
        """
        entry = self.entries.get(key)
        if entry is None or entry.group is None:
            return  # deleted in the meantime
        self._stale.pop(key, None)
        self._forget(key)
        self._count(entry, None)
        before = self._retries.get(key)
        failures = 0 if before is None else before.failures + 1
        pause = int(_PAUSES.after(failures))
        self._retries[key] = _Retry(self._period + pause, failures)
        self.problems[key] = f"{reason}; it is tried again in {pause} schedule periods, and when something of it changes"

    def recheck(self) -> None:
        """Handle that a schedule period began: try the left-out jobs again whose pause is over."""
        self._period += 1
        self._stale |= dict.fromkeys(self._timed)
        self._timed.clear()
        for key, retry in list(self._retries.items()):
            if key not in self.entries or (key not in self.problems and self._period > retry.at + _PAUSES.after(retry.failures)):
                del self._retries[key]  # deleted, or without failure since
            elif key in self.problems and self._period >= retry.at:
                self._stale[key] = None

    def try_left_out_again(self) -> None:
        """Try all left-out jobs again, and start with the shortest pause after the next failure."""
        self._stale.update(dict.fromkeys(key for key in self._retries if key in self.problems))
        self._retries.clear()

    def deactivate(self, facts: JobFacts) -> bool:
        """Exclude a job from sessions after one that examined `facts`, until the job changes or is retried.

        Return False if the job has changed since, or if one of its triggers has fired since.
        """
        if self._facts.get(facts.key) is not facts or facts.key in self._stale or facts.key in self._to_retry:
            return False
        self.active.pop(facts.key, None)
        return True

    def activate(self, key: str) -> None:
        """Make the next session examine a job."""
        facts = self._facts.get(key)
        if facts is not None:
            self.active[key] = facts

    def retry(self, keys: Iterable[str]) -> None:
        """Make the next session examine these jobs, even if a session examines them now."""
        self._to_retry.update(dict.fromkeys(keys))

    # -- snapshot ----------------------------------------------------------------------------------------------------

    @property
    def stale(self) -> int:
        """The number of jobs whose facts are to be calculated again."""
        return len(self._stale)

    @property
    def retries_left(self) -> int:
        """The number of jobs to be retried that `activate_retried` has not handled yet."""
        return len(self._to_retry)

    def refresh(
        self, queues: Mapping[str, object], priority: Callable[[str], int], *, at_most: int | None = None
    ) -> Iterable[str]:
        """Calculate the facts of changed jobs, at most `at_most`, and return their keys."""
        if not self._stale:
            return ()
        stale = _taken(self._stale, at_most)
        self._shared = None
        for key in stale:
            entry = self.entries.get(key)
            if entry is None:
                continue
            self._forget(key)
            try:
                facts = self._made(key, entry, queues, priority)
            except Exception as error:  # noqa: BLE001 - a fault of one job must not stop the others
                facts, self.problems[key] = None, reason_of(error)
            self._count(entry, None if facts is None else facts.contribution)
            if entry.group is None and entry.source is None and entry.tasks:
                self._groupless.setdefault(key, self._now() + _PATIENCE_SECONDS)
            else:
                self._groupless.pop(key, None)
            if facts is not None:
                self._facts[key] = facts
                if facts.group.warning:
                    self._warned[key] = Fault.of_group(facts.group, facts.group.warning, JobEventReason.QUEUE_NOT_TAKEN)
                if facts.sums.let_in:
                    self.let_in[key] = facts
                if facts.promise.whole or facts.promise.why in _SHOWN:
                    self.promised[key] = facts
                if self._is_ours(entry):
                    self.active[key] = facts
            elif entry.group is None and entry.source is None and not entry.tasks and not entry.strangers:
                del self.entries[key]
        return stale

    def activate_retried(self, *, at_most: int | None = None) -> Iterable[str]:
        """Make the next session examine the jobs to be retried, at most `at_most`, and return their keys."""
        keys = _taken(self._to_retry, at_most)
        for key in keys:
            facts = self._facts.get(key)
            if facts is not None and self._is_ours(self.entries[key]):
                self.active[key] = facts
        return keys

    def left_out(self) -> dict[str, str]:
        """Return why waiting jobs are left out of snapshots, by key."""
        groups = ((key, why, self.current(key)) for key, why in self.problems.items())
        return {key: why for key, why, group in groups if group is not None and group.status.phase in WAITING_PHASES}

    def groupless(self) -> Iterable[TaskFacts]:
        """Yield the pending pods that name a group which has not existed for some time, each once a minute."""
        now = self._now()
        for key in [key for key, due in self._groupless.items() if due <= now]:
            self._groupless[key] = now + _AGAIN_SECONDS
            yield from (task for task in self.entries[key].tasks.values() if task.status is TaskStatus.PENDING)

    def faults(self) -> frozenset[Fault]:
        """Return the faults of left-out jobs that are not completed, and the warnings about other jobs."""
        groups = ((why, self.current(key)) for key, why in self.problems.items())
        left_out = (
            Fault.of_group(group, f"{LEFT_OUT}{why}")
            for why, group in groups
            if group is not None and group.status.phase is not PodGroupPhase.COMPLETED
        )
        return frozenset([*left_out, *self._warned.values()])

    def all_facts(self) -> Mapping[str, JobFacts]:
        """Return all jobs by key, as a mapping that never changes."""
        if self._shared is None:
            self._shared = self._facts.copy()
        return self._shared

    def queue_sums(self) -> dict[str, QueueSums]:
        """Return the sums of each queue that has jobs."""
        return {name: totals.vectors(self._dimensions) for name, totals in self._totals.items()}

    def placed(self) -> dict[str, Amounts]:
        """Return the allocated amounts of each queue that has jobs, without zeros."""
        return {name: dict(totals.allocated) for name, totals in self._totals.items()}

    def current(self, key: str) -> Group | None:
        """Return the group of that key with the status that is being written."""
        entry = self.entries.get(key)
        return None if entry is None else entry.current

    def facts(self, key: str) -> JobFacts | None:
        """Return the facts of the job with that key, None if sessions see no such job."""
        return self._facts.get(key)

    def _is_ours(self, entry: Entry) -> bool:
        """Whether a job has a pod of this scheduler or no pods yet. True for every job if this scheduler is alone."""
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
        spec, labels, tasks = group.spec, self._placement_labels, tuple(entry.tasks.values())
        rank, is_ours = priority(spec.priority_class_name) if spec.priority is None else spec.priority, self._is_ours(entry)
        lost = lost_members(group, entry.sums.tally, tasks, entry.departed.values())
        if not lost:
            entry.departed.clear()
        facts = JobFacts(
            *(group, tasks, entry.sums),
            priority=rank,
            queue=queue,
            placement_labels=labels,
            is_ours=is_ours,
            arrived=entry.arrived(group),
            lost=lost,
        )
        entry.is_shared = True
        return facts

    def _forget(self, key: str) -> None:
        """Remove a job from everything that sessions see."""
        for table in self._tables:
            table.pop(key, None)
        self._shared = None

    def _count(self, entry: Entry, contribution: Contribution | None) -> None:
        """Replace the contribution of this job to the sums of its queue by `contribution`."""
        before = entry.counted
        if before == contribution:
            return
        entry.counted = contribution
        self._changes.used.update(each.queue for each in (before, contribution) if each is not None)
        if before is not None and before.inqueue_whole and (contribution is None or contribution.parts[3:] != before.parts[3:]):
            self._changes.is_any = True  # room is no longer kept, perhaps without any watch event
        if before is not None:
            totals = self._totals[before.queue]
            totals.add(before, -1)
            if not totals.jobs:
                del self._totals[before.queue]
        if contribution is not None:
            self._totals.setdefault(contribution.queue, QueueTotals()).add(contribution)


def _taken(keys: dict[str, None], at_most: int | None) -> list[str]:
    """Remove and return all keys, or the last `at_most` ones: removing the first ones would scan all earlier removals."""
    if at_most is None or len(keys) <= at_most:
        taken = list(keys)
        keys.clear()
        return taken
    return [keys.popitem()[0] for _ in range(at_most)]

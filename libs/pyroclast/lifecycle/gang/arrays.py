"""Array tasks: which of their indexes have completed, failed or been cancelled, and which of them need a pod next.

The pods of an array are independent of each other, and so are those of a task with `independentPods`, which is here an array of
its replicas. The status of the Job has the state of all indexes as ranges; the pods that exist add what it does not say yet. So
the work for an array grows with its pods and with the ranges, not with its indexes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import Final

import msgspec

from pyroclast.api import keys
from pyroclast.api.enums import AfterCondition, PodPhase
from pyroclast.api.records import Array, ArrayStatus, Job, JobSpec, Pod, Task
from pyroclast.resources import indexes
from pyroclast.resources.indexes import Ranges, Spans

_ABOVE_ALL: Final = 10**9
"""A number above every index, which has nine digits at most."""

_RETRIES_OF_INDEPENDENT_PODS: Final = 3
"""How often a failed pod with `independentPods` is made again when the Job sets no `maxRetry`."""


def array_of(spec: JobSpec, task: Task) -> Array | None:
    """Return the array of `task`; None when its pods depend on each other. Pods with `independentPods` stay after their end."""
    if task.array is not None or not task.independent_pods:
        return task.array
    retries = spec.max_retry or _RETRIES_OF_INDEPENDENT_PODS
    return Array(indexes=f"0-{task.replicas - 1}" if task.replicas > 0 else "", retries_per_index=retries, keep_pods=True)


def sized(task: Task) -> Task:
    """Return an array task with its number of indexes as `replicas`, and with the default of `minAvailable`, which is 1."""
    if task.array is None:
        return task
    total = indexes.number(indexes.lenient(task.array.indexes))
    least = min(1, total) if task.min_available is None else task.min_available
    return msgspec.structs.replace(task, replicas=total, min_available=least)


def limit_of(task: Task) -> int:
    """Return the number above the highest index of the pods of `task`."""
    ranges = indexes.lenient(task.array.indexes) if task.array is not None else ()
    return task.replicas if task.array is None else ranges[-1][-1] + 1 if ranges else 0


def has_index(task: Task, index: int) -> bool:
    """Whether the spec of `task` has a pod with `index`."""
    if task.array is not None:
        return indexes.contains(indexes.lenient(task.array.indexes), index)
    return 0 <= index < task.replicas


def waiting_indexes(job: Job) -> Spans:
    """Return the indexes of `job` that wait for the same index of another Job, as the status of `job` has noted it."""
    closed: Spans = ()
    for entry, state in zip_longest(job.spec.after, job.status.after[: len(job.spec.after)]):
        if entry.index is not None and (state is None or not state.met):
            reached = indexes.read(state.jobs[0].indexes) if state is not None and state.jobs else ()
            closed = indexes.union(closed, indexes.without(((0, _ABOVE_ALL),), reached))
    return closed


def reached(statuses: Iterable[ArrayStatus], condition: AfterCondition) -> str:
    """Return the indexes of arrays that have reached `condition`, as ranges."""
    found: Spans = ()
    for each in statuses:
        progress = read(Array(), each)
        by_condition = {
            AfterCondition.SUCCEEDED: progress.completed,
            AfterCondition.FAILED: progress.failed,
            AfterCondition.ENDED: progress.ended,
            AfterCondition.STARTED: indexes.union(progress.ended, progress.running),
        }
        found = indexes.union(found, by_condition[condition])
    return indexes.written(found)


def failures_before(job: Job, task: Task, index: int) -> int:
    """Return how often pods of `index` have failed, as the status of `job` says."""
    return job.status.arrays.get(task.name, ArrayStatus()).failures.get(str(index), 0)


def at_once(task: Task) -> Task:
    """Return an array task with as many replicas as pods of it may exist at the same time."""
    whole = sized(task)
    most = None if task.array is None else task.array.max_parallel
    return whole if most is None else msgspec.structs.replace(whole, replicas=min(most, whole.replicas))


def tries_of(pod: Pod) -> int:
    """Return how often earlier pods of the same index had failed at the creation of `pod`."""
    text = pod.metadata.annotations.get(keys.FAILURES_BEFORE, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(2**31)) else 0


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of the indexes of a task. No index of the task is in two of the spans `completed`, `failed` and `cancelled`."""

    array: Array
    ranges: Ranges = ()
    completed: Spans = ()
    failed: Spans = ()
    cancelled: Spans = ()
    running: Spans = ()
    failures: Mapping[int, int] = field(default_factory=dict)
    """How often the pods of unfinished indexes failed."""
    recorded: Spans = ()
    """The indexes that the status of the Job names as ended."""
    recorded_failures: Mapping[int, int] = field(default_factory=dict)
    new_failures: int = 0
    """How many failures of pods the status of the Job does not count yet."""
    waiting: Spans = ()
    """The indexes that wait for the same index of another Job."""

    @property
    def ended(self) -> Spans:
        """The indexes that need no pod any more."""
        return indexes.union(indexes.union(self.completed, self.failed), self.cancelled)

    def count(self, spans: Spans) -> int:
        """Return the number of indexes of the task in `spans`."""
        return indexes.within(self.ranges, spans)

    @property
    def total(self) -> int:
        """The number of indexes that are not cancelled."""
        return indexes.number(self.ranges) - self.count(self.cancelled)

    @property
    def left(self) -> int:
        """The number of indexes that have not ended."""
        return indexes.number(self.ranges) - self.count(self.ended)

    def missing(self, there: Iterable[int], living: int) -> Iterator[int]:
        """Yield the indexes to which a pod is to be made now.

        `there`: the ascending indexes with a pod. `living`: how many of these pods have not ended.
        """
        most = self.array.max_parallel
        closed = indexes.union(self.ended, self.waiting)
        free = indexes.outside(self.ranges, indexes.union(closed, indexes.spans_of(there)))
        return free if most is None else islice(free, max(0, most - living))

    def written(self) -> ArrayStatus:
        """Return the state as the status has it. The spans of completed indexes go across failed and cancelled ones."""
        ended = indexes.joined(self.ranges, self.ended)
        rest = indexes.joined(self.ranges, self.completed)
        hulls, position = [], 0
        for first, stop in ended:
            begin = position
            while position < len(rest) and rest[position][1] <= stop:
                position += 1
            if begin < position:
                hulls.append((max(first, rest[begin][0]), rest[position - 1][1]))
        return ArrayStatus(
            completed=indexes.written(tuple(hulls)),
            failed=indexes.written(indexes.joined(self.ranges, self.failed)),
            running=indexes.written(indexes.joined(self.ranges, self.running)),
            cancelled=indexes.written(indexes.joined(self.ranges, self.cancelled)),
            failures={str(index): number for index, number in sorted(self.failures.items())},
        )


def read(array: Array, last: ArrayStatus) -> Progress:
    """Return the state that `last`, the status of the task, names."""
    ranges = indexes.lenient(array.indexes)
    failed, cancelled = indexes.read(last.failed), indexes.read(last.cancelled)
    completed = indexes.without(indexes.read(last.completed), indexes.union(failed, cancelled))
    failures = {int(index): number for index, number in last.failures.items() if index.isascii() and index.isdecimal()}
    recorded = indexes.union(indexes.union(completed, failed), cancelled)
    running = indexes.read(last.running)
    return Progress(array, ranges, completed, failed, cancelled, running, failures, recorded, failures)


def observed(array: Array, last: ArrayStatus, pods: Iterable[tuple[int, Pod, bool]], successes: Iterable[int] = ()) -> Progress:
    """Return the state of an array: what `last` says, with what `pods` show besides.

    `pods`: the indexes, in ascending order, with their pods, each with whether its end counts. `successes`: the indexes whose pod
    succeeded and was deleted since.
    """
    before = read(array, last)
    succeeded, failed, running = set(successes), [], []
    failures = dict(before.failures)
    for index, pod, counts in pods:
        phase, is_going = pod.status.phase, pod.metadata.is_terminating
        if phase is PodPhase.RUNNING and not is_going:
            running.append(index)
        if not counts or is_going or indexes.has(before.recorded, index):
            continue
        if phase is PodPhase.SUCCEEDED:
            succeeded.add(index)
        elif phase is PodPhase.FAILED:
            number = tries_of(pod) + 1
            failures[index] = max(failures.get(index, 0), number)
            if number > array.retries_per_index and number == failures[index]:
                failed.append(index)
    completed = indexes.union(before.completed, indexes.without(indexes.spans_of(sorted(succeeded)), before.recorded))
    all_failed = indexes.union(before.failed, indexes.without(indexes.spans_of(failed), completed))
    asked = indexes.without(indexes.read(array.cancelled), indexes.union(completed, all_failed))
    now = dataclasses.replace(
        before,
        completed=completed,
        failed=all_failed,
        cancelled=indexes.union(before.cancelled, indexes.joined(before.ranges, asked)),
        running=indexes.spans_of(running),
        new_failures=sum(number - before.failures.get(index, 0) for index, number in failures.items()),
    )
    ended = now.ended
    left = {index: number for index, number in failures.items() if not indexes.has(ended, index)}
    return dataclasses.replace(now, failures=left)

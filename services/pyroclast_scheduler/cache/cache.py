"""The cache: the cluster as the watches tell it, with our own binds assumed until a watch confirms them.

Belongs to one thread; a session gets a snapshot. An object that makes no sense is left out, with the reason in `problems`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from pyroclast.api import records
from pyroclast.api.enums import PodGroupPhase
from pyroclast_scheduler.cache.nodes import NodeTable
from pyroclast_scheduler.cache.snapshot import Snapshot
from pyroclast_scheduler.model.dimensions import Dimensions
from pyroclast_scheduler.model.jobs import JobFacts, QueueFacts
from pyroclast_scheduler.model.shapes import ShapeBook
from pyroclast_scheduler.model.statuses import ALLOCATED, TaskStatus
from pyroclast_scheduler.model.tasks import TaskFacts, task_of
from pyroclast_scheduler.placement.features import NodeFeatures

__all__ = ["Cache"]

_LEFT_OUT = "left out: "
_WAITING_PHASES = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE, PodGroupPhase.UNKNOWN})
_GONE = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED})
_COUNTED_APART = _GONE | {TaskStatus.RELEASING}


@dataclass(slots=True)
class _Job:
    """A job in the making: it may have pods before it has a PodGroup. `believed` is a status that is being written."""

    group: records.PodGroup | None = None
    believed: records.PodGroupStatus | None = None
    tasks: dict[str, TaskFacts] = field(default_factory=dict)
    facts: JobFacts | None = None


class Cache:
    """Keeps the picture."""

    def __init__(self, scheduler_names: Collection[str] = ("volcano",), *, default_queue: str = "default") -> None:
        self.dimensions = Dimensions()
        self.nodes = NodeTable(self.dimensions)
        self.problems: dict[str, str] = {}
        self.tasks: dict[str, TaskFacts] = {}
        self.queues: dict[str, QueueFacts] = {}
        self.priorities: dict[str, records.PriorityClass] = {}
        self._jobs: dict[str, _Job] = {}
        self._assumed: set[str] = set()
        self._shapes = ShapeBook()
        self._features = NodeFeatures()
        self._names = frozenset(scheduler_names)
        self._default_queue = default_queue
        self._on_change: Callable[[], None] = lambda: None

    def on_change(self, wake: Callable[[], None]) -> None:
        """Call `wake` after each change that may alter what a session decides."""
        self._on_change = wake

    # -- events ------------------------------------------------------------------------------------------------------

    def pod_changed(self, old: records.Pod | None, new: records.Pod | None) -> None:
        """A pod came (`old` None), changed, or went (`new` None)."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._drop(old.metadata.uid)
            self._assumed.discard(old.metadata.uid)
            self.problems.pop(f"pod {old.key}", None)
            self._on_change()
        if new is not None and (new.spec.scheduler_name in self._names or new.spec.node_name) and self._set_pod(new):
            self._on_change()

    def node_changed(self, old: records.Node | None, new: records.Node | None) -> None:
        """A node came, changed, or went."""
        if new is None:
            if old is not None:
                self.nodes.remove_node(old.metadata.name)
                self.problems.pop(f"node {old.metadata.name}", None)
        else:
            name = new.metadata.name
            try:
                changed = self.nodes.set_node(new)
                self.problems.pop(f"node {name}", None)
            except ValueError as error:
                self.nodes.remove_node(name)
                self.problems[f"node {name}"] = f"{_LEFT_OUT}{error}"
                changed = True
            if not changed:
                return
        self._on_change()

    def group_changed(self, old: records.PodGroup | None, new: records.PodGroup | None) -> None:
        """A PodGroup came, changed, or went."""
        group = new or old
        if group is None:
            return
        key = str(group.key)
        entry = self._jobs.get(key)
        if new is None:
            if entry is not None:
                entry.group = entry.believed = entry.facts = None
                self._forget_if_empty(key, entry)
            self.problems.pop(f"podgroup {key}", None)
        else:
            if entry is None:
                entry = self._jobs[key] = _Job()
            elif entry.group is not None and _is_older(new, entry.group):
                return
            same = entry.group is not None and entry.group.metadata.uid == new.metadata.uid
            if not same:
                entry.believed = None
            quiet = entry.group is not None and same and _same_but_status(entry.group, new)
            entry.group = new
            entry.facts = None
            if quiet:
                return
        self._on_change()

    def queue_changed(self, old: records.Queue | None, new: records.Queue | None) -> None:
        """A queue came, changed, or went."""
        if old is not None and (new is None or new.metadata.name != old.metadata.name):
            self.queues.pop(old.metadata.name, None)
            self.problems.pop(f"queue {old.metadata.name}", None)
        if new is not None:
            name = new.metadata.name
            try:
                queue = QueueFacts(new)
                for amounts in (queue.capability, queue.guarantee, queue.deserved):
                    self.dimensions.vector(amounts or {})
                self.queues[name] = queue
                self.problems.pop(f"queue {name}", None)
            except ValueError as error:
                self.queues.pop(name, None)
                self.problems[f"queue {name}"] = f"{_LEFT_OUT}{error}"
            if old is not None and old.spec == new.spec and old.status.state == new.status.state:
                return
        self._on_change()

    def priority_changed(self, old: records.PriorityClass | None, new: records.PriorityClass | None) -> None:
        """A PriorityClass came, changed, or went."""
        if old is not None:
            self.priorities.pop(old.metadata.name, None)
        if new is not None:
            self.priorities[new.metadata.name] = new
        for entry in self._jobs.values():
            entry.facts = None
        self._on_change()

    # -- our own doings ----------------------------------------------------------------------------------------------

    def assume(self, uid: str, node: str) -> str | None:
        """Take pod `uid` as bound to `node` until a watch says so; the reason why not if that cannot be."""
        task = self.tasks.get(uid)
        if task is None:
            return "the pod is gone"
        if task.status is not TaskStatus.PENDING:
            return f"the pod is {task.status.label}"
        if not self.nodes.is_known(node):
            return f"node {node} is gone"
        short = self.nodes.short_of(task.shape, node)
        if short:
            return f"node {node} resources {short} are not enough"
        self._replace(task, task.moved(TaskStatus.BINDING, node))
        self._assumed.add(uid)
        return None

    def assume_all(self, binds: Sequence[tuple[str, str]]) -> str | None:
        """Assume all of the (pod UID, node) pairs, or none and say why."""
        for done, (uid, node) in enumerate(binds):
            problem = self.assume(uid, node)
            if problem is not None:
                for earlier, _ in binds[:done]:
                    self.forget(earlier)
                return problem
        return None

    def forget(self, uid: str) -> None:
        """Take back what was assumed of pod `uid`; it is as the API server says again."""
        if uid not in self._assumed:
            return
        self._assumed.discard(uid)
        task = self.tasks.get(uid)
        if task is not None and task.status is TaskStatus.BINDING:
            self._replace(task, task.moved(TaskStatus.PENDING, ""))
            self._on_change()

    def releasing(self, uid: str) -> None:
        """Take pod `uid` as on its way out, because we asked for it."""
        task = self.tasks.get(uid)
        if task is not None and task.status in ALLOCATED:
            self._replace(task, task.moved(TaskStatus.RELEASING, task.node))

    def restore(self, uid: str) -> None:
        """Take back that pod `uid` is on its way out; it is as the API server says again."""
        task = self.tasks.get(uid)
        if task is not None and task.status is TaskStatus.RELEASING:
            self._set_pod(task.pod)
            self._on_change()

    def believe(self, job: str, status: records.PodGroupStatus | None) -> None:
        """Take `status` as that of PodGroup `job` while it is being written; None: as the API server says again."""
        entry = self._jobs.get(job)
        if entry is not None:
            entry.believed = status
            entry.facts = None

    def group(self, job: str) -> records.PodGroup | None:
        """The PodGroup of that key, with the status that is being written."""
        entry = self._jobs.get(job)
        if entry is None or entry.group is None:
            return None
        return entry.group if entry.believed is None else _with_status(entry.group, entry.believed)

    def written(self, job: str) -> records.PodGroup | None:
        """The PodGroup of that key as the API server last showed it."""
        entry = self._jobs.get(job)
        return None if entry is None else entry.group

    def is_believed(self, job: str) -> bool:
        """Whether the status of PodGroup `job` is one that is being written."""
        entry = self._jobs.get(job)
        return entry is not None and entry.believed is not None

    def left_out(self) -> dict[str, str]:
        """Why PodGroups that wait are in no snapshot, by key."""
        found: dict[str, str] = {}
        for problem, reason in self.problems.items():
            kind, _, key = problem.partition(" ")
            group = self.group(key) if kind == "podgroup" else None
            if group is not None and group.status.phase in _WAITING_PHASES:
                found[key] = reason.removeprefix(_LEFT_OUT)
        return found

    def tasks_of(self, job: str) -> list[TaskFacts]:
        """The tasks of PodGroup `job`."""
        entry = self._jobs.get(job)
        return [] if entry is None else list(entry.tasks.values())

    # -- snapshot ----------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """A copy for one session. Its cost grows with the nodes (array copies) and the jobs that changed since the last."""
        jobs = [facts for key, entry in self._jobs.items() if (facts := self._facts(key, entry)) is not None]
        is_coupled = self._shapes.is_any_coupled
        table = self.nodes
        count = len(table.names)
        columns = table.columns.resized(len(self.dimensions), table.columns.nodes)
        for name in ("allocatable", "used", "releasing", "pipelined", "non_zero"):
            setattr(columns, name, getattr(columns, name)[:, :count])
        columns.pod_count = columns.pod_count[:count]
        return Snapshot(
            dimensions=self.dimensions.frozen(),
            names=tuple(table.names),
            rows=table.rows.copy(),
            nodes=tuple(table.records),
            is_ready=np.fromiter((node is not None for node in table.records), dtype=np.bool_, count=count),
            stamps=table.stamps[:count].copy(),
            columns=columns,
            ports={row: Counter(ports) for row, ports in table.ports.items() if ports},
            jobs=jobs,
            queues=self.queues.copy(),
            features=self._features,
            placed=self._placed() if is_coupled else {},
            is_coupled=is_coupled,
        )

    def _placed(self) -> dict[str, TaskFacts]:
        return {uid: task for uid, task in self.tasks.items() if task.node and task.status not in _GONE}

    # -- inside ------------------------------------------------------------------------------------------------------

    def _set_pod(self, pod: records.Pod) -> bool:
        """Take up a pod; whether anything changed that a session looks at."""
        uid = pod.metadata.uid
        before = self.tasks.get(uid)
        try:
            task = task_of(pod, self._shapes)
        except ValueError as error:
            self._drop(uid)
            self.problems[f"pod {pod.key}"] = f"{_LEFT_OUT}{error}"
            return True
        self.problems.pop(f"pod {pod.key}", None)
        if uid in self._assumed:
            if task.status is TaskStatus.PENDING and before is not None and before.status is TaskStatus.BINDING:
                task = task.moved(TaskStatus.BINDING, before.node)  # the watch has not seen our bind yet
            else:
                self._assumed.discard(uid)
        self._replace(before, task)
        return before is None or not _alike(before, task)

    def _replace(self, before: TaskFacts | None, task: TaskFacts) -> None:
        if before is None or not _count_alike(before, task):
            if before is not None:
                self._take(before)
            self.dimensions.vector(task.shape.request)
            if task.node and task.status not in _GONE:
                self.nodes.add(task)
        if before is not None and before.job != task.job:
            self._leave(before)
        self.tasks[task.uid] = task
        if task.job:
            entry = self._jobs.setdefault(task.job, _Job())
            entry.tasks[task.uid] = task
            entry.facts = None

    def _take(self, task: TaskFacts) -> None:
        if task.node and task.status not in _GONE:
            self.nodes.remove(task)

    def _drop(self, uid: str) -> None:
        task = self.tasks.pop(uid, None)
        if task is None:
            return
        self._take(task)
        self._leave(task)

    def _leave(self, task: TaskFacts) -> None:
        entry = self._jobs.get(task.job)
        if entry is not None:
            entry.tasks.pop(task.uid, None)
            entry.facts = None
            self._forget_if_empty(task.job, entry)

    def _forget_if_empty(self, key: str, entry: _Job) -> None:
        if entry.group is None and not entry.tasks:
            del self._jobs[key]

    def _facts(self, key: str, entry: _Job) -> JobFacts | None:
        group = self.group(key)
        if group is None:
            return None
        queue = group.spec.queue or self._default_queue
        problem = f"podgroup {key}"
        if queue not in self.queues:
            self.problems[problem] = f"{_LEFT_OUT}queue {queue} does not exist"
            return None
        if entry.facts is None:
            try:
                entry.facts = JobFacts(group, entry.tasks, priority=self._priority(group.spec.priority_class_name), queue=queue)
                self.dimensions.vector(entry.facts.min_resources or {})
            except ValueError as error:
                self.problems[problem] = f"{_LEFT_OUT}{error}"
                return None
        self.problems.pop(problem, None)
        return entry.facts

    def _priority(self, name: str) -> int:
        named = self.priorities.get(name)
        if named is not None:
            return named.value
        return next((each.value for each in self.priorities.values() if each.global_default), 0)


def _count_alike(old: TaskFacts, new: TaskFacts) -> bool:
    """Whether both take the same from the same node."""
    if old.node != new.node or old.shape is not new.shape:
        return False
    return old.status is new.status or not (new.node and {old.status, new.status} & _COUNTED_APART)


def _alike(old: TaskFacts, new: TaskFacts) -> bool:
    """Whether nothing changed that a session looks at: what nodes report of running pods must not start one."""
    return old.shape is new.shape and _looked_at(old) == _looked_at(new)


def _looked_at(task: TaskFacts) -> tuple[object, ...]:
    return (
        task.status,
        task.node,
        task.gates,
        task.priority,
        task.job,
        task.role,
        task.is_preemptable,
        task.has_started,
        task.pod.metadata.labels,
        task.pod.status.nominated_node_name,
    )


def _with_status(group: records.PodGroup, status: records.PodGroupStatus) -> records.PodGroup:
    return records.PodGroup(metadata=group.metadata, spec=group.spec, status=status)


def _same_but_status(old: records.PodGroup, new: records.PodGroup) -> bool:
    a, b = old.metadata, new.metadata
    return (
        old.spec == new.spec and a.annotations == b.annotations and a.labels == b.labels and old.status.phase == new.status.phase
    )


def _is_older(new: records.PodGroup, known: records.PodGroup) -> bool:
    """Whether `new` is an earlier version of `known`, as a late watch event after the answer to our own write is."""
    if new.metadata.uid != known.metadata.uid:
        return False
    versions = (new.metadata.resource_version, known.metadata.resource_version)
    return all(version.isdecimal() for version in versions) and int(versions[0]) < int(versions[1])

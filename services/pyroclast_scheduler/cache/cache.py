"""The cache: the state of the cluster by the watches, with decisions assumed until the watches show them.

Only one thread may use the cache, and sessions work on snapshots. Invalid objects are left out, with the reason in `problems`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from pyroclast.api import records
from pyroclast.api.keys import POD_GROUP
from pyroclast.api.records.meta import Record
from pyroclast.api.types import NODES, PODS, QUEUES, Key
from pyroclast.lifecycle.gang.groups import pod_group, volcano_group
from pyroclast_scheduler.cache.assumptions import Assumptions, Holds
from pyroclast_scheduler.cache.changes import Changes, alike, same_queue
from pyroclast_scheduler.cache.groups import Groups
from pyroclast_scheduler.cache.jobs import JobTable
from pyroclast_scheduler.cache.native_groups import NativeGroups
from pyroclast_scheduler.cache.nodes import NodeTable
from pyroclast_scheduler.cache.objects import ObjectTable
from pyroclast_scheduler.cache.pod_decisions import PodDecisions
from pyroclast_scheduler.cache.retries import Retries
from pyroclast_scheduler.cache.seats import SeatTasks
from pyroclast_scheduler.cache.tasks import TaskPort, TaskTable
from pyroclast_scheduler.model.dimensions import Amounts, Dimensions, counted_of
from pyroclast_scheduler.model.faults import LEFT_OUT, Fault, Faults, reason_of, uncounted
from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.model.queues import QueueFacts, limited_by
from pyroclast_scheduler.model.reservations import KeptPlace, Reservation
from pyroclast_scheduler.model.shapes import ShapeBook
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.model.tasks import TaskStatus, group_of, task_of

_PART = 250  # jobs whose facts are calculated, or that are woken, in one step of 2 ms


class Cache:
    """The state of the cluster, updated by events and read by snapshots.

    Attributes:
        pods: applies the scheduler's decisions about pods.
        natives: the PodGroups of the Kubernetes API.
        seats: the tasks of pods that do not exist yet.
        settings: the first three arguments.
        undecodable_nodes: the nodes that the watch cannot read as a whole, with the reasons.

    Args:
        default_queue: the queue of groups that name none.
        is_shared: whether other schedulers use the same queues; PodGroups whose pods name those schedulers belong to them.
        places_seats: whether gangs may be placed before their pods exist.
    """

    def __init__(
        self,
        scheduler_names: Collection[str] = ("volcano",),
        *,
        default_queue: str = "default",
        is_shared: bool = False,
        places_seats: bool = False,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.dimensions = Dimensions()
        self._changes = Changes()
        self.queues: dict[str, QueueFacts] = {}
        self.nodes = NodeTable(self.dimensions, self._changes, self._counted)
        self.priorities: dict[str, records.PriorityClass] = {}
        self.assumptions = Assumptions()
        self._faults = Faults()
        self.undecodable_nodes: Mapping[Key, str] = {}
        self.settings = tuple(scheduler_names), default_queue, is_shared
        self._names = frozenset(scheduler_names)
        self._shapes = ShapeBook()
        roots: dict[str, str] = {}
        self.jobs = JobTable(
            self.dimensions,
            default_queue=default_queue,
            names=self._names if is_shared else (),
            ours=self._names,
            now=now,
            placement_labels=self._shapes.placement_labels,
            changes=self._changes,
            roots=roots,
        )
        self._tasks = TaskTable(self.nodes, self.jobs, self._changes)
        self.tasks = self._tasks.by_uid
        self.objects = ObjectTable(self._faults)
        self.retries = Retries(self.jobs, self.nodes, self._changes, self.objects)
        self.holds = Holds()
        self._features, self._snapshots = NodeFeatures(), 0
        self._kept: Mapping[str, KeptPlace] = {}
        self._wake: Callable[[], None] = lambda: None
        port = TaskPort(self.tasks, self.assumptions, self._set_pod, self._tasks.drop, self._changed, self.stale, now)
        self.seats = SeatTasks(self.jobs, port, is_enabled=places_seats)
        self.groups = Groups(self.jobs, self.holds, self.seats, self._changes, self._changed)
        self.natives = NativeGroups(self.jobs, self._names, roots, now=now, described=self.groups.described, retake=self._set_pod)
        self.pods = PodDecisions(
            port,
            self._tasks,
            self.nodes,
            jobs=self.jobs,
            groups=self.groups,
            holds=self.holds,
            gone=lambda pod: self.pod_changed(pod, None),
        )

    def on_change(self, wake: Callable[[], None]) -> None:
        """Call `wake` after each change that may alter the decisions of a session."""
        self._wake = wake

    @property
    def problems(self) -> dict[str, str]:
        """The reasons for which invalid objects are left out of sessions, by kind and key of the object."""
        return self._faults.reasons() | {f"podgroup {key}": f"{LEFT_OUT}{why}" for key, why in self.jobs.problems.items()}

    def faults(self) -> frozenset[Fault]:
        """Return the faults of all objects, except of PodGroups that are completed."""
        return self._faults.all() | self.jobs.faults()

    # -- events ------------------------------------------------------------------------------------------------------

    def pod_changed(self, old: records.Pod | None, new: records.Pod | None) -> None:
        """Handle that a pod was created (`old` None), changed, or deleted (`new` None)."""
        if new is not None:
            self.seats.pod(new, is_there=True)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            uid = old.metadata.uid
            self.assumptions.end(uid)
            self.holds.drop(uid)
            self._tasks.drop(uid)
            self._faults.clear(PODS, old)
            if new is None:
                self.seats.pod(old, is_there=False)
            self._changed()
        is_ours = new is not None and (new.spec.scheduler_name in self._names or bool(new.spec.node_name))
        self._read_group(old, new if is_ours else None)
        self.jobs.count_strangers(old, new)
        if new is not None and is_ours and self._set_pod(new):
            self._changed()

    def node_changed(self, old: records.Node | None, new: records.Node | None) -> None:
        """Handle that a node was created, changed or deleted."""
        if new is not None:
            try:
                changed = self.nodes.set_node(new)
                self._faults.set(NODES, new, "; ".join(self.nodes.faults(new)))
                if not changed:
                    return
            except Exception as error:  # noqa: BLE001 - a fault of one node must not stop the others
                self._lose_node(new.metadata.name)
                self._faults.leave_out(NODES, new, reason_of(error))
        elif old is not None:
            self._lose_node(old.metadata.name)
            self._faults.clear(NODES, old)
        self._changes.are_victims = True
        self._changed()

    def group_changed(self, old: records.PodGroup | None, new: records.PodGroup | None) -> None:
        """Handle that a PodGroup was created, changed or deleted."""
        self.groups.changed(*(None if record is None else volcano_group(record) for record in (old, new)))
        if old is not None and new is None:
            for task in self.groups.tasks_of(str(old.key)):
                self._read_group(None, task.pod)

    def queue_changed(self, old: records.Queue | None, new: records.Queue | None) -> None:
        """Handle that a queue was created, changed or deleted."""
        known = set(self.queues)
        if old is not None and (new is None or new.metadata.name != old.metadata.name):
            self.queues.pop(old.metadata.name, None)
            self._faults.clear(QUEUES, old)
        if new is not None:
            name = new.metadata.name
            try:
                queue = self.queues[name] = QueueFacts(new)
                self.nodes.learn(queue.resources)
                self._faults.set(QUEUES, new, "; ".join([*queue.faults, *uncounted(self.dimensions, queue.resources)]))
            except Exception as error:  # noqa: BLE001 - a fault of one queue must not stop the others
                self.queues.pop(name, None)
                self._faults.leave_out(QUEUES, new, reason_of(error))
        for name in known ^ self.queues.keys():
            self.jobs.queue_changed(name)
        if new is not None and old is not None and same_queue(old, new):
            return
        for each in (old, new):
            if each is not None:
                self._changes.queue(each.metadata.name)
        self._changed()

    def queue_turned(self, name: str) -> None:
        """Handle that a budget period of a queue began, or that its last report of a budget became too old to be used."""
        self._changes.queue(name)
        self._changed()

    def queue_freed_elsewhere(self, name: str) -> None:
        """Handle that another member of a ring of schedulers has less allocated in a queue.

        Waiting jobs may then fit the capability of the queue. An empty name stands for an unknown queue, which may be any.
        """
        for limited in limited_by(name, self.queues):
            self._changes.queue(limited)

    def priority_changed(self, old: records.PriorityClass | None, new: records.PriorityClass | None) -> None:
        """Handle that a PriorityClass was created, changed or deleted."""
        if old is not None:
            self.priorities.pop(old.metadata.name, None)
        if new is not None:
            self.priorities[new.metadata.name] = new
        self.jobs.all_changed()
        self._changes.are_victims = True
        self._changed()

    def object_changed(self, old: Record | None, new: Record | None) -> None:
        """Handle that an object of a kind that a plugin watches was created, changed or deleted."""
        if self.objects.changed(old, new):
            self._object(old, new)

    def object_released(self, record: type[Record], key: str, patch: Mapping[str, Any]) -> None:
        """Handle that a write was confirmed or given up. Sessions see the object again as the API server shows it."""
        before, now = self.objects.release(record, key, patch)
        if before != now:
            self._object(before, now)

    def node_object_changed(self, old: Record | None, new: Record | None) -> None:
        """Do the same as `object_changed` for a kind whose objects only concern the node of the same name."""
        record = new or old
        if record is not None and self.objects.changed(old, new):
            self.nodes.may_be_roomier(record.metadata.name)
            self._changed()

    # -- sessions ----------------------------------------------------------------------------------------------------

    def placed(self) -> dict[str, Amounts]:
        """Return the allocated amounts of each queue that has jobs."""
        self._refresh()
        return self.jobs.placed()

    def leave_out(self, kind: str, key: str, reason: str) -> None:
        """Leave an object on which sessions fail out of all snapshots until it changes. `kind`: podgroup, queue or node."""
        if kind == "podgroup":
            self.retries.discard([key])
            self.jobs.leave_out(key, reason)
        elif kind == "queue":
            queue = self.queues.pop(key, None)
            if queue is not None:
                self._faults.leave_out(QUEUES, queue.record, reason)
                self.jobs.queue_changed(key)
        else:
            row = self.nodes.rows.get(key)
            node = None if row is None else self.nodes.records[row]
            if node is not None:
                self._lose_node(key)
                self._faults.leave_out(NODES, node, reason)
        self.stale()

    def leave_out_object(self, record: type[Record], key: str, reason: str) -> None:
        """Leave an object of a kind that a plugin watches out of all snapshots until it changes."""
        self.objects.leave_out(record, key, reason)
        self.stale()

    def recheck(self) -> None:
        """Handle that a schedule period began: retry the jobs that time may help, and some other jobs, oldest first."""
        self.jobs.recheck()
        self.retries.recheck()

    def try_left_out_again(self) -> None:
        """Try all left-out jobs again, since the configuration or a plugin changed."""
        self.jobs.try_left_out_again()
        self.retries.retry_all()
        self._changed()

    def reserve(self, before: Mapping[str, Reservation], after: Mapping[str, Reservation]) -> None:
        """Handle that reservations changed: retry their jobs, and the jobs that may use the nodes that were unlocked.

        A node of a reservation is open to pods that end before a given time, so a later time opens the node to more jobs.
        """
        self.jobs.retry(before.keys() ^ after.keys())
        for key, was in before.items():
            now = after.get(key)
            is_later = now is not None and now.open_until is not None and now.open_until > (was.open_until or 0.0)
            for name in was.nodes if now is None or is_later else was.nodes - now.nodes:
                self.nodes.may_be_roomier(name)
                self._changed()

    def keep(self, places: Mapping[str, KeptPlace]) -> None:
        """Record the room that the last session reserved, by UID of the pod. Other room is free for other jobs again."""
        before, self._kept = self._kept, places
        for uid, place in before.items():
            now, task = places.get(uid), self.tasks.get(uid)
            if (now is None or now.node != place.node) and (task is None or task.node != place.node):
                self._changes.gives_up(place.task, place.queue)
                self.nodes.may_be_roomier(place.node)
                self._changed()

    def promises_ended(self, queues: Collection[str]) -> None:
        """Handle that room is no longer kept for some gangs of `queues`: retry the jobs that this room may let in."""
        if queues:
            self._changes.used.update(queues)
            self._changed()

    def stale(self) -> None:
        """Handle a change that may affect any job: retry all jobs."""
        self._changes.everything()
        self._changed()

    # -- snapshot ----------------------------------------------------------------------------------------------------

    def prepare(self) -> int:
        """Do a small part of the work for the next snapshot. Return how much is left, in jobs."""
        if self.jobs.stale:
            self._refresh(at_most=_PART)
        else:
            self.retries.search(self.queues, at_most=_PART)
        return self.jobs.stale + self.retries.left

    def snapshot(self) -> Snapshot:
        """Return a snapshot for one session, with the jobs that the session must examine.

        The cost grows with the number of nodes, whose arrays are copied, and with the number of changed jobs that `prepare` left.
        """
        self._refresh()
        self.retries.search(self.queues)
        self._snapshots += 1
        self.seats.session_begins()
        candidates, touched, objects = self.retries.candidates(), self.retries.touched(), self.objects.for_session()
        return replace(self.view(), number=self._snapshots, candidates=candidates, touched=touched, objects=objects)

    def view(self) -> Snapshot:
        """Return a snapshot that only serves to read the state: changes do not count as seen by it."""
        self._refresh()
        nodes, jobs, count = self.nodes, self.jobs, len(self.nodes.names)
        return Snapshot(
            dimensions=nodes.dimensions.frozen(),
            names=tuple(nodes.names),
            rows=nodes.rows.copy(),
            nodes=tuple(nodes.records),
            is_ready=nodes.is_ready[:count].copy(),
            stamps=nodes.stamps[:count].copy(),
            columns=nodes.taken(),
            ports={row: Counter(ports) for row, ports in nodes.ports.items() if ports},
            residents=tuple(nodes.residents),
            jobs=list(jobs.active.values()),
            let_in=list(jobs.let_in.values()),
            promised=list(jobs.promised.values()),
            all_jobs=jobs.all_facts(),
            queue_sums=jobs.queue_sums(),
            queues=self.queues.copy(),
            features=self._features,
            is_coupled=self._shapes.is_any_coupled,
            held=frozenset(self.holds.held),
            refused=frozenset(self.holds.refused),
            objects=self.objects.view(),
            unread_nodes=self._faults.of_kind(NODES) | {key.name: why for key, why in self.undecodable_nodes.items()},
        )

    def read_anew(self) -> None:
        """Discard the node features after a session failed, since they may be incomplete."""
        self._features = NodeFeatures()

    # -- internals ---------------------------------------------------------------------------------------------------

    def _counted(self) -> set[str]:
        """Return the resources in the specs of queues that get rows of their own."""
        return {name for queue in self.queues.values() for name in counted_of(queue.resources)}

    def _object(self, old: Record | None, new: Record | None) -> None:
        """Record the change of a watched object that sessions read."""
        if self.objects.read.is_read(old, new):
            self.stale()
        elif self.objects.hinted.is_read(old, new):
            self._changes.object(old, new)
            self._changed()

    def _refresh(self, *, at_most: int | None = None) -> None:
        self.retries.discard(self.jobs.refresh(self.queues, self._priority, at_most=at_most))

    def _changed(self) -> None:
        self._changes.is_any = True
        self._wake()

    def _lose_node(self, name: str) -> None:
        """Remove a node. Gangs with members that the kubelet had not accepted may be incomplete now."""
        self.jobs.retry({task.job for task in self.nodes.remove_node(name) if task.status is TaskStatus.BOUND})

    def _read_group(self, old: records.Pod | None, new: records.Pod | None) -> None:
        """Pass on the group that a pod describes, as long as no PodGroup describes it."""
        pod = new or old
        if pod is None or POD_GROUP not in pod.metadata.annotations:
            return
        known = self.groups.written(group_of(pod))
        if known is None or known.is_on_pod:
            self.groups.changed(known, None if new is None else pod_group(new, group_of(new)))

    def _set_pod(self, pod: records.Pod) -> bool:
        """Set the task of a pod. Return whether anything changed that sessions examine."""
        uid = pod.metadata.uid
        before, version = self.tasks.get(uid), self._shapes.placement_labels.version
        try:
            task = task_of(pod, self._shapes, before)
        except Exception as error:  # noqa: BLE001 - a fault of one pod must not stop the others
            self._tasks.drop(uid)
            self._faults.leave_out(PODS, pod, reason_of(error))
            return True
        if version != self._shapes.placement_labels.version:
            self.retries.retry_all()
        self._faults.clear(PODS, pod)
        task = self.assumptions.applied(self.natives.guarded(task))
        self.holds.seen(task)
        self._tasks.set(before, task)
        return before is None or not alike(before, task)

    def _priority(self, name: str) -> int:
        named = self.priorities.get(name)
        if named is not None:
            return named.value
        return next((each.value for each in self.priorities.values() if each.global_default), 0)

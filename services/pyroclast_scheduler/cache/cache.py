"""The cache: the cluster as the watches tell it, with what was decided assumed until they show it.

Belongs to one thread; a session gets a snapshot. An object that makes no sense is left out, with the reason in `problems`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pyroclast.api import records
from pyroclast.api.records.meta import Record
from pyroclast.api.types import NODES, PODS, QUEUES
from pyroclast_scheduler.cache.assumptions import AssumptionKind, Assumptions
from pyroclast_scheduler.cache.changes import alike, same_but_status, same_queue
from pyroclast_scheduler.cache.group_readers import volcano
from pyroclast_scheduler.cache.holds import Holds
from pyroclast_scheduler.cache.invalid_objects import LEFT_OUT, Faults, reason_of, uncounted
from pyroclast_scheduler.cache.jobs import JobTable
from pyroclast_scheduler.cache.native_groups import NativeGroups
from pyroclast_scheduler.cache.nodes import NodeTable
from pyroclast_scheduler.cache.noted_changes import Changes
from pyroclast_scheduler.cache.objects import ObjectTable, is_older
from pyroclast_scheduler.cache.queue_branches import limited_by
from pyroclast_scheduler.cache.retry_triggers import Wakes
from pyroclast_scheduler.cache.seat_tasks import SeatTasks, TaskPort
from pyroclast_scheduler.cache.tasks import TaskTable
from pyroclast_scheduler.cache.views import view_of
from pyroclast_scheduler.model.dimensions import Amounts, Dimensions, counted_of
from pyroclast_scheduler.model.faults import Fault
from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.model.groups import Group, GroupStatus
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.queues import QueueFacts
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.model.retry_conditions import Rest
from pyroclast_scheduler.model.shapes import ShapeBook
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.model.statuses import ALLOCATED, TaskStatus
from pyroclast_scheduler.model.tasks import TaskFacts, task_of

__all__ = ["Cache"]

_PART = 250  # jobs whose facts are worked out, or that are roused, in one go: 2 ms


class Cache:
    """Keeps the picture. `now`: seconds, for the deadlines of assumptions.

    `is_shared`: other schedulers work with the same queues, and the PodGroups of their pods are theirs.
    `places_seats`: gangs may be placed before their pods exist.
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
        self.nodes = NodeTable(self.dimensions, self._changes, partial(_counted, self.queues))
        self.priorities: dict[str, records.PriorityClass] = {}
        self.assumptions = Assumptions()
        self._faults = Faults()
        self._names = frozenset(scheduler_names)
        self._shapes = ShapeBook()
        roots: dict[str, str] = {}
        self._jobs = JobTable(
            self.dimensions,
            default_queue=default_queue,
            names=self._names if is_shared else (),
            ours=self._names,
            now=now,
            minded=self._shapes.minded,
            roots=roots,
        )
        self.natives = NativeGroups(self._jobs, self._names, roots, now=now, described=self._described, retake=self._retake)
        self._tasks = TaskTable(self.nodes, self._jobs, self._changes)
        self.tasks = self._tasks.by_uid
        self.objects = ObjectTable(self._faults)
        self._wakes = Wakes(self._jobs, self.nodes, self._changes, self.objects.read)
        self._gone: set[str] = set()
        self._holds = Holds()
        self._features, self._snapshots, self._now = NodeFeatures(), 0, now
        self._wake: Callable[[], None] = lambda: None
        port = TaskPort(self.tasks, self.assumptions, self._set_pod, self._tasks.drop, self._changed, self.stale, now)
        self.seats = SeatTasks(self._jobs, port, is_enabled=places_seats)

    def on_change(self, wake: Callable[[], None]) -> None:
        """Call `wake` after each change that may alter what a session decides."""
        self._wake = wake

    @property
    def problems(self) -> dict[str, str]:
        """Why objects are left out, by kind and key."""
        return self._faults.reasons() | {f"podgroup {key}": f"{LEFT_OUT}{why}" for key, why in self._jobs.problems.items()}

    @property
    def parts(self) -> tuple[JobTable, dict[str, str], dict[str, str]]:
        """The table of jobs, and the pods that are held and refused: for those who write all of it down."""
        return self._jobs, self._holds.held, self._holds.refused

    def faults(self) -> frozenset[Fault]:
        """What is wrong with which objects; not with PodGroups that are over."""
        return self._faults.all() | self._jobs.faults()

    # -- events ------------------------------------------------------------------------------------------------------

    def pod_changed(self, old: records.Pod | None, new: records.Pod | None) -> None:
        """A pod came (`old` None), changed, or went (`new` None)."""
        if new is not None:
            self.seats.pod(new, is_there=True)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            uid = old.metadata.uid
            self.assumptions.end(uid)
            self._holds.drop(uid)
            self._tasks.drop(uid)
            self._faults.clear(PODS, old)
            if new is None:
                self.seats.pod(old, is_there=False)
            self._changed()
        self._jobs.count_strangers(old, new)
        if new is not None and (new.spec.scheduler_name in self._names or new.spec.node_name) and self._set_pod(new):
            self._changed()

    def node_changed(self, old: records.Node | None, new: records.Node | None) -> None:
        """A node came, changed, or went."""
        if new is None:
            if old is not None:
                self._lose_node(old.metadata.name)
                self._faults.clear(NODES, old)
        else:
            try:
                changed = self.nodes.set_node(new)
                self._faults.set(NODES, new, "; ".join(self.nodes.faults(new)))
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one node, it must not stop the others
                self._lose_node(new.metadata.name)
                self._faults.leave_out(NODES, new, reason_of(error))
                changed = True
            if not changed:
                return
        self._changes.are_victims = True
        self._changed()

    def group_changed(self, old: records.PodGroup | None, new: records.PodGroup | None) -> None:
        """A PodGroup came, changed, or went."""
        self._group_changed(*(None if record is None else volcano.group_of(record) for record in (old, new)))

    def _group_changed(self, old: Group | None, new: Group | None) -> None:
        group = new or old
        if group is None:
            return
        key = group.key
        if new is None:
            if key in self._jobs.entries:
                self._jobs.show(key, None, None)
                self._gone.add(key)
                self._holds.resume(key)
                self.seats.follow(key)
        else:
            known = self._jobs.entries.get(key)
            before = None if known is None else known.group
            if before is not None and is_older(new, before):
                return
            same = before is not None and before.metadata.uid == new.metadata.uid
            if before is not None and not same:
                self._gone.add(key)
                self._holds.resume(key)
            self._jobs.show(key, new, known.believed if known is not None and same else None)
            self.seats.follow(key)
            if before is not None and same and same_but_status(before, new):
                return
        self._changes.group(key)
        self._changed()

    def queue_changed(self, old: records.Queue | None, new: records.Queue | None) -> None:
        """A queue came, changed, or went."""
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
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one queue, it must not stop the others
                self.queues.pop(name, None)
                self._faults.leave_out(QUEUES, new, reason_of(error))
        for name in known ^ self.queues.keys():
            self._jobs.queue_changed(name)
        if new is not None and old is not None and same_queue(old, new):
            return
        for each in (old, new):
            if each is not None:
                self._changes.queue(each.metadata.name)
        self._changed()

    def queue_turned(self, name: str) -> None:
        """Time changed what a queue may have: a budget began anew, or it is not known any more what is spent of it."""
        self._changes.queue(name)
        self._changed()

    def queue_freed_elsewhere(self, name: str) -> None:
        """Another member of a ring of schedulers has less in a queue: jobs may fit that a capability kept out.

        An empty name stands for a queue that is not known: any of them.
        """
        for limited in limited_by(name, self.queues):
            self._changes.queue(limited)

    def priority_changed(self, old: records.PriorityClass | None, new: records.PriorityClass | None) -> None:
        """A PriorityClass came, changed, or went."""
        if old is not None:
            self.priorities.pop(old.metadata.name, None)
        if new is not None:
            self.priorities[new.metadata.name] = new
        self._jobs.all_changed()
        self._changes.are_victims = True
        self._changed()

    def object_changed(self, old: Record | None, new: Record | None) -> None:
        """An object of a kind that some plugin asked for came, changed, or went."""
        if self.objects.changed(old, new) and self.objects.read.is_read(old, new):
            self.stale()

    def node_object_changed(self, old: Record | None, new: Record | None) -> None:
        """As `object_changed`, of a kind whose objects say more of the node of the same name: no other node is concerned."""
        record = new or old
        if record is not None and self.objects.changed(old, new):
            self.nodes.may_be_roomier(record.metadata.name)
            self._changed()

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
        if short := self.nodes.short_of(task.shape, node):
            return f"node {node} resources {short} are not enough"
        self.assumptions.add(uid, AssumptionKind.BOUND, node, self._now())
        self._tasks.set(task, task.moved(TaskStatus.BINDING, node))
        return None

    def assuming(self, binds: Sequence[tuple[str, str]]) -> Iterator[str | None]:
        """Assume the (pod UID, node) pairs, None for each; where one cannot be, all are taken back, None for each again.

        The reason comes last.
        """
        for done, (uid, node) in enumerate(binds):
            problem = self.assume(uid, node)
            if problem is not None:
                for earlier, _ in binds[:done]:
                    self.forget(earlier)
                    yield None
                self.stale()  # as `take_back`
                yield problem
                return
            yield None

    def assume_all(self, binds: Sequence[tuple[str, str]]) -> str | None:
        """Assume all of the (pod UID, node) pairs, or none and say why."""
        return next((problem for problem in self.assuming(binds) if problem is not None), None)

    def take_back(self, uids: Iterable[str]) -> None:
        """Take back what was assumed of pods of a placement that cannot be carried out as a whole."""
        for uid in uids:
            self.forget(uid)
        self.stale()  # the session that decided this took the room as taken, and others as without

    def forget(self, uid: str, *, is_refused: bool = False) -> None:
        """Take back that pod `uid` was bound; it is as the API server says again.

        `is_refused`: the API server would not have it. No session places the pod then until `release`.
        """
        task = self.tasks.get(uid)
        if not self.assumptions.end(uid, AssumptionKind.BOUND) or task is None or task.status is not TaskStatus.BINDING:
            return
        if is_refused:
            self._holds.refuse(task)
        self._tasks.set(task, task.moved(TaskStatus.PENDING, ""))
        self._changed()

    def release(self, uid: str) -> None:
        """Let sessions place pod `uid` again."""
        job = self._holds.release(uid)
        if job is not None:
            self._jobs.wake([job])
            self._changed()

    def pause(self, job: str) -> None:
        """Let no session place pods of PodGroup `job`, those that come too, until `resume`."""
        self._holds.pause(job, self.tasks_of(job))

    def resume(self, job: str) -> None:
        """Let sessions place pods of PodGroup `job` again."""
        self._holds.resume(job)
        self._jobs.wake([job])
        self._changed()

    def releasing(self, uid: str) -> bool:
        """Take pod `uid` as on its way out, because we ask for it; False if it has no place, or is on its way out already."""
        task = self.tasks.get(uid)
        if task is None or task.status not in ALLOCATED:
            return False
        self.assumptions.add(uid, AssumptionKind.GOING, task.node, self._now())
        self._tasks.set(task, task.moved(TaskStatus.RELEASING, task.node))
        return True

    def restore(self, uid: str) -> None:
        """Take back that pod `uid` is on its way out; it is as the API server says again."""
        task = self.tasks.get(uid)
        if self.assumptions.end(uid, AssumptionKind.GOING) and task is not None:
            self._set_pod(task.pod)
            self._changed()

    def keep(self, uid: str) -> None:
        """What is assumed of pod `uid` is still being worked on."""
        self.assumptions.renew(uid, self._now())

    def nominate(self, uid: str, node: str) -> None:
        """Take pod `uid` as the one for which room is made on `node`, until its status says so."""
        task = self.tasks.get(uid)
        if task is not None and task.status is TaskStatus.PENDING and task.nominated != node:
            self.assumptions.add(uid, AssumptionKind.NOMINATED, node, self._now())
            self._tasks.set(task, task.nominated_to(node))

    def unnominate(self, uid: str) -> None:
        """Take back that room is made for pod `uid`: its status could not be written."""
        task = self.tasks.get(uid)
        if self.assumptions.end(uid, AssumptionKind.NOMINATED) and task is not None:
            self._set_pod(task.pod)
            self._changed()

    def read(self, uid: str, pod: records.Pod | None) -> None:
        """Pod `uid` was read because an assumption about it stood for too long: it is as it was found, None if it is gone."""
        task = self.tasks.get(uid)
        if not self.assumptions.end(uid) or task is None:
            return
        if pod is None or pod.metadata.uid != uid:
            self.pod_changed(task.pod, None)
        else:
            self._set_pod(pod)
            self._changed()

    def believe(self, job: str, status: GroupStatus | None) -> None:
        """Take `status` as that of group `job` while it is being written; None: as the API server says again.

        Where the object has no phase it stays until another one comes.
        """
        self._jobs.believe(job, status)
        self.seats.follow(job)

    def group(self, job: str) -> Group | None:
        """The PodGroup of that key, with the status that is being written."""
        entry = self._jobs.entries.get(job)
        return None if entry is None else entry.current

    def written(self, job: str) -> Group | None:
        """The PodGroup of that key as the API server last showed it."""
        entry = self._jobs.entries.get(job)
        return None if entry is None else entry.group

    def is_believed(self, job: str) -> bool:
        """Whether the status of PodGroup `job` is one that is being written."""
        entry = self._jobs.entries.get(job)
        return entry is not None and entry.believed is not None

    def left_out(self) -> dict[str, str]:
        """Why PodGroups that wait are in no snapshot, by key."""
        return self._jobs.left_out()

    def placed(self) -> dict[str, Amounts]:
        """What the jobs of each queue have, of queues that have jobs."""
        self._refresh()
        return self._jobs.placed()

    def tasks_of(self, job: str) -> list[TaskFacts]:
        """The tasks of PodGroup `job`."""
        entry = self._jobs.entries.get(job)
        return [] if entry is None else list(entry.tasks.values())

    def leave_out(self, kind: str, key: str, reason: str) -> None:
        """Keep an object that no session can deal with out of them, until it changes. `kind`: podgroup, queue or node."""
        if kind == "podgroup":
            self._wakes.discard([key])
            self._jobs.leave_out(key, reason)
        elif kind == "queue":
            queue = self.queues.pop(key, None)
            if queue is not None:
                self._faults.leave_out(QUEUES, queue.record, reason)
                self._jobs.queue_changed(key)
        else:
            row = self.nodes.rows.get(key)
            node = None if row is None else self.nodes.records[row]
            if node is not None:
                self._lose_node(key)
                self._faults.leave_out(NODES, node, reason)
        self.stale()

    def leave_out_object(self, record: type[Record], key: str, reason: str) -> None:
        """The same of an object of a kind that some plugin asked for."""
        self.objects.leave_out(record, key, reason)
        self.stale()

    def gone(self) -> set[str]:
        """The keys of PodGroups that went, or came again under the same name, since this was last asked."""
        found, self._gone = self._gone, set()
        return found

    def draw(self, job: str) -> None:
        """The last session looked at this job too, which was at rest; to be told before it may rest again."""
        self._wakes.draw(job)

    def rest(self, rest: Rest) -> None:
        """The last session can do nothing more for this job until it, or what it waits for, changes."""
        self._wakes.rest(rest)

    def recheck(self) -> None:
        """A schedule period began: let the next session look at what time alone may change, and at a few others, oldest first."""
        self._jobs.recheck()
        self._wakes.recheck()

    def try_left_out_again(self) -> None:
        """What jobs were left out for may be over: the configuration, or a plugin, is another one."""
        self._jobs.try_left_out_again()
        self._wakes.regroup()
        self._changed()

    def wake(self, job: str) -> None:
        """Let the next session look at a job although nothing changed: what was found out about it could not be written."""
        self._jobs.wake([job])

    def reserve(self, before: Mapping[str, Reservation], after: Mapping[str, Reservation]) -> None:
        """Nodes are kept for other jobs, or otherwise, than before: wake these jobs, and who may have a place there now.

        Nodes stay open to who is gone before they are needed: a later time lets in others.
        """
        self._jobs.wake(before.keys() ^ after.keys())
        opened: set[str] = set()
        for key, was in before.items():
            now = after.get(key)
            if now is None or (now.open_until is not None and now.open_until > (was.open_until or 0.0)):
                opened |= was.nodes
            else:
                opened |= was.nodes - now.nodes
        for name in opened:
            self.nodes.may_be_roomier(name)
        if opened:
            self._changed()

    def stale(self) -> None:
        """Something changed on which anything may depend: no job rests."""
        self._changes.everything()
        self._changed()

    # -- snapshot ----------------------------------------------------------------------------------------------------

    def prepare(self) -> int:
        """Do a small part of what the next snapshot has to do; how much is left of that, in jobs."""
        if self._jobs.stale:
            self._refresh(at_most=_PART)
        else:
            self._wakes.rouse(self.queues, at_most=_PART)
        return self._jobs.stale + self._wakes.left

    def snapshot(self) -> Snapshot:
        """A copy for one session, with the jobs that it must look at.

        Its cost grows with the nodes (array copies), and with the jobs that changed since the last and were not prepared.
        """
        self._refresh()
        self._wakes.rouse(self.queues)
        self._snapshots += 1
        self.seats.session_begins()
        lines, touched, seen = self._wakes.lines(), self._wakes.touched(), self.objects.for_session()
        return replace(self.view(), number=self._snapshots, lines=lines, touched=touched, objects=seen)

    def view(self) -> Snapshot:
        """The same for those who only look on: nothing counts as seen by it."""
        self._refresh()
        tables = self.nodes, self._jobs, self.queues, self._holds, self.objects
        return view_of(*tables, features=self._features, is_coupled=self._shapes.is_any_coupled)

    def queue_of(self, job: str) -> str:
        """The queue of the job of that key, as sessions saw it last; empty where there is no such job."""
        facts = self._jobs.facts(job)
        return "" if facts is None else facts.queue

    def facts(self) -> Mapping[str, JobFacts]:
        """All jobs by key as sessions saw them last; it stays as it is."""
        return self._jobs.all_facts()

    def read_anew(self) -> None:
        """A session failed: what sessions share of nodes may be half done, and is worked out anew."""
        self._features = NodeFeatures()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _refresh(self, *, at_most: int | None = None) -> None:
        self._wakes.discard(self._jobs.refresh(self.queues, self._priority, at_most=at_most))

    def _changed(self) -> None:
        self._changes.is_any = True
        self._wake()

    def _described(self, key: str, *, has_gone: bool) -> None:
        """What describes group `key` is another object, or says something else."""
        if has_gone:
            self._gone.add(key)
        self._changes.group(key)
        self._changed()

    def _retake(self, tasks: Collection[TaskFacts]) -> None:
        """Take tasks up again that belong to another group than before."""
        for task in tasks:
            self._set_pod(task.pod)

    def _lose_node(self, name: str) -> None:
        """Take a node out; gangs of which it did not take up a member may be incomplete now."""
        self._jobs.wake({task.job for task in self.nodes.remove_node(name) if task.status is TaskStatus.BOUND})

    def _set_pod(self, pod: records.Pod) -> bool:
        """Take up a pod; whether anything changed that a session looks at."""
        uid = pod.metadata.uid
        before, version = self.tasks.get(uid), self._shapes.minded.version
        try:
            task = task_of(pod, self._shapes)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one pod, it must not stop the others
            self._tasks.drop(uid)
            self._faults.leave_out(PODS, pod, reason_of(error))
            return True
        if version != self._shapes.minded.version:
            self._wakes.regroup()
        self._faults.clear(PODS, pod)
        task = self.assumptions.applied(self.natives.guarded(task))
        self._holds.seen(task)
        self._tasks.set(before, task)
        return before is None or not alike(before, task)

    def _priority(self, name: str) -> int:
        named = self.priorities.get(name)
        if named is not None:
            return named.value
        return next((each.value for each in self.priorities.values() if each.global_default), 0)


def _counted(queues: Mapping[str, QueueFacts]) -> set[str]:
    """The resources that `queues` name and that count."""
    return {name for queue in queues.values() for name in counted_of(queue.resources)}

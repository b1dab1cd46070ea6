"""Decisions about pods, which the cache assumes until a watch shows them or until they fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from pyroclast.api import records
from pyroclast_scheduler.cache.assumptions import AssumptionKind, Holds
from pyroclast_scheduler.cache.groups import Groups
from pyroclast_scheduler.cache.jobs import JobTable
from pyroclast_scheduler.cache.nodes import NodeTable
from pyroclast_scheduler.cache.tasks import TaskPort, TaskTable
from pyroclast_scheduler.model.tasks import ALLOCATED, TaskStatus


class PodDecisions:
    """Updates the tasks of the cache by decisions. `gone`: called with a pod that turned out to be deleted."""

    def __init__(
        self,
        port: TaskPort,
        tasks: TaskTable,
        nodes: NodeTable,
        *,
        jobs: JobTable,
        groups: Groups,
        holds: Holds,
        gone: Callable[[records.Pod], None],
    ) -> None:
        self._port = port
        self._tasks = tasks
        self._nodes = nodes
        self._jobs = jobs
        self._groups = groups
        self._holds = holds
        self._gone = gone

    def assume(self, uid: str, node: str) -> str | None:
        """Assume that pod `uid` is bound to `node` until a watch shows it. Return the reason if the pod cannot be bound."""
        task = self._port.tasks.get(uid)
        if task is None:
            return "the pod is gone"
        if task.status is not TaskStatus.PENDING:
            return f"the pod is {task.status.label}"
        if not self._nodes.is_known(node):
            return f"node {node} is gone"
        if short := self._nodes.short_of(task.shape, node):
            return f"node {node} resources {short} are not enough"
        self._port.assumptions.add(uid, AssumptionKind.BOUND, node, self._port.now())
        self._tasks.set(task, task.moved(TaskStatus.BINDING, node))
        return None

    def assuming(self, binds: Sequence[tuple[str, str]]) -> Iterator[str | None]:
        """Assume binds, given as (pod UID, node), one per step. Yield None after each step.

        If one bind is impossible, undo all earlier ones, with None after each step, and yield the reason at the end.
        """
        for done, (uid, node) in enumerate(binds):
            problem = self.assume(uid, node)
            if problem is not None:
                for earlier, _ in binds[:done]:
                    self.forget(earlier)
                    yield None
                self._port.stale()  # for the reason in `take_back`
                yield problem
                return
            yield None

    def take_back(self, uids: Iterable[str]) -> None:
        """Undo the assumed binds of a placement that cannot be carried out as a whole."""
        for uid in uids:
            self.forget(uid)
        self._port.stale()  # the session that made the decision counted the room as used, so other jobs found none

    def forget(self, uid: str, *, is_refused: bool = False) -> None:
        """Undo the assumed bind of pod `uid`, so that its state is again that of the API server.

        `is_refused`: the API server refused the bind. Sessions then do not place the pod until `release`.
        """
        task = self._port.tasks.get(uid)
        if not self._port.assumptions.end(uid, AssumptionKind.BOUND) or task is None or task.status is not TaskStatus.BINDING:
            return
        if is_refused:
            self._holds.refuse(task)
        self._tasks.set(task, task.moved(TaskStatus.PENDING, ""))
        self._port.changed()

    def release(self, uid: str) -> None:
        """Allow sessions to place pod `uid` again."""
        job = self._holds.release(uid)
        if job is not None:
            self._jobs.retry([job])
            self._port.changed()

    def pause(self, job: str) -> None:
        """Keep sessions from placing pods of PodGroup `job`, later pods included, until `resume`."""
        self._holds.pause(job, self._groups.tasks_of(job))

    def resume(self, job: str) -> None:
        """Allow sessions to place pods of PodGroup `job` again."""
        self._holds.resume(job)
        self._jobs.retry([job])
        self._port.changed()

    def releasing(self, uid: str) -> bool:
        """Assume that pod `uid` is being deleted because it was evicted. Return False if the pod is not allocated."""
        task = self._port.tasks.get(uid)
        if task is None or task.status not in ALLOCATED:
            return False
        self._port.assumptions.add(uid, AssumptionKind.GOING, task.node, self._port.now())
        self._tasks.set(task, task.moved(TaskStatus.RELEASING, task.node))
        return True

    def restore(self, uid: str) -> None:
        """Undo the assumption that pod `uid` is being deleted, so that its state is again that of the API server."""
        task = self._port.tasks.get(uid)
        if self._port.assumptions.end(uid, AssumptionKind.GOING) and task is not None:
            self._port.put(task.pod)
            self._port.changed()

    def keep(self, uid: str) -> None:
        """Extend the assumption about pod `uid`, whose request is still in progress."""
        self._port.assumptions.renew(uid, self._port.now())

    def nominate(self, uid: str, node: str) -> None:
        """Assume `node` as the nominated node of pod `uid` until its status shows it."""
        task = self._port.tasks.get(uid)
        if task is not None and task.status is TaskStatus.PENDING and task.nominated != node:
            self._port.assumptions.add(uid, AssumptionKind.NOMINATED, node, self._port.now())
            self._tasks.set(task, task.nominated_to(node))

    def unnominate(self, uid: str) -> None:
        """Undo the assumed nomination of pod `uid`, since its status could not be written."""
        task = self._port.tasks.get(uid)
        if self._port.assumptions.end(uid, AssumptionKind.NOMINATED) and task is not None:
            self._port.put(task.pod)
            self._port.changed()

    def read(self, uid: str, pod: records.Pod | None) -> None:
        """End an overdue assumption with the state of pod `uid` that was read; None if the pod does not exist."""
        task = self._port.tasks.get(uid)
        if not self._port.assumptions.end(uid) or task is None:
            return
        if pod is None or pod.metadata.uid != uid:
            self._gone(task.pod)
        else:
            self._port.put(pod)
            self._port.changed()

"""What the scheduler decided about pods: taken as done until a watch shows it, or until it failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from pyroclast.api import records
from pyroclast_scheduler.cache.assumptions import AssumptionKind
from pyroclast_scheduler.cache.groups import Groups
from pyroclast_scheduler.cache.holds import Holds
from pyroclast_scheduler.cache.jobs import JobTable
from pyroclast_scheduler.cache.nodes import NodeTable
from pyroclast_scheduler.cache.task_port import TaskPort
from pyroclast_scheduler.cache.tasks import TaskTable
from pyroclast_scheduler.model.statuses import ALLOCATED, TaskStatus

__all__ = ["PodDecisions"]


class PodDecisions:
    """Keeps the tasks of the cache in step with what is decided. `gone`: called with a pod that was found to be gone."""

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
        """Take pod `uid` as bound to `node` until a watch says so; the reason why not if that cannot be."""
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
        """Assume the (pod UID, node) pairs, None for each; where one cannot be, all are taken back, None for each again.

        The reason comes last.
        """
        for done, (uid, node) in enumerate(binds):
            problem = self.assume(uid, node)
            if problem is not None:
                for earlier, _ in binds[:done]:
                    self.forget(earlier)
                    yield None
                self._port.stale()  # as `take_back`
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
        self._port.stale()  # the session that decided this took the room as taken, and others as without

    def forget(self, uid: str, *, is_refused: bool = False) -> None:
        """Take back that pod `uid` was bound; it is as the API server says again.

        `is_refused`: the API server would not have it. No session places the pod then until `release`.
        """
        task = self._port.tasks.get(uid)
        if not self._port.assumptions.end(uid, AssumptionKind.BOUND) or task is None or task.status is not TaskStatus.BINDING:
            return
        if is_refused:
            self._holds.refuse(task)
        self._tasks.set(task, task.moved(TaskStatus.PENDING, ""))
        self._port.changed()

    def release(self, uid: str) -> None:
        """Let sessions place pod `uid` again."""
        job = self._holds.release(uid)
        if job is not None:
            self._jobs.wake([job])
            self._port.changed()

    def pause(self, job: str) -> None:
        """Let no session place pods of PodGroup `job`, those that come too, until `resume`."""
        self._holds.pause(job, self._groups.tasks_of(job))

    def resume(self, job: str) -> None:
        """Let sessions place pods of PodGroup `job` again."""
        self._holds.resume(job)
        self._jobs.wake([job])
        self._port.changed()

    def releasing(self, uid: str) -> bool:
        """Take pod `uid` as on its way out, because we ask for it; False if it has no place, or is on its way out already."""
        task = self._port.tasks.get(uid)
        if task is None or task.status not in ALLOCATED:
            return False
        self._port.assumptions.add(uid, AssumptionKind.GOING, task.node, self._port.now())
        self._tasks.set(task, task.moved(TaskStatus.RELEASING, task.node))
        return True

    def restore(self, uid: str) -> None:
        """Take back that pod `uid` is on its way out; it is as the API server says again."""
        task = self._port.tasks.get(uid)
        if self._port.assumptions.end(uid, AssumptionKind.GOING) and task is not None:
            self._port.put(task.pod)
            self._port.changed()

    def keep(self, uid: str) -> None:
        """What is assumed of pod `uid` is still being worked on."""
        self._port.assumptions.renew(uid, self._port.now())

    def nominate(self, uid: str, node: str) -> None:
        """Take pod `uid` as the one for which room is made on `node`, until its status says so."""
        task = self._port.tasks.get(uid)
        if task is not None and task.status is TaskStatus.PENDING and task.nominated != node:
            self._port.assumptions.add(uid, AssumptionKind.NOMINATED, node, self._port.now())
            self._tasks.set(task, task.nominated_to(node))

    def unnominate(self, uid: str) -> None:
        """Take back that room is made for pod `uid`: its status could not be written."""
        task = self._port.tasks.get(uid)
        if self._port.assumptions.end(uid, AssumptionKind.NOMINATED) and task is not None:
            self._port.put(task.pod)
            self._port.changed()

    def read(self, uid: str, pod: records.Pod | None) -> None:
        """Pod `uid` was read because an assumption about it stood for too long: it is as it was found, None if it is gone."""
        task = self._port.tasks.get(uid)
        if not self._port.assumptions.end(uid) or task is None:
            return
        if pod is None or pod.metadata.uid != uid:
            self._gone(task.pod)
        else:
            self._port.put(pod)
            self._port.changed()

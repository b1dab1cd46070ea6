"""Seats as tasks: applies the changes of the seat table to the tasks of the cache."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from pyroclast.api import records
from pyroclast.lifecycle.seats.pods import is_seat
from pyroclast_scheduler.cache.assumptions import AssumptionKind
from pyroclast_scheduler.cache.jobs import JobTable
from pyroclast_scheduler.cache.seats import Change, SeatTable, has_seats
from pyroclast_scheduler.cache.task_port import TaskPort
from pyroclast_scheduler.model.tasks import group_of


class SeatTasks:
    """The tasks of seats, updated when their PodGroups and pods change."""

    def __init__(self, jobs: JobTable, port: TaskPort, *, is_enabled: bool) -> None:
        self.table = SeatTable(is_enabled=is_enabled)
        self._in_session: frozenset[str] = frozenset()
        self._jobs = jobs
        self._port = port

    def follow(self, key: str) -> None:
        """Handle that PodGroup `key` was created, changed or deleted, or that its assumed status changed."""
        entry = self._jobs.entries.get(key)
        group = None if entry is None else entry.current
        if key not in self.table and (group is None or not has_seats(group)):
            return
        tasks = () if entry is None else entry.tasks.values()
        names = [task.name for task in tasks if not is_seat(task.uid)]
        self._carry_out(self.table.follow(key, group, names, self._port.now()))

    def pod(self, pod: records.Pod, *, is_there: bool) -> None:
        """Handle that a pod was created or deleted. A seat is no task while its pod exists."""
        key = group_of(pod)
        if key in self.table:
            self._carry_out(self.table.pod(key, pod.metadata.name, self._port.now(), is_there=is_there))

    def session_begins(self) -> None:
        """Handle that a session is about to start with the present state."""
        self._in_session = self.table.asking()

    def seal(self, seen: Collection[str], *, may: Callable[[str], bool]) -> None:
        """Make the claimed seats the final placement of each PodGroup in `seen` that requests seats. The placement may be empty.

        `seen`: the keys of the PodGroups that a session examined. `may`: whether the answer to a PodGroup can be written.
        """
        for key in self._in_session & self.table.asking():
            if key in seen and may(key):
                self._carry_out(self.table.seal(key))

    def claim(self, job: str, placed: Iterable[tuple[str, str]]) -> None:
        """Claim seats of PodGroup `job`, given as (UID, node). The claims count until the placement is written.

        The binds of the seats are assumed already.
        """
        nodes = {task.name: node for uid, node in placed if (task := self._port.tasks.get(uid)) is not None}
        self._carry_out(self.table.claim(job, nodes, self._port.now()))

    def unclaim(self, job: str) -> None:
        """Drop the claims of PodGroup `job`, since the placement could not be written."""
        changes = self.table.unclaim(job)
        self._carry_out(changes)
        if changes:
            self._port.stale()  # the session that made the decision counted the room as used

    def expire(self) -> None:
        """Remove the seats of PodGroups that were deleted so long ago that no pod can still be created for them."""
        self._carry_out(self.table.expired(self._port.now()))

    def _carry_out(self, changes: Iterable[Change]) -> None:
        port = self._port
        for uid, pod, node in changes:
            port.assumptions.end(uid)
            if pod is None:
                port.drop(uid)
                port.changed()
                continue
            if node:
                port.assumptions.add(uid, AssumptionKind.BOUND, node, port.now())
                port.assumptions.hold(uid, AssumptionKind.BOUND)  # ends when the pod is created or the PodGroup changes
            if port.put(pod):
                port.changed()

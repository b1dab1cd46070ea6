"""PodGroups as the API server shows them, and with the statuses that are being written."""

from __future__ import annotations

from collections.abc import Callable

from pyroclast.lifecycle.gang.groups import Group, GroupStatus
from pyroclast_scheduler.cache.assumptions import Holds
from pyroclast_scheduler.cache.changes import Changes, same_but_status
from pyroclast_scheduler.cache.jobs import JobTable
from pyroclast_scheduler.cache.objects import is_older
from pyroclast_scheduler.cache.seats import SeatTasks
from pyroclast_scheduler.model.tasks import TaskFacts


class Groups:
    """The groups of jobs, by key. `notify`: called after each change that a session should examine."""

    def __init__(self, jobs: JobTable, holds: Holds, seats: SeatTasks, changes: Changes, notify: Callable[[], None]) -> None:
        self._jobs = jobs
        self._holds = holds
        self._seats = seats
        self._changes = changes
        self._notify = notify
        self._gone: set[str] = set()

    def changed(self, old: Group | None, new: Group | None) -> None:
        """Handle that a PodGroup was created, changed or deleted."""
        group = new or old
        if group is None:
            return
        key = group.key
        if new is None:
            if key in self._jobs.entries:
                self._jobs.show(key, None, None)
                self._gone.add(key)
                self._holds.resume(key)
                self._seats.follow(key)
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
            self._seats.follow(key)
            if before is not None and same and same_but_status(before, new):
                return
        self._changes.group(key)
        self._notify()

    def described(self, key: str, *, has_gone: bool) -> None:
        """Handle that another object describes the group `key`, or that the object changed."""
        if has_gone:
            self._gone.add(key)
        self._changes.group(key)
        self._notify()

    def gone(self) -> set[str]:
        """Return the keys of PodGroups that were deleted or replaced by one of the same name since the last call."""
        found, self._gone = self._gone, set()
        return found

    def believe(self, key: str, status: GroupStatus | None) -> None:
        """Assume `status` for the group `key` while it is being written; None to return to the status in the API server.

        If the object has no phase, the status stays assumed until it is replaced.
        """
        self._jobs.believe(key, status)
        self._seats.follow(key)

    def is_believed(self, key: str) -> bool:
        """Whether the status of the group `key` is assumed while it is being written."""
        entry = self._jobs.entries.get(key)
        return entry is not None and entry.believed is not None

    def current(self, key: str) -> Group | None:
        """Return the group of that key with the status that is being written."""
        return self._jobs.current(key)

    def written(self, key: str) -> Group | None:
        """Return the group of that key as the API server last showed it."""
        entry = self._jobs.entries.get(key)
        return None if entry is None else entry.group

    def tasks_of(self, key: str) -> list[TaskFacts]:
        """Return the tasks of the group `key`."""
        entry = self._jobs.entries.get(key)
        return [] if entry is None else list(entry.tasks.values())

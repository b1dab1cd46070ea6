"""The table of Jobs: one row for each Job, updated with each change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pyroclast.api import keys
from pyroclast.api.schedulers import Schedulers
from pyroclast.api.types import JOBS
from pyroclast.views.groups import start_of
from pyroclast.views.jobs import Waiter, waiter_of
from pyroclast_board.cluster.records import ShownGroup, ShownJob

ENDED: Final = frozenset({"Completed", "Failed", "Aborted", "Terminated"})
FAILED: Final = frozenset({"Failed", "Terminated"})


@dataclass(frozen=True, slots=True)
class JobRow:
    """A Job as lists show it. Times are in RFC 3339, empty when unknown.

    Attributes:
        code: the code of the cause for which the Job waits. Empty for a Job that does not wait.
        kind: the kind of the row's object if it is not a Job, otherwise empty.
        lost: the number of its pods on nodes that are not ready. Rows of the table itself do not have it.
        start: the earliest, likely and latest start by the scheduler's estimate. Empty without an estimate.
    """

    uid: str
    namespace: str
    name: str
    queue: str
    user: str
    flow: str
    phase: str
    reason: str
    code: str
    is_final: bool
    start: tuple[str, ...]
    sentence: str
    priority: str
    pods: int
    ready: int
    retries: int
    asks: Mapping[str, str]
    created: str
    changed: str
    labels: Mapping[str, str]
    kind: str = ""
    lost: int = 0

    @property
    def is_waiting(self) -> bool:
        """Whether the Job has not started, or was suspended."""
        return bool(self.code)

    @property
    def has_ended(self) -> bool:
        """Whether the Job has ended for good."""
        return self.phase in ENDED

    @property
    def has_failed(self) -> bool:
        """Whether the Job ended in failure."""
        return self.phase in FAILED


RowHandler = Callable[[JobRow | None, JobRow | None], None]


class JobTable:
    """The rows by UID. `put_job` and `put_group` handle the events of informers. Both are cheap and do no I/O."""

    def __init__(self) -> None:
        self._jobs: dict[str, ShownJob] = {}
        self._groups: dict[str, ShownGroup] = {}
        self._rows: dict[str, JobRow] = {}
        self._at_work: Schedulers | None = None
        self._handlers: list[RowHandler] = []

    def on_row(self, handler: RowHandler) -> None:
        """Call `handler(old, new)` for each row that is added (old None), changed or removed (new None)."""
        self._handlers.append(handler)

    @property
    def rows(self) -> Collection[JobRow]:
        """All rows, as a live view."""
        return self._rows.values()

    def row(self, uid: str) -> JobRow | None:
        """Return the row of a Job. None when it does not exist."""
        return self._rows.get(uid)

    def job(self, uid: str) -> ShownJob | None:
        """Return the record of a Job. None when it does not exist."""
        return self._jobs.get(uid)

    def group(self, uid: str) -> ShownGroup | None:
        """Return the PodGroup of the Job with this UID. None when it does not exist."""
        return self._groups.get(uid)

    def waiter(self, uid: str) -> Waiter | None:
        """Return a Job in the form of everything that waits. None when it does not exist."""
        job, group = self._jobs.get(uid), self._groups.get(uid)
        return None if job is None else waiter_of(as_object(job), as_object(group) if group else None, self._at_work)

    def put_job(self, old: ShownJob | None, new: ShownJob | None) -> None:
        """Handle an added, updated or deleted Job."""
        if new is not None:
            self._jobs[new.metadata.uid] = new
            self._renew(new.metadata.uid)
        elif old is not None:
            self._jobs.pop(old.metadata.uid, None)
            self._tell(self._rows.pop(old.metadata.uid, None), None)

    def put_group(self, old: ShownGroup | None, new: ShownGroup | None) -> None:
        """Handle an added, updated or deleted PodGroup."""
        group = new or old
        owned = (each for each in group.metadata.owner_references if each.kind == JOBS.kind) if group else ()
        owner = next((each for each in owned if each.api_version in {"", JOBS.api_version}), None)
        if owner is None:
            return
        if new is not None:
            self._groups[owner.uid] = new
        else:
            self._groups.pop(owner.uid, None)
        self._renew(owner.uid)

    def put_row(self, uid: str, new: JobRow | None) -> None:
        """Add, replace or remove (new None) the row of an object that is not a Job."""
        old = self._rows.get(uid)
        if new == old:
            return
        if new is None:
            del self._rows[uid]
        else:
            self._rows[uid] = new
        self._tell(old, new)

    def serve(self, at_work: Schedulers | None) -> bool:
        """Set the schedulers that are running, None when they are unknown. Return whether they have changed."""
        if at_work == self._at_work:
            return False
        self._at_work = at_work
        for row in [each for each in self._rows.values() if each.is_waiting]:
            self._renew(row.uid)
        return True

    def _renew(self, uid: str) -> None:
        job = self._jobs.get(uid)
        if job is not None:
            old, new = self._rows.get(uid), _row(job, self._groups.get(uid), self._at_work)
            if new != old:
                self._rows[uid] = new
                self._tell(old, new)

    def _tell(self, old: JobRow | None, new: JobRow | None) -> None:
        for handler in self._handlers:
            handler(old, new)


def as_object(record: msgspec.Struct) -> dict[str, Any]:
    """Convert a record to the JSON object that views use."""
    document: dict[str, Any] = msgspec.to_builtins(record)
    return document


def _row(job: ShownJob, group: ShownGroup | None, at_work: Schedulers | None) -> JobRow:
    view = waiter_of(as_object(job), as_object(group) if group else None, at_work)
    metadata, state, controller, cause = job.metadata, job.status.state, job.metadata.controller, view.cause
    return JobRow(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        queue=view.queue or "",
        user=metadata.annotations.get(keys.SUBMITTED_BY, ""),
        flow=controller.name if controller is not None and controller.kind == "JobFlow" else "",
        phase=view.phase or "Pending",
        reason=state.reason,
        code="" if cause is None else cause.code,
        is_final=cause is not None and cause.is_final,
        start=tuple(start_of(view.group) or ()) if cause is not None and not cause.is_final else (),
        sentence=state.message if cause is None else cause.sentence,
        priority=view.priority or "",
        pods=view.pods or 0,
        ready=job.status.running,
        retries=job.status.retry_count,
        asks=view.asks,
        created=metadata.creation_timestamp or "",
        changed=state.last_transition_time or metadata.creation_timestamp or "",
        labels=metadata.labels,
    )

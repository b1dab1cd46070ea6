"""Nodes that are reserved for one job, as an annotation of the PodGroup stores them, and room that a session keeps for pods that
are not bound yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from pyroclast.api import keys
from pyroclast.lifecycle.gang.groups import Group
from pyroclast.lifecycle.times import format_time
from pyroclast_scheduler.model.tasks import TaskFacts


class KeptPlace(NamedTuple):
    """Room on `node` for a pod of a job of `queue`. `is_coming`: whether pods that are being deleted still occupy the room."""

    task: TaskFacts
    node: str
    queue: str
    is_coming: bool


class Lock(msgspec.Struct, frozen=True):
    """A node that accepts no pods of other jobs. `since`: the time of the lock in seconds since the epoch."""

    node: str
    since: float


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """The reservation of nodes for one job.

    Attributes:
        job: the key of the job, the target of the reservation.
        scheduler: the name of the scheduler that made the reservation; other schedulers ignore it.
        scope: the queue in which the target was chosen; empty if it was chosen in the whole cluster.
        is_named: whether the user of the job requested the reservation.
        since: when the reservation was made, in seconds since the epoch.
        period: the schedule period in which a node was locked last.
        missing: how many pods the gang still lacks.
        missing_since: the schedule period in which `missing` changed last.
        promise: when enough nodes will be free, in seconds since the epoch; None if the time is unknown.
        late: why the promise was postponed; empty if it was not.
        fill_until: the earliest promise ever made. Pods that other jobs place on the locked nodes must end before this time, so
            that postponed promises do not let other jobs use the nodes for ever.
    """

    job: str
    uid: str
    scheduler: str
    scope: str = ""
    is_named: bool = False
    since: float = 0.0
    locks: tuple[Lock, ...] = ()
    period: int = -1
    missing: int = 0
    missing_since: int = -1
    promise: float | None = None
    late: str = ""
    fill_until: float | None = None

    def __str__(self) -> str:
        if self.promise is None:
            when = "when enough of them will be free is not known"
        else:
            when = f"enough of them will be free at {format_time(self.promise)}"
        why = f", which was put off: {self.late}" if self.late else ""
        return f"{len(self.locks)} nodes are kept for it; {when}{why}"

    def released(self, why: str) -> str:
        """Return the message of the Event that reports the end of the reservation."""
        return f"{len(self.locks)} nodes are no longer reserved: {why}"

    @property
    def open_until(self) -> float | None:
        """The time before which other jobs must end to use the locked nodes; None when they may not use them."""
        return None if self.promise is None or self.fill_until is None else min(self.promise, self.fill_until)

    @property
    def nodes(self) -> frozenset[str]:
        """The names of the locked nodes."""
        return frozenset(lock.node for lock in self.locks)


def written(reservation: Reservation) -> str:
    """Return the reservation as the text of an annotation.

    Job and UID are left out, since the PodGroup with the annotation determines them. Schedule periods are left out, since they
    are counted anew after a restart.
    """
    known = msgspec.structs.asdict(reservation)
    for name in ("job", "uid", "period", "missing", "missing_since"):
        del known[name]
    return msgspec.json.encode(known, order="sorted").decode()


def read(groups: Iterable[Group], scheduler: str) -> dict[str, Reservation]:
    """Return the reservations of `scheduler` in annotations, by key of the PodGroup. Malformed annotations are ignored."""
    found: dict[str, Reservation] = {}
    for group in groups:
        text = group.metadata.annotations.get(keys.RESERVATION, "")
        if text:
            reservation = _parsed(text, {"job": group.key, "uid": group.metadata.uid})
            if reservation is not None and reservation.scheduler == scheduler:
                found[reservation.job] = reservation
    return found


def _parsed(text: str, of: Mapping[str, str]) -> Reservation | None:
    try:
        return msgspec.convert({**msgspec.json.decode(text, type=dict), **of}, Reservation)
    except msgspec.MsgspecError:
        return None

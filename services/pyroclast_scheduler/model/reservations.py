"""Reservations: which job nodes are kept for, since when, and until when; as they stand in an annotation of its PodGroup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from pyroclast.api import keys
from pyroclast.lifecycle.times import format_time
from pyroclast_scheduler.model.groups import Group

__all__ = ["Lock", "Reservation", "read", "written"]


class Lock(msgspec.Struct, frozen=True):
    """A node that takes nobody else's pods since `since`, in seconds since the epoch."""

    node: str
    since: float


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept for one job.

    `scheduler`: who keeps it, so that another scheduler does not take it for its own. `scope`: the queue it was chosen in, empty
    for the whole cluster. `is_named`: its user asked for it. `period`: the schedule period in which a node was locked last.
    `missing`: how many pods its gang lacked when that number changed last, in period `missing_since`.
    `promise`: when enough of the nodes will be free, in seconds since the epoch; None if that is not known. `late`: why the
    promise was put off, empty if it never was. `fill_until`: the earliest promise ever made; what others put onto the nodes in
    the meantime ends before it, however often the promise was put off, so that this cannot go on for ever.
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
        """The message of the event that ends it."""
        return f"{len(self.locks)} nodes are no longer reserved: {why}"

    @property
    def open_until(self) -> float | None:
        """Until when the nodes take others that are gone by then, in seconds since the epoch; None: they take nobody."""
        return None if self.promise is None or self.fill_until is None else min(self.promise, self.fill_until)

    @property
    def nodes(self) -> frozenset[str]:
        """Names of the locked nodes."""
        return frozenset(lock.node for lock in self.locks)


def written(reservation: Reservation) -> str:
    """The text of the annotation; the job itself is known from the PodGroup that bears it, periods begin anew."""
    known = msgspec.structs.asdict(reservation)
    for name in ("job", "uid", "period", "missing", "missing_since"):
        del known[name]
    return msgspec.json.encode(known, order="sorted").decode()


def read(groups: Iterable[Group], scheduler: str) -> dict[str, Reservation]:
    """The reservations of `scheduler` that PodGroups bear, by key; what cannot be read is no reservation."""
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

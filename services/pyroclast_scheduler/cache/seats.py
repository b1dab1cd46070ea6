"""Seats: tasks for pods that do not exist yet.

Problem: a gang is placed before its pods exist, and the scheduler may restart at any time. Seats in memory alone would be lost,
and pods that a controller creates could get two places. So seats follow only from the state of the API server: the PodGroup says
what its pods will ask for, and an annotation stores the placement.

A seat is *used* if the PodGroup has a placement for it and its pod does not exist. It is *open*, so that sessions place it, while
the PodGroup is Pending without pods, or while the PodGroup asks for the seat again and no placement answers this. It is *claimed*
after it was placed and before the placement is written. `SeatTasks` keeps the tasks of the cache up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyroclast.api import keys, records
from pyroclast.api.enums import PodGroupPhase
from pyroclast.lifecycle.gang.groups import Group
from pyroclast.lifecycle.seats.contract import (
    Placement,
    Seat,
    Seats,
    SeatsError,
    TaskSeats,
    encode,
    is_seat,
    nodes_of,
    parse_placement,
    parse_seats,
    placed,
    pod_of,
    uid_of,
)
from pyroclast_scheduler.cache.assumptions import AssumptionKind
from pyroclast_scheduler.cache.jobs import JobTable
from pyroclast_scheduler.cache.tasks import TaskPort
from pyroclast_scheduler.model.tasks import group_of

LINGER_SECONDS: Final = 5.0
"""How long the seats of a deleted PodGroup still count, since requests to create its pods may still be carried out."""

_NOTHING: Final = Seats()


class Outstanding(NamedTuple):
    """The used seats of a PodGroup: its placement is written, and the pods of these seats do not exist yet.

    `nodes`: one pod for each node of these seats. `since`: when the last pod of this gang or of an earlier gang was created, in
    seconds of the cache's clock.
    `withdrawn`: why no more pods may be created on the seats; empty while the placement is valid.
    """

    group: Group
    nodes: Mapping[str, records.Pod]
    since: float
    withdrawn: str


@dataclass(slots=True)
class _Gang:
    """The seats of one PodGroup.

    `shown`: UID and node of the seats that are tasks, by the name of the pod. `present`: the names of the pods that exist.
    `asked`: the seats that the PodGroup asks for after it was enqueued; None if it asks for none. `is_sealed`: whether the
    claimed seats are the final answer.
    """

    group: Group
    present: set[str]
    since: float
    placed_at: float | None = None
    seats: Seats = _NOTHING
    tasks: dict[str, TaskSeats] = field(default_factory=dict)
    names: dict[str, Seat] = field(default_factory=dict)
    placed: dict[Seat, str] = field(default_factory=dict)
    withdrawn: str = ""
    is_open: bool = False
    asked: frozenset[Seat] | None = None
    is_sealed: bool = False
    claimed: dict[str, str] = field(default_factory=dict)
    shown: dict[str, tuple[str, str]] = field(default_factory=dict)

    def pod(self, seat: Seat) -> records.Pod:
        """Return the pod that the seat stands for."""
        return pod_of(self.group.metadata, self.seats.generation, self.tasks[seat.role], seat.index)

    def wanted(self, name: str) -> str | None:
        """Return the node of the seat for the pod `name`, empty while the seat has no node; None if the seat is no task."""
        seat = self.names.get(name)
        if seat is None or name in self.present:
            return None
        node = self.placed.get(seat) or self.claimed.get(name)
        is_open = self.is_open and (not self.present if self.asked is None else seat in self.asked and not self.is_sealed)
        return node or ("" if is_open else None)


class SeatTasks:
    """The seats by PodGroup, and their tasks in the cache. `problems`: why annotations of a PodGroup are ignored, by its key.

    `is_enabled`: whether open seats are placed. Used seats always count.
    """

    def __init__(self, jobs: JobTable, port: TaskPort, *, is_enabled: bool) -> None:
        self.problems: dict[str, str] = {}
        self._jobs = jobs
        self._port = port
        self._is_enabled = is_enabled
        self._gangs: dict[str, _Gang] = {}
        self._asking: set[str] = set()
        self._in_session: frozenset[str] = frozenset()
        self._lingering: dict[str, float] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._gangs

    def follow(self, key: str) -> None:
        """Handle that PodGroup `key` was created, changed or deleted, or that its assumed status changed."""
        entry, gang = self._jobs.entries.get(key), self._gangs.get(key)
        group = None if entry is None else entry.current
        if gang is not None and (group is None or group.metadata.uid != gang.group.metadata.uid):
            self._leave(key)
            gang = None
        if entry is None or group is None or (gang is None and not has_seats(group)):
            return
        if gang is None:
            present = {task.name for task in entry.tasks.values() if not is_seat(task.uid)}
            gang = self._gangs[key] = _Gang(group, present, self._port.now())
        elif _says_the_same(gang.group, group):
            gang.group = group
            return
        self._read(key, gang, group)
        self._refresh(gang, [*gang.names, *(name for name in gang.shown if name not in gang.names)])
        if not gang.shown and not has_seats(group):
            del self._gangs[key]

    def pod(self, pod: records.Pod, *, is_there: bool) -> None:
        """Handle that a pod was created or deleted. A seat is no task while its pod exists."""
        gang, name = self._gangs.get(group_of(pod)), pod.metadata.name
        if gang is None or (name in gang.present) is is_there:
            return
        was_empty = not gang.present
        if gang.placed:
            gang.since = self._port.now()
        (gang.present.add if is_there else gang.present.discard)(name)
        self._refresh(gang, gang.names if gang.is_open and was_empty is bool(gang.present) else [name])

    def session_begins(self) -> None:
        """Handle that a session is about to start with the present state."""
        self._in_session = self.asking()

    def claim(self, job: str, placed: Iterable[tuple[str, str]]) -> None:
        """Claim seats of PodGroup `job`, given as (UID, node). The claims count until the placement is written.

        The binds of the seats are assumed already.
        """
        gang = self._gangs.get(job)
        if gang is not None:
            nodes = {task.name: node for uid, node in placed if (task := self._port.tasks.get(uid)) is not None}
            gang.claimed |= nodes
            gang.since = gang.placed_at = self._port.now()
            self._refresh(gang, list(nodes))

    def unclaim(self, job: str) -> None:
        """Drop the claims of PodGroup `job`, since the placement could not be written."""
        gang = self._gangs.get(job)
        if gang is not None and (gang.claimed or gang.is_sealed):
            gang.is_sealed, gang.claimed = False, {}
            if self._refresh(gang, gang.names):
                self._port.stale()  # the session that made the decision counted the room as used

    def seal(self, seen: Collection[str], *, may: Callable[[str], bool]) -> None:
        """Make the claimed seats the final placement of each PodGroup in `seen` that requests seats. The placement may be empty.

        `seen`: the keys of the PodGroups that a session examined. `may`: whether the answer to a PodGroup can be written.
        """
        for key in self._in_session & self._asking:
            gang = self._gangs[key]
            if key in seen and may(key) and not gang.is_sealed:
                gang.is_sealed = True
                self._refresh(gang, gang.names)

    def expire(self) -> None:
        """Remove the seats of PodGroups that were deleted so long ago that no pod can still be created for them."""
        now = self._port.now()
        for uid in [uid for uid, until in self._lingering.items() if until <= now]:
            del self._lingering[uid]
            self._drop(uid)

    # -- answers -----------------------------------------------------------------------------------------------------

    def claims(self) -> list[str]:
        """Return the PodGroups with claimed seats, or for which no seat was placed, so that the result must be written."""
        return [key for key, gang in self._gangs.items() if gang.claimed or gang.is_sealed]

    def asking(self) -> frozenset[str]:
        """Return the PodGroups that ask for seats after they were enqueued, and for which no placement was decided yet."""
        return frozenset(self._asking)

    def answers(self) -> list[str]:
        """Return those of the asking PodGroups whose placement is decided and must be written."""
        return [key for key in self._asking if self._gangs[key].is_sealed]

    def placement(self, key: str) -> str:
        """Return the annotation with the claimed seats of PodGroup `key`; empty if there is none to write.

        Raises:
            SeatsError: the annotation would be too long.
        """
        gang = self._gangs.get(key)
        if gang is None or not (gang.claimed if gang.asked is None else gang.is_sealed):
            return ""
        nodes = dict.fromkeys(gang.asked or (), "")
        nodes |= {gang.names[name]: node for name, node in gang.claimed.items() if name in gang.names}
        return encode(placed(gang.seats.generation, nodes))

    def emptied(self, key: str) -> str | None:
        """Return the annotation of PodGroup `key` that replaces a used-up placement; None if the annotation is removed.

        A PodGroup that asks for seats keeps an empty answer, since its seats would otherwise be placed again.
        """
        gang = self._gangs.get(key)
        return None if gang is None or gang.asked is None else encode(Placement(generation=gang.seats.generation))

    def is_used_up(self, key: str) -> bool:
        """Whether the pods of all placed seats of PodGroup `key` exist, so that the placement has no further use."""
        gang = self._gangs.get(key)
        return gang is not None and bool(gang.placed) and not any(node for _, node in gang.shown.values())

    def outstanding(self) -> Iterator[tuple[str, Outstanding]]:
        """Yield the PodGroups that have a placement, but not yet all pods of the placement, in the order of placement.

        The job controller creates the pods of the gang that was placed first, then those of the next gang. So the time limit for
        creating the pods of a gang starts only when the pods of all earlier gangs exist: see `Outstanding.since`.
        """
        latest = 0.0
        for key, gang in sorted(self._gangs.items(), key=lambda item: item[1].placed_at or 0.0):
            if gang.placed_at is None:
                continue
            latest = max(latest, gang.since)
            used = (gang.names[name] for name, (_, node) in gang.shown.items() if node and name not in gang.claimed)
            nodes = {gang.placed[seat]: gang.pod(seat) for seat in used if seat in gang.placed}
            if nodes:
                yield key, Outstanding(gang.group, nodes, gang.since if gang.withdrawn else latest, gang.withdrawn)

    def _leave(self, key: str) -> None:
        """Handle that PodGroup `key` was deleted. Written seats count for a while longer."""
        gang = self._gangs.pop(key)
        self.problems.pop(key, None)
        self._asking.discard(key)
        for name, (uid, node) in gang.shown.items():
            if node and name not in gang.claimed:
                self._lingering[uid] = self._port.now() + LINGER_SECONDS
            else:
                self._drop(uid)

    def _read(self, key: str, gang: _Gang, group: Group) -> None:
        """Read the annotations. Seats of an earlier generation are removed, whatever was decided about them."""
        annotations, now = group.metadata.annotations, self._port.now()
        gang.group = group
        self.problems.pop(key, None)
        was_withdrawn = gang.withdrawn
        seats, nodes, gang.withdrawn = _NOTHING, dict[Seat, str](), ""
        has_placement = False
        try:
            if text := annotations.get(keys.SEATS):
                seats = parse_seats(text)
            if seats.tasks and (text := annotations.get(keys.PLACEMENT)):
                placement = parse_placement(text)
                if placement.generation == seats.generation:
                    nodes, gang.withdrawn, has_placement = nodes_of(seats, placement), placement.withdrawn, True
        except SeatsError as error:
            annotation = keys.PLACEMENT if seats.tasks else keys.SEATS
            self.problems[key] = f"metadata.annotations[{annotation}]: {error}; it is ignored"
            seats, nodes = _NOTHING, {}
        if seats.generation != gang.seats.generation:
            for uid, _ in gang.shown.values():
                self._drop(uid)
            gang.shown, gang.claimed, gang.is_sealed, gang.placed_at = {}, {}, False, None
        if has_placement and gang.placed_at is None:
            gang.since = gang.placed_at = now
        if gang.withdrawn and not was_withdrawn:
            gang.since = now
        if seats is not gang.seats:
            gang.tasks, gang.names = {task.role: task for task in seats.tasks}, dict(seats.names())
            gang.asked = None if seats.asked is None else seats.wanted()
        gang.seats, gang.placed = seats, nodes
        if has_placement:
            gang.claimed, gang.is_sealed = {}, False
        may_be_open = self._is_enabled and not has_placement and not group.metadata.is_terminating
        gang.is_open = may_be_open and (_is_pending(group) if gang.asked is None else bool(gang.asked))
        (self._asking.add if gang.is_open and gang.asked else self._asking.discard)(key)

    def _refresh(self, gang: _Gang, names: Iterable[str]) -> bool:
        """Bring the tasks of these seats up to date. Return whether any changed. `names`: the names of their pods."""
        port, has_changed = self._port, False
        for name in names:
            node, shown, seat = gang.wanted(name), gang.shown.get(name), gang.names.get(name)
            if node is None or seat is None:
                if shown is not None:
                    del gang.shown[name]
                    self._drop(shown[0])
                    has_changed = True
                continue
            uid = uid_of(gang.group.metadata, gang.seats.generation, seat)
            if shown == (uid, node):
                continue
            has_changed = True
            self._lingering.pop(uid, None)
            gang.shown[name] = uid, node
            port.assumptions.end(uid)
            if node:
                port.assumptions.add(uid, AssumptionKind.BOUND, node, port.now())
                port.assumptions.hold(uid, AssumptionKind.BOUND)  # ends when the pod is created or the PodGroup changes
            if port.put(gang.pod(seat)):
                port.changed()
        return has_changed

    def _drop(self, uid: str) -> None:
        self._port.assumptions.end(uid)
        self._port.drop(uid)
        self._port.changed()


def _says_the_same(old: Group, new: Group) -> bool:
    """Whether nothing changed on which seats depend. Counts and conditions change often."""
    a, b = old.metadata, new.metadata
    said = all(a.annotations.get(key) == b.annotations.get(key) for key in (keys.SEATS, keys.PLACEMENT))
    return said and _is_pending(old) is _is_pending(new) and a.is_terminating is b.is_terminating


def _is_pending(group: Group) -> bool:
    return group.status.phase is PodGroupPhase.PENDING


def has_seats(group: Group) -> bool:
    """Whether `group` has an annotation with seats. PodGroups of the Kubernetes API have no seats: any user may annotate them."""
    return group.keeps_phase and keys.SEATS in group.metadata.annotations

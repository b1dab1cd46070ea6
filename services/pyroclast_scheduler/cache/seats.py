"""The table of seats: places for pods that do not exist yet, each a task like any pod until its pod is there.

All of it follows from what the API server shows, so that a scheduler that starts anew finds the same. A seat is *used* when the
PodGroup has it placed and no pod of its name exists. It is *open*, to be placed, while the PodGroup is Pending and has no pods,
or while the PodGroup asks for it anew and no placement answers that. What was decided and is not written yet is *claimed*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyroclast.api import keys, records
from pyroclast.api.enums import PodGroupPhase
from pyroclast.lifecycle.seats.contract import (
    Placement,
    Seat,
    Seats,
    SeatsError,
    encode,
    nodes_of,
    parse_placement,
    parse_seats,
    placed,
)
from pyroclast.lifecycle.seats.pods import pod_of, uid_of
from pyroclast_scheduler.model.groups import Group

__all__ = ["LINGER_SECONDS", "Change", "Outstanding", "SeatTable", "has_seats"]

LINGER_SECONDS: Final = 5.0
"""How long the seats of a PodGroup that went still count: creations that were under way may be carried out after it."""

_NOTHING: Final = Seats()


class Change(NamedTuple):
    """What is to be done to the task of a seat: it is `pod`, on `node` if there is one; None: it is no more."""

    uid: str
    pod: records.Pod | None
    node: str


class Outstanding(NamedTuple):
    """The used seats of a PodGroup: a pod of each of their nodes, and since when none has come, in the seconds of the cache.

    `withdrawn`: why no pod may be made on them any more; empty while they stand.
    """

    group: Group
    nodes: Mapping[str, records.Pod]
    since: float
    withdrawn: str


class _Shown(NamedTuple):
    uid: str
    node: str


@dataclass(slots=True)
class _Gang:
    """The seats of one PodGroup. `shown`: those that are tasks, by the name of the pod; `present`: the pods that exist.

    `asked`: which of them are asked for after the gang was let in, if any are; `is_sealed`: what is claimed is all they get.
    """

    group: Group
    present: set[str]
    since: float
    placed_at: float | None = None
    seats: Seats = _NOTHING
    names: dict[str, Seat] = field(default_factory=dict)
    placed: dict[Seat, str] = field(default_factory=dict)
    withdrawn: str = ""
    is_open: bool = False
    asked: frozenset[Seat] | None = None
    is_sealed: bool = False
    claimed: dict[str, str] = field(default_factory=dict)
    shown: dict[str, _Shown] = field(default_factory=dict)

    def wanted(self, name: str) -> str | None:
        """The node of the seat of that name, empty while it has none; None if it is no task."""
        seat = self.names.get(name)
        if seat is None or name in self.present:
            return None
        node = self.placed.get(seat) or self.claimed.get(name)
        is_open = self.is_open and (not self.present if self.asked is None else seat in self.asked and not self.is_sealed)
        return node or ("" if is_open else None)


class SeatTable:
    """Keeps seats by PodGroup. `problems`: by key, why what a PodGroup says of seats counts for nothing.

    `is_enabled`: whether open seats are placed; those that were placed count in any case.
    """

    def __init__(self, *, is_enabled: bool = False) -> None:
        self.problems: dict[str, str] = {}
        self._is_enabled = is_enabled
        self._gangs: dict[str, _Gang] = {}
        self._asking: set[str] = set()
        self._lingering: dict[str, float] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._gangs

    def follow(self, key: str, group: Group | None, present: Iterable[str], now: float) -> list[Change]:
        """PodGroup `key` is this now, with the status that is being written; `present`: the names of its pods."""
        gang = self._gangs.get(key)
        if gang is not None and (group is None or group.metadata.uid != gang.group.metadata.uid):
            changes = self._leave(key, now)
            return changes if group is None else [*changes, *self.follow(key, group, present, now)]
        if group is None or (gang is None and not has_seats(group)):
            return []
        if gang is None:
            gang = self._gangs[key] = _Gang(group, set(present), now)
        elif _says_the_same(gang.group, group):
            gang.group = group
            return []
        changes = self._read(key, gang, group, now)
        changes += self._refresh(gang, [*gang.names, *(name for name in gang.shown if name not in gang.names)])
        if not gang.shown and not has_seats(group):
            del self._gangs[key]
        return changes

    def pod(self, key: str, name: str, now: float, *, is_there: bool) -> list[Change]:
        """A pod of PodGroup `key` came or went."""
        gang = self._gangs.get(key)
        if gang is None or (name in gang.present) is is_there:
            return []
        was_empty = not gang.present
        if gang.placed:
            gang.since = now
        (gang.present.add if is_there else gang.present.discard)(name)
        return self._refresh(gang, gang.names if gang.is_open and was_empty is bool(gang.present) else [name])

    def claim(self, key: str, nodes: Mapping[str, str], now: float) -> list[Change]:
        """Seats of PodGroup `key` were given nodes, by the names of their pods, which is to be written."""
        gang = self._gangs.get(key)
        if gang is None:
            return []
        gang.claimed |= nodes
        gang.since = gang.placed_at = now
        return self._refresh(gang, list(nodes))

    def unclaim(self, key: str) -> list[Change]:
        """What was claimed for PodGroup `key` could not be written."""
        gang = self._gangs.get(key)
        if gang is None or not (gang.claimed or gang.is_sealed):
            return []
        gang.is_sealed, gang.claimed = False, {}
        return self._refresh(gang, gang.names)

    def claims(self) -> list[str]:
        """The PodGroups for which something is claimed, or that get nothing, which is to be said."""
        return [key for key, gang in self._gangs.items() if gang.claimed or gang.is_sealed]

    def asking(self) -> frozenset[str]:
        """The PodGroups that ask for seats after they were let in, and have no answer."""
        return frozenset(self._asking)

    def answers(self) -> list[str]:
        """Those of them of which it is known what they get, to be written."""
        return [key for key in self._asking if self._gangs[key].is_sealed]

    def seal(self, key: str) -> list[Change]:
        """A session has looked at PodGroup `key`, which asks for seats: what is claimed is all that it gets."""
        gang = self._gangs.get(key)
        if gang is None or key not in self._asking or gang.is_sealed:
            return []
        gang.is_sealed = True
        return self._refresh(gang, gang.names)

    def placement(self, key: str) -> str:
        """The annotation that gives PodGroup `key` what is claimed for it; empty if nothing is to be said.

        Raises:
            SeatsError: it would be too long.
        """
        gang = self._gangs.get(key)
        if gang is None or not (gang.claimed if gang.asked is None else gang.is_sealed):
            return ""
        nodes = dict.fromkeys(gang.asked or (), "")
        nodes |= {gang.names[name]: node for name, node in gang.claimed.items() if name in gang.names}
        return encode(placed(gang.seats.generation, nodes))

    def emptied(self, key: str) -> str | None:
        """The annotation of PodGroup `key` once nobody needs its placement any more, None for none at all.

        Without any answer, what it asks for would be placed again.
        """
        gang = self._gangs.get(key)
        return None if gang is None or gang.asked is None else encode(Placement(generation=gang.seats.generation))

    def is_used_up(self, key: str) -> bool:
        """Whether PodGroup `key` has a placement of which every seat has its pod, so that it says nothing any more."""
        gang = self._gangs.get(key)
        return gang is not None and bool(gang.placed) and not any(shown.node for shown in gang.shown.values())

    def outstanding(self) -> Iterator[tuple[str, Outstanding]]:
        """The PodGroups with seats that were placed and written and have no pods yet.

        Who makes pods begins with the gang that was placed first: as long as pods of such a one come, those behind it only wait.
        """
        latest = 0.0
        for key, gang in sorted(self._gangs.items(), key=lambda item: item[1].placed_at or 0.0):
            if gang.placed_at is None:
                continue
            latest = max(latest, gang.since)
            tasks = {task.role: task for task in gang.seats.tasks}
            seats = (gang.names[name] for name, shown in gang.shown.items() if shown.node and name not in gang.claimed)
            nodes = {
                gang.placed[seat]: pod_of(gang.group.metadata, gang.seats.generation, tasks[seat.role], seat.index)
                for seat in seats
                if seat in gang.placed
            }
            if nodes:
                yield key, Outstanding(gang.group, nodes, gang.since if gang.withdrawn else latest, gang.withdrawn)

    def expired(self, now: float) -> list[Change]:
        """Seats of PodGroups that went long enough ago."""
        uids = [uid for uid, until in self._lingering.items() if until <= now]
        for uid in uids:
            del self._lingering[uid]
        return [Change(uid, None, "") for uid in uids]

    def _leave(self, key: str, now: float) -> list[Change]:
        """PodGroup `key` is no more: what was written still counts for a while."""
        gang = self._gangs.pop(key)
        self.problems.pop(key, None)
        self._asking.discard(key)
        changes = []
        for name, shown in gang.shown.items():
            if shown.node and name not in gang.claimed:
                self._lingering[shown.uid] = now + LINGER_SECONDS
            else:
                changes.append(Change(shown.uid, None, ""))
        return changes

    def _read(self, key: str, gang: _Gang, group: Group, now: float) -> list[Change]:
        """Take up what the annotations say. Seats of another generation are no more, whatever was decided about them."""
        annotations = group.metadata.annotations
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
        changes = []
        if seats.generation != gang.seats.generation:
            changes = [Change(shown.uid, None, "") for shown in gang.shown.values()]
            gang.shown, gang.claimed, gang.is_sealed, gang.placed_at = {}, {}, False, None
        if has_placement and gang.placed_at is None:
            gang.since = gang.placed_at = now
        if gang.withdrawn and not was_withdrawn:
            gang.since = now
        if seats is not gang.seats:
            gang.names = dict(seats.names())
            gang.asked = None if seats.asked is None else seats.wanted()
        gang.seats, gang.placed = seats, nodes
        if has_placement:
            gang.claimed, gang.is_sealed = {}, False
        may_be_open = self._is_enabled and not has_placement and not group.metadata.is_terminating
        gang.is_open = may_be_open and (_is_pending(group) if gang.asked is None else bool(gang.asked))
        (self._asking.add if gang.is_open and gang.asked else self._asking.discard)(key)
        return changes

    def _refresh(self, gang: _Gang, names: Iterable[str]) -> list[Change]:
        """What is to be done so that the seats of these pods are tasks as they should be."""
        changes = []
        tasks = {task.role: task for task in gang.seats.tasks}
        for name in names:
            node, shown, seat = gang.wanted(name), gang.shown.get(name), gang.names.get(name)
            if node is None or seat is None:
                if shown is not None:
                    del gang.shown[name]
                    changes.append(Change(shown.uid, None, ""))
                continue
            uid = uid_of(gang.group.metadata, gang.seats.generation, seat)
            if shown != (uid, node):
                self._lingering.pop(uid, None)
                gang.shown[name] = _Shown(uid, node)
                changes.append(
                    Change(uid, pod_of(gang.group.metadata, gang.seats.generation, tasks[seat.role], seat.index), node)
                )
        return changes


def _says_the_same(old: Group, new: Group) -> bool:
    """Whether nothing changed that seats follow from; counts and conditions change often."""
    a, b = old.metadata, new.metadata
    said = all(a.annotations.get(key) == b.annotations.get(key) for key in (keys.SEATS, keys.PLACEMENT))
    return said and _is_pending(old) is _is_pending(new) and a.is_terminating is b.is_terminating


def _is_pending(group: Group) -> bool:
    return group.status.phase is PodGroupPhase.PENDING


def has_seats(group: Group) -> bool:
    """Whether `group` says anything of seats. Groups of Kubernetes' own kind have none: anybody may annotate these."""
    return group.keeps_phase and keys.SEATS in group.metadata.annotations

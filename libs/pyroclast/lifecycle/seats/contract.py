"""The two annotations by which a gang is placed before its pods exist: its seats, and their placement.

The creator of the pods publishes *seats*; the scheduler answers with a *placement*, and takes the future pod for each seat.
Both are JSON texts of limited length with a version, so that any controller can use them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from pyroclast.api import keys, records
from pyroclast.api.records.meta import Wire
from pyroclast.resources.indexes import spans_of

VERSION: Final = 1
LONGEST: Final = 96 * 1024
"""The longest text of one annotation, in characters. The API server accepts 256 kB for all annotations of an object."""
MOST_SEATS: Final = 5000
_MOST_TASKS: Final = 256
_NODE: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9-])?")

_T = TypeVar("_T")

Run: TypeAlias = tuple[str, int]
"""A node, and the number of consecutive seats on that node; an empty node: these seats have no node."""

Row: TypeAlias = tuple[int, int]
"""The first index of consecutive seats, and their number."""


class SeatsError(ValueError):
    """An annotation violates the contract; the text names the field and the error."""


@dataclass(frozen=True, slots=True)
class Seat:
    """One pod of a gang that does not exist yet: its role and its index in the role."""

    role: str
    index: int


class PodTemplate(Wire, frozen=True, kw_only=True):
    """The fields of a pod that scheduling reads."""

    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    spec: records.PodSpec = records.PodSpec()


class TaskSeats(Wire, frozen=True, kw_only=True):
    """The seats of one role: `count` pods whose names are `prefix` and an index from 0."""

    role: str
    prefix: str
    count: int
    pod: PodTemplate = PodTemplate()


class Seats(Wire, frozen=True, kw_only=True):
    """The seats of a gang. `way`: the `SeatRefusal` because of which the gang has no seats; `tasks` is empty then.

    A later `generation` replaces an earlier one and its placement. `asked`: the seats, by role, for which the creator of the pods
    requests a placement after the gang was admitted. The creator waits for the placement. None when a placement of all seats is
    requested at the admission of the gang.
    """

    version: int = VERSION
    generation: int = 1
    tasks: tuple[TaskSeats, ...] = ()
    way: str = ""
    asked: Mapping[str, tuple[Row, ...]] | None = None

    def names(self) -> Iterator[tuple[str, Seat]]:
        """Yield the name of each pod, with its seat."""
        for task in self.tasks:
            for index in range(task.count):
                yield f"{task.prefix}{index}", Seat(task.role, index)

    def task(self, role: str) -> TaskSeats | None:
        """Return the seats of `role`; None when there are none."""
        return next((task for task in self.tasks if task.role == role), None)

    def wanted(self) -> frozenset[Seat]:
        """Return the seats that `asked` names."""
        rows = ((role, row) for role, rows in (self.asked or {}).items() for row in rows)
        return frozenset(Seat(role, index) for role, (first, count) in rows for index in range(first, first + count))


class Placement(Wire, frozen=True, kw_only=True):
    """The nodes of the seats of one `generation`: for each role its seats by index, with consecutive equal nodes as one entry.

    `withdrawn`: why no further pod may be created on the seats, in one word; empty while the placement is valid.
    """

    version: int = VERSION
    generation: int = 1
    nodes: Mapping[str, tuple[Run, ...]] = {}
    withdrawn: str = ""

    def seats(self) -> dict[Seat, str]:
        """Return the node of each seat that has one."""
        return {seat: node for seat, node in self.answers().items() if node}

    def answers(self) -> dict[Seat, str]:
        """Return the node of each seat that the placement names; empty for a seat without a node."""
        found: dict[Seat, str] = {}
        for role, runs in self.nodes.items():
            index = 0
            for node, count in runs:
                found.update((Seat(role, at), node) for at in range(index, index + count))
                index += count
        return found


def nodes_of(seats: Seats, placement: Placement) -> dict[Seat, str]:
    """Return the node of each seat that has one; empty when the placement is for another generation.

    Raises SeatsError: the placement has a seat that does not exist.
    """
    if placement.generation != seats.generation:
        return {}
    found = placement.seats()
    counts = {task.role: task.count for task in seats.tasks}
    for seat in found:
        _require(seat.index < counts.get(seat.role, 0), f"nodes.{seat.role}: there is no seat {seat.index}")
    return found


def asking(seats: Iterable[Seat]) -> dict[str, tuple[Row, ...]]:
    """Return `seats` as rows by role, the form of `Seats.asked`."""
    found: dict[str, list[int]] = {}
    for seat in sorted(seats, key=lambda each: (each.role, each.index)):
        found.setdefault(seat.role, []).append(seat.index)
    return {role: tuple((first, stop - first) for first, stop in spans_of(indexes)) for role, indexes in found.items()}


def placed(generation: int, nodes: Mapping[Seat, str]) -> Placement:
    """Return the placement that gives each seat its node; an empty node means that the seat gets none."""
    by_role: dict[str, dict[int, str]] = {}
    for seat, node in nodes.items():
        by_role.setdefault(seat.role, {})[seat.index] = node
    runs = {}
    for role, found in sorted(by_role.items()):
        row = [found.get(index, "") for index in range(max(found) + 1)]
        runs[role] = tuple((node, len(list(group))) for node, group in groupby(row))
    return Placement(generation=generation, nodes=runs)


def encode(value: Seats | Placement) -> str:
    """Return the text of the annotation; equal values have equal texts.

    Raises SeatsError: the text is longer than an annotation may be.
    """
    text = _ENCODER.encode({**compact(value), "version": value.version}).decode()
    if len(text) > LONGEST:
        raise SeatsError(f"the text has {len(text)} characters: at most {LONGEST} are allowed")
    return text


def compact(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return `value` as plain JSON, without fields of records that have their default; maps keep all their entries."""
    if isinstance(value, msgspec.Struct):
        fields = ((field, getattr(value, field.name)) for field in _fields(type(value)))
        return {field.encode_name: compact(each) for field, each in fields if not _is_default(field, each)}
    if isinstance(value, Mapping):
        return {key: compact(each) for key, each in value.items()}
    return [compact(each) for each in value] if isinstance(value, list | tuple) else value


@cache  # it evaluates the annotations of the class
def _fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def _is_default(field: msgspec.structs.FieldInfo, value: object) -> bool:
    if field.default is not msgspec.NODEFAULT:
        return bool(value == field.default)
    return field.default_factory is not msgspec.NODEFAULT and bool(value == field.default_factory())


@lru_cache(512)  # called for every change of a pod of the gang
def parse_seats(text: str) -> Seats:
    """Parse an annotation with seats. Raises SeatsError: the text is not valid."""
    seats = _decoded(text, _SEATS)
    _require(seats.version == VERSION, f"version: {seats.version} is not known: {VERSION} is")
    _require(seats.generation >= 1, f"generation: {seats.generation} is below 1")
    _require(not (seats.way and seats.tasks), "way: there are tasks beside it")
    _require(len(seats.tasks) <= _MOST_TASKS, f"tasks: {len(seats.tasks)} are more than {_MOST_TASKS}")
    for i, task in enumerate(seats.tasks):
        _require(bool(task.role), f"tasks[{i}].role: is empty")
        _require(bool(_NAME.fullmatch(task.prefix)), f"tasks[{i}].prefix: {task.prefix!r} begins no name of a pod")
        _require(task.count >= 0, f"tasks[{i}].count: {task.count} is below 0")
    total = sum(task.count for task in seats.tasks)
    _require(total <= MOST_SEATS, f"tasks: {total} seats are more than {MOST_SEATS}")
    _require(len({task.role for task in seats.tasks}) == len(seats.tasks), "tasks: two have one role")
    _require(len({name for name, _ in seats.names()}) == total, "tasks: two pods would have one name")
    counts = {task.role: task.count for task in seats.tasks}
    for role, rows in (seats.asked or {}).items():
        for first, count in rows:
            is_there = first >= 0 and count >= 1 and first + count <= counts.get(role, 0)
            _require(is_there, f"asked.{role}: there are no {count} seats from {first} on")
    return seats


@lru_cache(512)
def parse_placement(text: str) -> Placement:
    """Parse an annotation with a placement. Raises SeatsError: the text is not valid."""
    placement = _decoded(text, _PLACEMENT)
    _require(placement.version == VERSION, f"version: {placement.version} is not known: {VERSION} is")
    _require(placement.generation >= 1, f"generation: {placement.generation} is below 1")
    total = 0
    for role, runs in placement.nodes.items():
        for node, count in runs:
            _require(count >= 1, f"nodes.{role}: {count} seats in a row are fewer than 1")
            _require(not node or bool(_NODE.fullmatch(node)), f"nodes.{role}: {node!r} is no name of a node")
            total += count
    _require(total <= MOST_SEATS, f"nodes: {total} seats are more than {MOST_SEATS}")
    return placement


_ENCODER: Final = msgspec.json.Encoder(order="sorted")
_SEATS: Final = msgspec.json.Decoder(Seats)
_PLACEMENT: Final = msgspec.json.Decoder(Placement)


def _decoded(text: str, decoder: msgspec.json.Decoder[_T]) -> _T:
    _require(len(text) <= LONGEST, f"the text has {len(text)} characters: at most {LONGEST} are allowed")
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise SeatsError(str(error)) from None


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise SeatsError(message)


_PREFIXES: Final = ("volcano.sh/", "scheduling.volcano.sh/", "scheduling.k8s.io/")
_PER_POD: Final = frozenset({keys.TASK_INDEX, keys.JOB_VERSION, keys.JOB_RETRY_COUNT, keys.CREATED_ON_NODE})
_UID: Final = "seat:"


def template_of(pod: records.Pod) -> PodTemplate:
    """Return the fields of `pod` that scheduling reads, without those that differ between pods of one task."""
    meta = pod.metadata
    return PodTemplate(
        labels={key: value for key, value in meta.labels.items() if key != keys.TASK_INDEX},
        annotations={key: value for key, value in meta.annotations.items() if key.startswith(_PREFIXES) and key not in _PER_POD},
        # Volcano's PodGroup takes precedence over a scheduling group
        spec=msgspec.structs.replace(pod.spec, node_name="", volumes=(), scheduling_group=None),
    )


def name_of(task: TaskSeats, index: int) -> str:
    """Return the name of the pod of a seat."""
    return f"{task.prefix}{index}"


def uid_of(group: records.Meta, generation: int, seat: Seat) -> str:
    """Return the UID that represents the pod of a seat of this PodGroup; an API server never generates such a UID."""
    return f"{_UID}{group.uid}:{generation}:{seat.role}/{seat.index}"


def is_seat(uid: str) -> bool:
    """Whether `uid` represents a seat and not a pod."""
    return uid.startswith(_UID)


def pod_of(group: records.Meta, generation: int, task: TaskSeats, index: int) -> records.Pod:
    """Return the future pod of a seat of the PodGroup with metadata `group`, pending since the creation of the PodGroup."""
    own = {keys.TASK_INDEX: str(index)}
    return records.Pod(
        metadata=records.Meta(
            name=name_of(task, index),
            namespace=group.namespace,
            uid=uid_of(group, generation, Seat(task.role, index)),
            creation_timestamp=group.creation_timestamp,
            labels={**task.pod.labels, **own},
            annotations={**task.pod.annotations, keys.GROUP_NAME: group.name, **own},  # whatever the template says
        ),
        spec=task.pod.spec,
    )

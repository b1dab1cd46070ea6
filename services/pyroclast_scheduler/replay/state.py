"""What a session begins with, as it stands in a snapshot: objects as records, and what is assumed and remembered beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

import msgspec

from pyroclast.api import records
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.groups import GroupStatus
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.ports import NodeUsage

__all__ = ["FORM", "Circumstances", "NotReplayable", "State", "encoded", "read"]

_ENCODER: Final = msgspec.json.Encoder()
FORM: Final = 2
"""Rises when a state of before could no longer be decided as it was."""


class NotReplayable(ValueError):
    """The snapshot cannot be decided again; the text says why."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a session is given beside the cluster, see `Ports`. `memory`: what of it can be written down.

    `is_hard`: of `shard`, the nodes that are our own; None where we are alone. `unwritten`: names of what is remembered and
    cannot be written down.
    """

    now: float
    period: int
    scheduler: str
    shard: tuple[str, ...] | None = None
    is_hard: bool = False
    usage: Mapping[str, NodeUsage] = field(default_factory=dict)
    memory: Mapping[str, Any] = field(default_factory=dict)
    unwritten: tuple[str, ...] = ()
    reservations: Mapping[str, Reservation] | None = None
    elsewhere: Mapping[str, Amounts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class State:
    """All that one session begins with, so that its decisions can be repeated.

    `rows`: names of nodes in the order of the table; those that are not among `nodes` are known from their pods alone.

    `pods` stand in the order in which they came, PodGroups with the status that is being written. `objects`: by name of the
    record's type, what plugins asked for, our own writes on their way included. `assumed`: by UID, the kind of an assumption and
    its node. `strangers`: by group, the schedulers that others of its pods wait for, by UID. `problems`: why objects are left
    out, which are not here. `native_groups`, `composite_groups`: those of Kubernetes' own API; `statuses`: those of their groups
    that are in memory alone; `queues_of_jobs`, `queues_of_namespaces`: which queues these name, by UID and by name.
    """

    configuration: Configuration
    circumstances: Circumstances
    scheduler_names: tuple[str, ...]
    default_queue: str
    is_shared: bool
    dimensions: tuple[str, ...]
    rows: tuple[str, ...]
    nodes: tuple[records.Node, ...]
    queues: tuple[records.Queue, ...]
    priorities: tuple[records.PriorityClass, ...]
    groups: tuple[records.PodGroup, ...]
    pods: tuple[records.Pod, ...]
    objects: Mapping[str, tuple[Any, ...]]
    assumed: Mapping[str, tuple[str, str]]
    held: Mapping[str, str]
    refused: Mapping[str, str]
    strangers: Mapping[str, Mapping[str, str]]
    problems: Mapping[str, str]
    native_groups: tuple[records.NativePodGroup, ...] = ()
    composite_groups: tuple[records.CompositePodGroup, ...] = ()
    statuses: Mapping[str, GroupStatus] = field(default_factory=dict)
    queues_of_jobs: Mapping[str, str] = field(default_factory=dict)
    queues_of_namespaces: Mapping[str, str] = field(default_factory=dict)
    form: int = FORM


def encoded(state: State) -> Iterator[bytes]:
    """The state as JSON in pieces, object by object, so that a large one does not keep other threads from the interpreter."""
    opening = b"{"
    for each in fields(state):
        value = getattr(state, each.name)
        yield opening + _ENCODER.encode(each.name) + b":"
        opening = b","
        if not isinstance(value, tuple):
            yield _ENCODER.encode(value)
            continue
        for i, item in enumerate(value):
            yield (b"," if i else b"[") + _ENCODER.encode(item)
        yield b"]" if value else b"[]"
    yield b"}"


def read(body: bytes) -> State:
    """The state in the body of a snapshot.

    Raises:
        NotReplayable: it is none, lacks something, or is of another form.
    """
    try:
        document = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise NotReplayable(f"not JSON: {error}") from error
    found = document.get("replay") if isinstance(document, dict) else None
    if not isinstance(found, dict):
        raise NotReplayable("no snapshot of a scheduler: it has no part named replay")
    if found.get("form") != FORM:
        raise NotReplayable(f"of form {found.get('form')}, while this scheduler reads form {FORM}")
    try:
        return msgspec.convert(found, State, strict=False)
    except msgspec.ValidationError as error:
        raise NotReplayable(f"replay: {error}") from error

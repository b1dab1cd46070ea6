"""The input of a session in a snapshot: objects as records, assumptions, and the memory of plugins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

import msgspec

from pyroclast.api import records
from pyroclast.lifecycle.gang.groups import GroupStatus
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.ports import NodeUsage

_ENCODER: Final = msgspec.json.Encoder()
FORM: Final = 2
"""The version of the format. It increases when older states could not be decided in the same way any more."""


class NotReplayable(ValueError):
    """The snapshot cannot be decided again; the message says why."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The values of a session's ports that can be stored, see `Ports`.

    `shard`: the nodes of this scheduler, None if it may use all. `is_hard`: whether the shard is hard. `memory`: the plugins'
    memory that can be stored. `unwritten`: the names of the values that cannot be stored.
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
    """The complete input of one session, so that its decisions can be repeated.

    Attributes:
        rows: the names of nodes in the order of the table; nodes that are missing in `nodes` are only known from their pods.
        groups: the PodGroups with the statuses that are being written.
        pods: the pods in the order of their creation events.
        objects: the objects that plugins watch, by record type, with unconfirmed writes applied.
        assumed: the kind and node of each assumption, by UID of the pod.
        held: the job of each held pod, by UID.
        refused: the job of each pod whose bind was refused, by UID.
        strangers: the schedulers of pending pods of other schedulers, by group and UID.
        problems: why objects are left out; these objects are not included.
        native_groups: the PodGroups of the Kubernetes API.
        composite_groups: the CompositePodGroups.
        statuses: the statuses of groups that exist in memory only.
        queues_of_jobs: the queues that batch/v1 Jobs name, by UID.
        queues_of_namespaces: the queues that Namespaces name, by name.
        undecodable_nodes: why nodes cannot be read as a whole, by name.
        form: the version of the format.
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
    undecodable_nodes: Mapping[str, str] = field(default_factory=dict)
    form: int = FORM


def encoded(state: State) -> Iterator[bytes]:
    """Yield the state as JSON in pieces, object by object, so that a large state does not block other threads."""
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
    """Return the state in the body of a snapshot.

    Raises:
        NotReplayable: the body is not a snapshot, is incomplete, or has another version of the format.
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

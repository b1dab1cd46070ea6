"""What users ordered of the objects of one kind: their Commands, oldest first, and how far each has come.

A Command stays until it is done, and is the only durable copy of the order. What is remembered here beside can be lost: the
status of the target names the Command that was carried out last, and the others are read anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from typing import Generic, TypeVar

import structlog

from pyroclast.api.records import Command, Record
from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.watch.own_writes import Recent
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast_job_controller.caches import TARGET
from pyroclast_job_controller.shared import Shared

__all__ = ["Orders", "Stage", "Targets", "is_meant", "target_of"]

log = structlog.get_logger()

T = TypeVar("T", bound=Record)


@dataclass(frozen=True, slots=True)
class Targets(Generic[T]):
    """The objects of one kind that Commands may be for, and the type that they are decoded into.

    `last_command`: the uid of the Command that was carried out last, as the status has it; `look_at`: called with the key of an
    object for which something is to be done.
    """

    kind: ResourceType
    objects: Recent[T]
    record: type[T]
    last_command: Callable[[T], str]
    look_at: Callable[[Key], None]


class Stage(Enum):
    """How far a Command has come."""

    SEEN = "seen"
    """The watch has shown it, which may be late."""
    THERE = "there"
    """It was read anew since we are responsible: nobody carried it out or took it back before."""
    DONE = "done"
    """It was carried out, or it was said why not: it is only to be deleted."""
    GONE = "gone"
    """It was deleted, which the watch will show."""


class Orders(Generic[T]):
    """The Commands for objects of one kind.

    The next is begun when the one before it has been deleted: so the status has to name only one, and none comes back after a
    later one was carried out.

    Args:
        shared: what is watched.
        targets: what they are for.
        queue: keys of Commands.
    """

    def __init__(self, shared: Shared, targets: Targets[T], queue: ShardedQueue[Key]) -> None:
        self._commands, self._targets, self._queue = shared.caches.commands, targets, queue
        self._stages: dict[str, Stage] = {}
        shared.shards.on_give(self._forget)

    def of(self, target: T) -> tuple[Command, ...]:
        """What is to be done with `target`, oldest first."""
        mine = sorted((command for command in self.naming(target.key) if is_meant(command, target)), key=_age)
        if any(self.stage(command) is Stage.DONE or self.is_carried_out(command, target) for command in mine):
            return ()
        return tuple(takewhile(lambda command: self.stage(command) is Stage.THERE, mine))

    def done(self, target: T, uid: str) -> None:
        """The Command of that uid was carried out, or will not be; it is deleted then."""
        for command in self.naming(target.key):
            if command.metadata.uid == uid:
                log.info("command.done", command=str(command.key), action=command.action, target=str(target.key))
                self.reach(command, Stage.DONE)
                self._queue.add(command.key)

    def naming(self, key: Key) -> list[Command]:
        """The Commands for the target of `key`, of whatever uid, that are still there as far as we know."""
        named = self._commands.by_index(TARGET, key.name)
        return [
            command
            for command in named
            if self.concerns(command) and target_of(command, self._targets.kind) == key and self.stage(command) is not Stage.GONE
        ]

    def concerns(self, command: Command) -> bool:
        """Whether `command` is for an object of this kind."""
        target, kind = command.target, self._targets.kind
        return target is not None and target.kind == kind.kind and target.api_version == kind.api_version

    def is_carried_out(self, command: Command, target: T) -> bool:
        """Whether the status of `target` says so."""
        return self._targets.last_command(target) == command.metadata.uid

    def stage(self, command: Command) -> Stage:
        """How far `command` has come."""
        return self._stages.get(command.metadata.uid, Stage.SEEN)

    def reach(self, command: Command, stage: Stage) -> None:
        """`command` has come so far. One that the watch has shown to be gone meanwhile is not remembered."""
        shown = self._commands.get(command.key)
        if shown is not None and shown.metadata.uid == command.metadata.uid:
            self._stages[command.metadata.uid] = stage

    def ended(self, command: Command) -> None:
        """The watch shows `command` no more."""
        self._stages.pop(command.metadata.uid, None)

    def _forget(self, selected: Callable[[Key], bool]) -> None:
        for command in self._commands.values():
            if self.concerns(command) and selected(target_of(command, self._targets.kind)):
                self.ended(command)


def target_of(command: Command, kind: ResourceType) -> Key:
    """The key of what `command` is for, if that is a `kind`."""
    name = command.target.name if command.target else ""
    return Key(command.metadata.namespace if kind.namespaced else "", name)


def is_meant(command: Command, target: Record) -> bool:
    """Whether `target` is the very one; a Command may leave the uid out."""
    uid = command.target.uid if command.target else ""
    return not uid or uid == target.metadata.uid


def _age(command: Command) -> tuple[str, int, str]:
    """Commands in order of creation; of one second, in that of their versions, which count up."""
    version = command.metadata.resource_version
    return command.metadata.creation_timestamp or "", len(version), version

"""The Commands for the objects of one kind, oldest first, and the stage of each Command.

A Command exists until it is done, and is the only durable copy of the request. The stages in memory may be lost. The status of
the target names the Command that was carried out last, and all other Commands are read again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from typing import Generic, TypeVar

import structlog

from pyroclast.api import keys
from pyroclast.api.commands import authorization
from pyroclast.api.records import Command, Record
from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.watch.own_writes import Recent
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast_job_controller.caches import TARGET
from pyroclast_job_controller.shared import Shared

log = structlog.get_logger()

T = TypeVar("T", bound=Record)


@dataclass(frozen=True, slots=True)
class Targets(Generic[T]):
    """The objects of one kind that Commands may name, and the type of their records.

    Attributes:
        last_command: returns the UID in the object's status of the Command that was carried out last.
        look_at: enqueues the key of an object with a new Command.
    """

    kind: ResourceType
    objects: Recent[T]
    record: type[T]
    last_command: Callable[[T], str]
    look_at: Callable[[Key], None]


class Stage(Enum):
    """The stage of a Command."""

    SEEN = "seen"
    """The watch has delivered the Command. The watch may be late."""
    THERE = "there"
    """The Command was read from the server since this replica leads. So it was neither carried out nor deleted before."""
    DONE = "done"
    """The Command was carried out or rejected with an Event. Only its deletion remains."""
    GONE = "gone"
    """The Command was deleted. The watch will deliver the deletion."""


class Orders(Generic[T]):
    """The Commands for the objects of one kind.

    A Command begins only after the previous one was deleted. So the status needs to name only one Command, and no earlier Command
    is repeated after a later one.

    Args:
        shared: clients, caches, clock and metrics of the process.
        targets: the objects that the Commands may name.
        queue: the keys of Commands.
    """

    def __init__(self, shared: Shared, targets: Targets[T], queue: ShardedQueue[Key]) -> None:
        self._commands, self._targets, self._queue = shared.caches.commands, targets, queue
        self._stages: dict[str, Stage] = {}
        shared.shards.on_give(self._forget)

    def of(self, target: T) -> tuple[Command, ...]:
        """Return the Commands to carry out on `target`, oldest first."""
        mine = sorted((command for command in self.naming(target.key) if is_meant(command, target)), key=_age)
        if any(self.stage(command) is Stage.DONE or self.is_carried_out(command, target) for command in mine):
            return ()
        return tuple(takewhile(lambda command: self.stage(command) is Stage.THERE, mine))

    def done(self, target: T, uid: str) -> None:
        """Mark the Command with this UID as done, so that it is deleted."""
        for command in self.naming(target.key):
            if command.metadata.uid == uid:
                log.info("command.done", command=str(command.key), action=command.action, target=str(target.key))
                self.reach(command, Stage.DONE)
                self._queue.add(command.key)

    def naming(self, key: Key) -> list[Command]:
        """Return the authorized Commands for the key of a target that were not deleted. The UID of the target is not compared.

        A Command that waits for its authorization delays no other.
        """
        named = self._commands.by_index(TARGET, key.name)
        return [
            command
            for command in named
            if self.concerns(command)
            and is_authorized(command)
            and target_of(command, self._targets.kind) == key
            and self.stage(command) is not Stage.GONE
        ]

    def concerns(self, command: Command) -> bool:
        """Return whether `command` names an object of this kind."""
        target, kind = command.target, self._targets.kind
        return target is not None and target.kind == kind.kind and target.api_version == kind.api_version

    def is_carried_out(self, command: Command, target: T) -> bool:
        """Return whether the status of `target` says that `command` was carried out."""
        return self._targets.last_command(target) == command.metadata.uid

    def stage(self, command: Command) -> Stage:
        """Return the stage of `command`."""
        return self._stages.get(command.metadata.uid, Stage.SEEN)

    def reach(self, command: Command, stage: Stage) -> None:
        """Set the stage of `command`, unless the watch has delivered its deletion meanwhile."""
        shown = self._commands.get(command.key)
        if shown is not None and shown.metadata.uid == command.metadata.uid:
            self._stages[command.metadata.uid] = stage

    def ended(self, command: Command) -> None:
        """Forget the stage of `command` after the watch delivered its deletion."""
        self._stages.pop(command.metadata.uid, None)

    def _forget(self, selected: Callable[[Key], bool]) -> None:
        for command in self._commands.values():
            if self.concerns(command) and selected(target_of(command, self._targets.kind)):
                self.ended(command)


def target_of(command: Command, kind: ResourceType) -> Key:
    """Return the key of the target of `command`, provided that the target is a `kind`."""
    name = command.target.name if command.target else ""
    return Key(command.metadata.namespace if kind.namespaced else "", name)


def is_meant(command: Command, target: Record) -> bool:
    """Return whether `target` is the object that `command` means."""
    return command.target is not None and command.target.uid == target.metadata.uid


def is_authorized(command: Command) -> bool:
    """Return whether admission has checked that the user of `command` may do its action to its target."""
    uid = command.target.uid if command.target else ""
    return bool(uid) and command.metadata.annotations.get(keys.AUTHORIZED_FOR) == authorization(uid, command.action)


def _age(command: Command) -> tuple[str, int, str]:
    """Return the sort key: the creation time, then the resourceVersion, which increases."""
    version = command.metadata.resource_version
    return command.metadata.creation_timestamp or "", len(version), version

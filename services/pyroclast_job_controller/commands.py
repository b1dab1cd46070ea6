"""Commands: requests of users as objects. The controller of the target carries a Command out and then deletes it.

A Command exists until it is done, and is the only durable copy of the request. The stages in memory may be lost. The status of
the target names the Command that was carried out last, and all other Commands are read again. A Command that admission has not
authorized waits.
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
from pyroclast.api.types import COMMANDS, Key, ResourceType
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.http.response_records import found, has_deleted, record_of
from pyroclast.kube.watch.own_writes import Recent
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast_job_controller.caches import TARGET, Shared

log = structlog.get_logger()

T = TypeVar("T", bound=Record)


@dataclass(frozen=True, slots=True)
class Targets(Generic[T]):
    """The objects of one kind that Commands may name. `last_command` returns the UID of the Command that was carried out last.

    `look_at` enqueues the key of an object with a new Command.
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
    """

    def __init__(self, shared: Shared, targets: Targets[T], queue: ShardedQueue[Key]) -> None:
        self._commands, self._targets, self._queue = shared.caches.commands, targets, queue
        self._stages: dict[str, Stage] = {}
        shared.shards.on_give(self._forget)

    def of(self, target: T) -> tuple[Command, ...]:
        """Return the Commands to carry out on `target`, oldest first."""
        mine = sorted((command for command in self.naming(target.key) if is_meant(command, target)), key=_age)
        last = self._targets.last_command(target)
        if any(self.stage(command) is Stage.DONE or command.metadata.uid == last for command in mine):
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


ISSUED = "CommandIssued"
"""The reason of Events about Commands."""


class CommandController(Generic[T]):
    """Passes the Commands for targets of one kind to their controller, and deletes the Commands that are done."""

    def __init__(self, shared: Shared, targets: Targets[T], orders: Orders[T], queue: ShardedQueue[Key]) -> None:
        self._client, self._commands, self._recorder = shared.client, shared.caches.commands, shared.recorder
        self._targets, self._orders, self._queue = targets, orders, queue
        self._commands.on_change(self._changed)
        targets.objects.informer.on_change(self._target_changed)

    def enqueue_all(self) -> None:
        """Enqueue every Command of this replica's shards, after the replica became their leader."""
        for command in self._commands.values():
            self._changed(None, command)

    async def reconcile(self, key: Key) -> None:
        """Pass the Command `key` to the controller of its target, or delete the Command when it is done."""
        command = self._commands.get(key)
        if command is None or not self._orders.concerns(command) or self._orders.stage(command) is Stage.GONE:
            return
        if not is_authorized(command):
            self._wait(command)
            return
        if self._orders.stage(command) is Stage.SEEN and not await self._is_there(command):
            log.info("command.withdrawn", command=str(key))
            self._ended(command)
            return
        if self._orders.stage(command) is not Stage.DONE and not await self._is_done(command):
            if self._orders.stage(command) is Stage.SEEN:
                self._orders.reach(command, Stage.THERE)
                self._targets.look_at(target_of(command, self._targets.kind))
            return
        self._orders.reach(command, Stage.DONE)
        await has_deleted(self._client.delete(COMMANDS, key, uid=command.metadata.uid))
        self._ended(command)

    async def _is_there(self, command: Command) -> bool:
        """Return whether the server still has the Command.

        A late watch may show a Command that was carried out or deleted long ago.
        """
        answer = await found(self._client.get(COMMANDS, command.key))
        return answer is not None and record_of(answer, Command).metadata.uid == command.metadata.uid

    async def _is_done(self, command: Command) -> bool:
        """Return whether the Command was carried out already or has no valid target. For the latter, an Event is recorded."""
        target = await self._find(command)
        if target is not None and is_meant(command, target):
            return self._targets.last_command(target) == command.metadata.uid
        self._refuse(command, target)
        return True

    async def _find(self, command: Command) -> T | None:
        """Return the target.

        When the cache has no matching object, the target is read from the server: it may be created just before its Command.
        """
        key = target_of(command, self._targets.kind)
        known = self._targets.objects.get(key)
        if known is not None and is_meant(command, known):
            return known
        if (answer := await found(self._client.get(self._targets.kind, key))) is None:
            return None
        target = record_of(answer, self._targets.record)
        self._targets.objects.put(target, is_own=False)
        return target

    def _wait(self, command: Command) -> None:
        """Say that a Command waits because admission did not check it, and what the user can do."""
        if command.target and command.target.uid:
            why = "admission has not checked that its user may do this; delete the command and create it again"
        else:
            why = f"target.uid is empty; create the command again with the uid of the {self._targets.kind.kind}"
        log.warning("command.unauthorized", command=str(command.key), action=command.action)
        message = f"{command.action} of command {command.metadata.name} waits: {why}"
        self._recorder.event(Reference.of(command, COMMANDS), "Warning", ISSUED, message)

    def _refuse(self, command: Command, target: T | None) -> None:
        kind, what = self._targets.kind, f"{command.action} of command {command.metadata.name}"
        if target is None:
            about = Reference.of(command, COMMANDS)
            message = f"{what} was not carried out: {kind.kind} {target_of(command, kind)} does not exist"
        else:
            uid = command.target.uid if command.target else ""
            about = Reference.of(target, kind)
            message = f"{what} was not carried out: it is for the {kind.kind} with uid {uid}, which had this name before"
        self._recorder.event(about, "Warning", ISSUED, message)

    def _ended(self, command: Command) -> None:
        """Forget a deleted Command, so that the next Command for the same target begins."""
        self._orders.reach(command, Stage.GONE)
        key = target_of(command, self._targets.kind)
        if self._orders.naming(key):
            self._targets.look_at(key)

    def _changed(self, old: Command | None, new: Command | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._orders.ended(old)
            if self._orders.concerns(old) and self._orders.naming(key := target_of(old, self._targets.kind)):
                self._targets.look_at(key)
        if new is not None and self._orders.concerns(new):
            self._queue.add(new.key)

    def _target_changed(self, old: T | None, new: T | None) -> None:
        """Enqueue the Commands of a target that was deleted, was replaced, or whose status has changed."""
        target = new or old
        if target is not None:
            for command in self._orders.naming(target.key):
                self._queue.add(command.key)

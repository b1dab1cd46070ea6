"""Commands: orders that users put down as objects. Each is taken away first and carried out then, so at most once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from pyroclast.api.records import Command, Record
from pyroclast.api.types import COMMANDS, Key, ResourceType
from pyroclast.kube.answers import record_of
from pyroclast.kube.errors import Conflict, ConnectionFailed, KubeError, NotFound, ServerError
from pyroclast.kube.events import Reference
from pyroclast.kube.recent import Recent
from pyroclast.kube.sharded_queue import ShardedQueue
from pyroclast_job_controller.shared import Shared

__all__ = ["ISSUED", "CommandController", "Targets", "target_of"]

log = structlog.get_logger()

ISSUED = "CommandIssued"
"""The reason of Events about Commands."""

T = TypeVar("T", bound=Record)


def target_of(command: Command, kind: ResourceType) -> Key:
    """The key of what `command` is for, if that is a `kind`."""
    name = command.target.name if command.target else ""
    return Key(command.metadata.namespace if kind.namespaced else "", name)


@dataclass(frozen=True, slots=True)
class Targets(Generic[T]):
    """The objects of one kind that Commands may be for, and the type that they are decoded into."""

    kind: ResourceType
    objects: Recent[T]
    record: type[T]


class CommandController(Generic[T]):
    """Takes the Commands whose target is of one kind.

    Args:
        shared: the ways out.
        targets: what they are for.
        queue: keys of Commands.
        obey: called with the target and the Command once it is ours alone.
    """

    def __init__(self, shared: Shared, targets: Targets[T], queue: ShardedQueue[Key], obey: Callable[[T, Command], None]) -> None:
        self._client, self._commands, self._recorder = shared.client, shared.caches.commands, shared.recorder
        self._kind, self._targets, self._record = targets.kind, targets.objects, targets.record
        self._queue, self._obey = queue, obey
        self._unsure: dict[Key, Command] = {}  # whose deletion was asked for and got no answer
        shared.shards.on_give(self._forget)
        self._commands.on_change(self._changed)

    def enqueue_all(self) -> None:
        """Put down every Command that is for us: we have just become responsible."""
        for command in self._commands.values():
            self._changed(None, command)

    async def reconcile(self, key: Key) -> None:
        """Take the Command of `key` away and have it obeyed. If somebody else took it, they will."""
        command = self._unsure.get(key) or self._commands.get(key)
        if command is None or not self._is_ours(command):
            return
        target = await self._find(command)
        if await self._take_away(key, command):
            self._pass_on(command, target)

    async def _find(self, command: Command) -> T | None:
        """The target, asked for anew when what is known does not fit: it may have been made just before the Command."""
        key = target_of(command, self._kind)
        known = self._targets.get(key)
        if known is not None and self._is_meant(command, known):
            return known
        try:
            answer = await self._client.get(self._kind, key)
        except NotFound:
            return None
        found = record_of(answer, self._record)
        self._targets.put(found, is_own=False)
        return found

    async def _take_away(self, key: Key, command: Command) -> bool:
        """Delete the Command; whether it was we who did. An answer that got lost leaves that open until the next try."""
        try:
            await self._client.delete(COMMANDS, key, uid=command.metadata.uid)
        except (NotFound, Conflict) as error:
            lost = self._unsure.pop(key, None) is not None or (isinstance(error, NotFound) and error.after_lost_answer)
            if not lost and isinstance(error, Conflict):
                raise  # another has its name now, which the watch will show, or it is still there
            if not lost:
                log.debug("command.taken", command=str(key))
            return lost
        except (ConnectionFailed, ServerError):
            self._unsure[key] = command
            raise
        except KubeError as error:
            log.warning("command.stays", command=str(key), reason=error.message)
            raise
        self._unsure.pop(key, None)
        return True

    def _pass_on(self, command: Command, target: T | None) -> None:
        key, what = target_of(command, self._kind), f"{command.action} of command {command.metadata.name}"
        if target is None:
            about = Reference.of(command, COMMANDS)
            self._recorder.event(about, "Warning", ISSUED, f"{what} was not carried out: {self._kind.kind} {key} does not exist")
        elif not self._is_meant(command, target):
            uid = command.target.uid if command.target else ""
            about = Reference.of(target, self._kind)
            message = f"{what} was not carried out: it is for the {self._kind.kind} with uid {uid}, which had this name before"
            self._recorder.event(about, "Warning", ISSUED, message)
        else:
            log.info("command.obeyed", command=str(command.key), action=command.action, target=str(key))
            self._obey(target, command)

    def _changed(self, old: Command | None, new: Command | None) -> None:
        if old is None and new is not None and self._is_ours(new):
            self._queue.add(new.key)

    def _is_ours(self, command: Command) -> bool:
        target = command.target
        return target is not None and target.kind == self._kind.kind and target.api_version == self._kind.api_version

    def _forget(self, selected: Callable[[Key], bool]) -> None:
        gone = [key for key, command in self._unsure.items() if selected(target_of(command, self._kind))]
        for key in gone:
            del self._unsure[key]

    @staticmethod
    def _is_meant(command: Command, target: T) -> bool:
        """Whether `target` is the very one; a Command may leave the uid out."""
        uid = command.target.uid if command.target else ""
        return not uid or uid == target.metadata.uid

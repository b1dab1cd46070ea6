"""Commands: orders that users put down as objects. Each is taken away first and carried out then, so at most once."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from pyroclast.api.records import Command
from pyroclast.api.types import COMMANDS, Key, ResourceType
from pyroclast.kube.errors import Conflict, NotFound
from pyroclast.kube.queue import WorkQueue
from pyroclast_job_controller.shared import Shared

__all__ = ["CommandController"]

log = structlog.get_logger()


class CommandController:
    """Takes the Commands whose target is of one kind.

    Args:
        shared: the ways out.
        target: the kind that they are for.
        queue: keys of Commands.
        obey: called with the target's key and the Command once it is ours alone.
    """

    def __init__(self, shared: Shared, target: ResourceType, queue: WorkQueue[Key], obey: Callable[[Key, Command], None]) -> None:
        self._client, self._commands, self._shards = shared.client, shared.caches.commands, shared.shards
        self._target, self._queue, self._obey = target, queue, obey
        self._commands.on_change(self._changed)

    def look_at_all(self) -> None:
        """Put down every Command that is for us: we have just become responsible."""
        for command in self._commands.values():
            self._changed(None, command)

    async def reconcile(self, key: Key) -> None:
        """Take the Command of `key` away and have it obeyed. If somebody else took it, they will."""
        command = self._commands.get(key)
        if command is None or not self._is_ours(command):
            return
        try:
            await self._client.delete(COMMANDS, key, uid=command.metadata.uid)
        except (NotFound, Conflict):
            log.debug("command.taken", command=str(key))
            return
        target = self._target_of(command)
        log.info("command.obeyed", command=str(key), action=command.action, target=str(target))
        self._obey(target, command)

    def _changed(self, old: Command | None, new: Command | None) -> None:
        if old is None and new is not None and self._is_ours(new):
            self._queue.add(new.key)

    def _is_ours(self, command: Command) -> bool:
        target = command.target
        if target is None or target.kind != self._target.kind or target.api_version != self._target.api_version:
            return False
        return self._shards.owns(self._target_of(command))

    def _target_of(self, command: Command) -> Key:
        name = command.target.name if command.target else ""
        return Key(command.metadata.namespace if self._target.namespaced else "", name)

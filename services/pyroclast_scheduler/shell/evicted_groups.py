"""Groups whose pods were all evicted. The condition of such a group stays until its pods are placed again.

The pods may be deleted before the scheduler writes the condition. Without pods, only this module knows that the group is ours.
"""

from __future__ import annotations

from typing import NamedTuple

from pyroclast_scheduler.cache.native_groups import NativeGroups
from pyroclast_scheduler.model.groups import Group
from pyroclast_scheduler.model.tasks import TaskFacts
from pyroclast_scheduler.shell.pruning import Pruner


class _Eviction(NamedTuple):
    """The message of an eviction. `uid`: the UID of the group's object, because another object may get the same name."""

    uid: str
    message: str


class EvictedGroups:
    """The evicted groups by key. `natives`: the objects of the groups."""

    def __init__(self, natives: NativeGroups) -> None:
        self._natives = natives
        self._found: dict[str, _Eviction] = {}
        self._pruner = Pruner()

    def __contains__(self, key: object) -> bool:
        return key in self._found

    def add(self, task: TaskFacts) -> list[str]:
        """Add the groups that are evicted as a whole with `task`, and return their keys."""
        message = f"{task.pod.spec.scheduler_name}: preempting to accommodate a higher priority podgroup"
        self._pruner.prune(self._found, lambda key: bool(self.message(key)))
        keys = self._natives.gone_whole(task)
        for key in keys:
            if (group := self._natives.without_pods(key)) is not None:
                self._found[key] = _Eviction(group.metadata.uid, message)
        return keys

    def remove(self, key: str) -> None:
        """Remove a group whose pods are placed again."""
        del self._found[key]

    def message(self, key: str) -> str:
        """Return why the pods of a group were evicted; empty if they were not, or if the object of the group is deleted."""
        found = self._found.get(key)
        group = None if found is None else self._natives.without_pods(key)
        return "" if found is None or group is None or group.metadata.uid != found.uid else found.message

    def shown(self, key: str) -> Group | None:
        """Return the group as `NativeGroups.shown` does, and also an evicted group that has no pods left."""
        group = self._natives.shown(key)
        return self._natives.without_pods(key) if group is None and self.message(key) else group

"""Groups whose pods were all evicted: their objects say so until the pods have places again.

The pods may be gone before anything of this is written, and nothing else makes such an object one of ours then.
"""

from __future__ import annotations

from typing import NamedTuple

from pyroclast_scheduler.cache.native_groups import NativeGroups
from pyroclast_scheduler.model.groups import Group
from pyroclast_scheduler.model.tasks import TaskFacts
from pyroclast_scheduler.shell.pruning import Pruner

__all__ = ["EvictedGroups"]


class _Eviction(NamedTuple):
    """Why the pods of an object went; `uid`: of the object, as another one may get its name."""

    uid: str
    message: str


class EvictedGroups:
    """Keeps them by key. `natives`: where their objects are."""

    def __init__(self, natives: NativeGroups) -> None:
        self._natives = natives
        self._found: dict[str, _Eviction] = {}
        self._pruner = Pruner()

    def __contains__(self, key: object) -> bool:
        return key in self._found

    def add(self, task: TaskFacts, message: str) -> list[str]:
        """The keys of the groups that go whole with `task`, which are kept from now on. `message`: why it goes."""
        self._pruner.prune(self._found, lambda key: bool(self.message(key)))
        keys = self._natives.gone_whole(task)
        for key in keys:
            if (group := self._natives.without_pods(key)) is not None:
                self._found[key] = _Eviction(group.metadata.uid, message)
        return keys

    def remove(self, key: str) -> None:
        """The pods of a group have their places again."""
        del self._found[key]

    def message(self, key: str) -> str:
        """Why the pods of a group were evicted; empty if they were not, or if its object is gone."""
        found = self._found.get(key)
        group = None if found is None else self._natives.without_pods(key)
        return "" if found is None or group is None or group.metadata.uid != found.uid else found.message

    def shown(self, key: str) -> Group | None:
        """A group as `NativeGroups.shown` has it; of one that was evicted also when it has no pods left."""
        group = self._natives.shown(key)
        return self._natives.without_pods(key) if group is None and self.message(key) else group

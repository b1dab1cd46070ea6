"""Which actions and plugins there are: ours by name, those of others by entry point. Each is imported when first used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Final, Generic, TypeVar

from pyroclast_scheduler.framework.plugin import Action, PluginFactory

__all__ = ["ACTION_GROUP", "PLUGIN_GROUP", "actions", "plugins"]

ACTION_GROUP: Final = "pyroclast.scheduler.actions"
PLUGIN_GROUP: Final = "pyroclast.scheduler.plugins"

_ACTIONS: Final = {
    name: f"pyroclast_scheduler.actions.{name}:execute" for name in ("enqueue", "allocate", "backfill", "preempt", "reclaim")
}
_PLUGINS: Final = {
    "binpack": "pyroclast_scheduler.plugins.binpack:Binpack",
    "conformance": "pyroclast_scheduler.plugins.conformance:Conformance",
    "drf": "pyroclast_scheduler.plugins.drf:Drf",
    "gang": "pyroclast_scheduler.plugins.gang:Gang",
    "nodeorder": "pyroclast_scheduler.plugins.nodeorder:NodeOrder",
    "overcommit": "pyroclast_scheduler.plugins.overcommit:Overcommit",
    "predicates": "pyroclast_scheduler.plugins.predicates:Predicates",
    "priority": "pyroclast_scheduler.plugins.priority:Priority",
    "proportion": "pyroclast_scheduler.plugins.proportion:Proportion",
}

T = TypeVar("T")


class _Registry(Mapping[str, T], Generic[T]):
    """Names and what they stand for; an entry point does not replace one of ours."""

    def __init__(self, own: Mapping[str, str], group: str) -> None:
        self._found: dict[str, T] = {}
        self._places = {point.name: point.value for point in entry_points(group=group)} | dict(own)

    def __getitem__(self, name: str) -> T:
        found = self._found.get(name)
        if found is None:
            module, _, attribute = self._places[name].partition(":")
            found = self._found[name] = getattr(import_module(module), attribute)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def actions() -> Mapping[str, Action]:
    """All actions by name."""
    return _Registry(_ACTIONS, ACTION_GROUP)


def plugins() -> Mapping[str, PluginFactory]:
    """All plugins by name."""
    return _Registry(_PLUGINS, PLUGIN_GROUP)

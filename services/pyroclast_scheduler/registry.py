"""The available actions and plugins: the built-in ones by name, and those of other packages by entry point. Each is imported on
first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Final, Generic, TypeVar

import structlog

from pyroclast_scheduler.session.session import Action, PluginFactory

log = structlog.get_logger()

ACTION_GROUP: Final = "pyroclast.scheduler.actions"
PLUGIN_GROUP: Final = "pyroclast.scheduler.plugins"

_ACTIONS: Final = {
    name: f"pyroclast_scheduler.actions.{name}:execute"
    for name in (
        "enqueue",
        "allocate",
        "backfill",
        "preempt",
        "reclaim",
        "gangpreempt",
        "gangreclaim",
        "shuffle",
        "elect",
        "reserve",
    )
}
_PLUGINS: Final = {
    "binpack": "pyroclast_scheduler.plugins.binpack:Binpack",
    "capacity": "pyroclast_scheduler.plugins.capacity:Capacity",
    "cdp": "pyroclast_scheduler.plugins.cdp:Cdp",
    "conformance": "pyroclast_scheduler.plugins.conformance:Conformance",
    "deviceshare": "pyroclast_scheduler.plugins.deviceshare:DeviceShare",
    "drf": "pyroclast_scheduler.plugins.drf:Drf",
    "extender": "pyroclast_scheduler.plugins.extender:ExtenderPlugin",
    "gang": "pyroclast_scheduler.plugins.gang:Gang",
    "network-topology-aware": "pyroclast_scheduler.plugins.network_topology_aware:NetworkTopologyAware",
    "nodegroup": "pyroclast_scheduler.plugins.nodegroup:NodeGroup",
    "nodeorder": "pyroclast_scheduler.plugins.nodeorder:NodeOrder",
    "numa-aware": "pyroclast_scheduler.plugins.numa_aware:NumaAware",
    "overcommit": "pyroclast_scheduler.plugins.overcommit:Overcommit",
    "pdb": "pyroclast_scheduler.plugins.pdb:Pdb",
    "predicates": "pyroclast_scheduler.plugins.predicates:Predicates",
    "priority": "pyroclast_scheduler.plugins.priority:Priority",
    "proportion": "pyroclast_scheduler.plugins.proportion:Proportion",
    "reservation": "pyroclast_scheduler.plugins.reservation:ReservationPlugin",
    "rescheduling": "pyroclast_scheduler.plugins.rescheduling:Rescheduling",
    "resource-strategy-fit": "pyroclast_scheduler.plugins.resource_strategy_fit:ResourceStrategyFit",
    "resourcequota": "pyroclast_scheduler.plugins.resourcequota:ResourceQuota",
    "sla": "pyroclast_scheduler.plugins.sla:Sla",
    "task-topology": "pyroclast_scheduler.plugins.task_topology:TaskTopology",
    "tdm": "pyroclast_scheduler.plugins.tdm:Tdm",
    "usage": "pyroclast_scheduler.plugins.usage:Usage",
}

T = TypeVar("T")


class _Registry(Mapping[str, T], Generic[T]):
    """Names and their objects. An entry point does not replace a built-in one."""

    def __init__(self, own: Mapping[str, str], group: str) -> None:
        self._found: dict[str, T] = {}
        self._places = dict(own)
        for point in entry_points(group=group):
            if point.name in own:
                log.warning("extension.name_taken", group=group, name=point.name, value=point.value)
                continue
            try:
                self._found[point.name] = point.load()
            except Exception as error:  # noqa: BLE001 - a broken package must not stop the scheduler
                log.error("extension.not_loaded", group=group, name=point.name, value=point.value, error=str(error))  # noqa: TRY400
                continue
            self._places[point.name] = point.value

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


def loaded() -> tuple[Mapping[str, Action], Mapping[str, PluginFactory]]:
    """Return all actions and plugins. The import takes tens of milliseconds and must not run in an event loop."""
    found = actions(), plugins()
    for each in found:
        list(each.values())
    return found


@cache
def actions() -> Mapping[str, Action]:
    """Return all actions by name. The installed packages are searched once."""
    return _Registry(_ACTIONS, ACTION_GROUP)


@cache
def plugins() -> Mapping[str, PluginFactory]:
    """Return all plugins by name. The installed packages are searched once."""
    return _Registry(_PLUGINS, PLUGIN_GROUP)

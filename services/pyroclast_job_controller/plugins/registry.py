"""Which plugins there are: ours by name, and those that third parties have installed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import metadata
from typing import Final

from pyroclast.api.records import Job
from pyroclast.lifecycle.status import PLUGIN_MARK
from pyroclast_job_controller.plugins.base import JobPlugin
from pyroclast_job_controller.plugins.env import EnvPlugin
from pyroclast_job_controller.plugins.svc import SvcPlugin

__all__ = ["ENTRY_POINTS", "UnknownPlugin", "known", "marks_of", "plugins_of"]

ENTRY_POINTS: Final = "pyroclast.job_plugins"

_BUILT_IN: Final[Mapping[str, type[JobPlugin]]] = {plugin.name: plugin for plugin in (EnvPlugin, SvcPlugin)}
"""In the order in which they run."""


class UnknownPlugin(Exception):
    """A Job names a plugin that is not there."""


def plugins_of(job: Job) -> list[JobPlugin]:
    """The plugins of `job`, in a fixed order: ours first, then the others by name.

    Raises:
        UnknownPlugin: there is none of that name.
    """
    order = list(_BUILT_IN)
    names = sorted(job.spec.plugins, key=lambda name: (order.index(name) if name in order else len(order), name))
    return [_find(name)(job.spec.plugins[name]) for name in names]


def marks_of(job: Job) -> dict[str, str]:
    """What the plugins of `job` leave in `status.controlledResources`; one that is not there is never marked, so it is asked
    for again.
    """
    return {f"{PLUGIN_MARK}{name}": name for name in job.spec.plugins if name not in known() or known()[name].mark}


def _find(name: str) -> type[JobPlugin]:
    try:
        return known()[name]
    except KeyError:
        raise UnknownPlugin(f"failed to get plugin {name}") from None


@cache
def known() -> Mapping[str, type[JobPlugin]]:
    """All plugins by name; ours go before others of the same name."""
    others = {point.name: point.load() for point in metadata.entry_points(group=ENTRY_POINTS)}
    return {**others, **_BUILT_IN}

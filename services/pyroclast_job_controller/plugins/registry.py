"""Finds the job plugins: the built-in plugins and those that other packages install."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import metadata
from typing import Final

import structlog

from pyroclast.api.jobplugins import BUILT_IN, ENTRY_POINTS
from pyroclast.api.records import Job
from pyroclast.lifecycle.job.status import PLUGIN_MARK
from pyroclast.lifecycle.jobplugins import JobPlugin, PluginError
from pyroclast_job_controller.plugins.env import EnvPlugin
from pyroclast_job_controller.plugins.hcclrank import HcclrankPlugin
from pyroclast_job_controller.plugins.mpi import MpiPlugin
from pyroclast_job_controller.plugins.pytorch import PytorchPlugin
from pyroclast_job_controller.plugins.ray import RayPlugin
from pyroclast_job_controller.plugins.ssh import SshPlugin
from pyroclast_job_controller.plugins.svc import SvcPlugin
from pyroclast_job_controller.plugins.tensorflow import TensorflowPlugin

log = structlog.get_logger()

_OURS: Final[Mapping[str, type[JobPlugin]]] = {
    plugin.name: plugin
    for plugin in (EnvPlugin, SvcPlugin, SshPlugin, TensorflowPlugin, MpiPlugin, PytorchPlugin, RayPlugin, HcclrankPlugin)
}
_ORDER: Final = {name: position for position, name in enumerate(BUILT_IN)}


def names_of(job: Job) -> list[str]:
    """Return the plugins that `job` names in a fixed order: built-in plugins first, then other plugins by name."""
    return sorted(job.spec.plugins, key=lambda name: (_ORDER.get(name, len(_ORDER)), name))


def marks_of(job: Job) -> dict[str, str]:
    """Return the entries of the plugins of `job` in `status.controlledResources`.

    A plugin that is not installed gets an entry too. Without it, the Job could count as prepared although the plugin is missing.
    """
    return {f"{PLUGIN_MARK}{name}": name for name in job.spec.plugins if name not in known() or known()[name].mark}


def find(name: str) -> type[JobPlugin]:
    """Return the plugin with that name.

    Raises:
        PluginError: no such plugin is installed.
    """
    try:
        return known()[name]
    except KeyError:
        raise PluginError(f"failed to get plugin {name}") from None


@cache
def known() -> Mapping[str, type[JobPlugin]]:
    """Return all plugins by name. A built-in plugin overrides others of its name. A plugin whose import fails is omitted."""
    others = {}
    for point in metadata.entry_points(group=ENTRY_POINTS):
        try:
            others[point.name] = point.load()
        except Exception:  # an exception in a third party's module must not affect the other plugins
            log.exception("plugin.unusable", plugin=point.name, module=point.value)
    return {**others, **_OURS}

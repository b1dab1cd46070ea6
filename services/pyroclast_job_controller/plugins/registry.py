"""The plugins of Jobs: finds them by name, and calls them.

Each exception of a plugin becomes a PluginError that names the plugin, so that users see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from typing import Final

import structlog

from pyroclast.api.jobplugins import BUILT_IN, ENTRY_POINTS
from pyroclast.api.records import Job, Task
from pyroclast.lifecycle.job.status import PLUGIN_MARK
from pyroclast.lifecycle.jobplugins import JobPlugin, Manifest, PluginCrash, PluginError, PluginObject
from pyroclast.lifecycle.plugins.made import BUILT_IN_PLUGINS

__all__ = ["JobPlugin", "Manifest", "PluginError", "PluginObject"]


log = structlog.get_logger()

_ORDER: Final = {name: position for position, name in enumerate(BUILT_IN)}


def names_of(job: Job) -> list[str]:
    """Return the plugins of `job` in a fixed order: built-in plugins first, then other plugins by name.

    Pods of an array need their index, so a Job with an array has the plugin `env` even if it does not name the plugin.
    """
    own = {"env"} if any(task.array is not None for task in job.spec.tasks) else set()
    return sorted({*job.spec.plugins, *own}, key=lambda name: (_ORDER.get(name, len(_ORDER)), name))


def marks_of(job: Job) -> dict[str, str]:
    """Return the entries of the plugins of `job` in `status.controlledResources`.

    A plugin that is not installed gets an entry too. Without it, the Job could count as prepared although the plugin is missing.
    """
    return {f"{PLUGIN_MARK}{name}": name for name in job.spec.plugins if name not in known() or known()[name].mark}


@cache
def known() -> Mapping[str, type[JobPlugin]]:
    """Return all plugins by name. A built-in plugin overrides others of its name. A plugin whose import fails is omitted."""
    others = {}
    for point in metadata.entry_points(group=ENTRY_POINTS):
        try:
            others[point.name] = point.load()
        except Exception:  # an exception in a third party's module must not affect the other plugins
            log.exception("plugin.unusable", plugin=point.name, module=point.value)
    return {**others, **BUILT_IN_PLUGINS}


def plugins_of(job: Job) -> list[JobPlugin]:
    """Return the plugins of `job` in the order in which they run."""
    return [make(job, name) for name in names_of(job)]


def make(job: Job, name: str) -> JobPlugin:
    """Return the plugin `name` with its arguments in `job`.

    Raises PluginError: the plugin is not installed or rejects its arguments.
    """
    if (plugin := known().get(name)) is None:
        raise PluginError(f"failed to get plugin {name}")
    with translated(name):
        return plugin(job.spec.plugins.get(name, ()))


def check(plugins: Iterable[JobPlugin], job: Job) -> None:
    """Check with `plugins` whether `job` can run. Raises PluginError: the Job cannot run, or a plugin failed."""
    problems: list[str] = []
    for plugin in plugins:
        with translated(plugin.name):
            problems += plugin.problems(job)
    if problems:
        raise PluginError("; ".join(problems))


def body_of(item: PluginObject) -> Manifest:
    """Return the body with which an object is created. Key generation is slow, so call this in a thread.

    Raises PluginError: the body cannot be created.
    """
    if item.once is None:
        return item.body
    try:
        return _overlaid(item.once(), item.body)
    except Exception as error:
        raise PluginCrash(f"{item.kind.kind} {item.name} cannot be made: {type(error).__name__}: {error}") from error


def adapted(plugins: Sequence[JobPlugin], job: Job, task: Task, index: int, manifest: Manifest) -> Manifest:
    """Return pod `index` of `task` after each of `plugins` has changed `manifest`, one after the other."""
    for plugin in plugins:
        with translated(plugin.name):
            manifest = plugin.pod(job, task, index, manifest)
    return manifest


def _overlaid(below: Manifest, above: Manifest) -> Manifest:
    """Return `below` merged with the fields of `above`, which take precedence."""
    both = {name: value for name, value in above.items() if isinstance(value, dict) and isinstance(below.get(name), dict)}
    return {**below, **above, **{name: _overlaid(below[name], value) for name, value in both.items()}}


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Raise a PluginError for each exception in this block, which may run code of a third party."""
    try:
        yield
    except PluginError:
        raise
    except Exception as error:
        raise PluginCrash(f"plugin {name} failed: {type(error).__name__}: {error}") from error

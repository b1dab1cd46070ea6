"""Using the plugins of a Job. Whatever one of them raises becomes a PluginError that names it, so that users are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from pyroclast.api.records import Job, Task
from pyroclast.lifecycle.jobplugins import JobPlugin, Manifest, PluginCrash, PluginError, PluginObject
from pyroclast_job_controller.plugins.registry import find, names_of

__all__ = ["adapted", "body_of", "check", "make", "objects_of", "plugins_of", "removed_at_end", "warnings_of"]


def plugins_of(job: Job) -> list[JobPlugin]:
    """The plugins of `job`, in the order in which they run.

    Raises:
        PluginError: one is not there, or does not take its arguments.
    """
    return [make(job, name) for name in names_of(job)]


def make(job: Job, name: str) -> JobPlugin:
    """The plugin `name` with its arguments in `job`.

    Raises:
        PluginError: it is not there, or does not take its arguments.
    """
    plugin = find(name)
    with _translated(name):
        return plugin(job.spec.plugins[name])


def objects_of(plugin: JobPlugin, job: Job) -> list[PluginObject]:
    """What `plugin` wants to exist beside `job`.

    Raises:
        PluginError: it cannot tell.
    """
    with _translated(plugin.name):
        return plugin.objects(job)


def removed_at_end(plugin: JobPlugin, job: Job) -> list[PluginObject]:
    """What `plugin` no longer wants beside `job` once that has ended.

    Raises:
        PluginError: it cannot tell.
    """
    with _translated(plugin.name):
        return plugin.removed_at_end(job)


def check(plugins: Iterable[JobPlugin], job: Job) -> None:
    """Ask `plugins` whether `job` can run with them.

    Raises:
        PluginError: it cannot, or one of them cannot tell.
    """
    problems: list[str] = []
    for plugin in plugins:
        with _translated(plugin.name):
            problems += plugin.problems(job)
    if problems:
        raise PluginError("; ".join(problems))


def warnings_of(plugin: JobPlugin, job: Job) -> list[str]:
    """What `plugin` has users of `job` know.

    Raises:
        PluginError: it cannot tell.
    """
    with _translated(plugin.name):
        return plugin.warnings(job)


def body_of(item: PluginObject) -> Manifest:
    """The body with which an object is created; takes its time where there are keys to be made, so call it in a thread.

    Raises:
        PluginError: it cannot be made.
    """
    if item.once is None:
        return item.body
    try:
        return _overlaid(item.once(), item.body)
    except Exception as error:
        raise PluginCrash(f"{item.kind.kind} {item.name} cannot be made: {type(error).__name__}: {error}") from error


def adapted(plugins: Sequence[JobPlugin], job: Job, task: Task, index: int, manifest: Manifest) -> Manifest:
    """Pod `index` of `task` as `plugins` make it of `manifest`, one after the other.

    Raises:
        PluginError: one of them cannot.
    """
    for plugin in plugins:
        with _translated(plugin.name):
            manifest = plugin.pod(job, task, index, manifest)
    return manifest


def _overlaid(below: Manifest, above: Manifest) -> Manifest:
    """`below` with the fields of `above`, which go first."""
    both = {name: value for name, value in above.items() if isinstance(value, dict) and isinstance(below.get(name), dict)}
    return {**below, **above, **{name: _overlaid(below[name], value) for name, value in both.items()}}


@contextmanager
def _translated(name: str) -> Iterator[None]:
    """Whatever the plugin raises in this block is a PluginError; its code may be that of a third party."""
    try:
        yield
    except PluginError:
        raise
    except Exception as error:
        raise PluginCrash(f"plugin {name} failed: {type(error).__name__}: {error}") from error

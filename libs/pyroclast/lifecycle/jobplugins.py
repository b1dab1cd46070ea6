"""What a job plugin is: the port through which the controller uses one.

Third parties add theirs by an entry point of the group `pyroclast.job_plugins` whose name is that in `spec.plugins` and whose
value is the class. A plugin is pure: it says what should be, and the controller owns, orders and does the writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from pyroclast.api.records import Job, Task
from pyroclast.api.types import ResourceType
from pyroclast.resources.go_flags import Value, parse

__all__ = ["JobPlugin", "Manifest", "PluginCrash", "PluginError", "PluginObject"]

Manifest: TypeAlias = dict[str, Any]
"""An object, or a part of one, as JSON."""


class PluginError(Exception):
    """The Job lacks what the plugin needs; the text tells users what."""


class PluginCrash(PluginError):
    """The code of a plugin failed: nothing is wrong with the Job, which waits until the plugin is mended."""


@dataclass(frozen=True, slots=True)
class PluginObject:
    """An object that a plugin wants to exist beside a Job, in its namespace; the controller adds the owner.

    Attributes:
        kind: what it is.
        name: its name.
        body: everything but apiVersion, kind and metadata.
        follows: paths of the fields that are kept as in `body` while the Job lives. Without any the object only has to be
        there: one of that name that belongs to somebody else will do, and is left alone.
        series: the name of the n-th object of a series, of which this is one: those behind the last that is wanted were made for
            a larger scale, and are deleted.
        once: makes the fields that the object gets at its creation and keeps, such as keys. The controller calls it in a
        thread, so it may take its time and be random.
    """

    kind: ResourceType
    name: str
    body: Manifest = field(repr=False)
    follows: tuple[tuple[str, ...], ...] = ()
    once: Callable[[], Manifest] | None = None
    series: Callable[[int], str] | None = None


class JobPlugin:
    """Base of all plugins. One is made for each use, from the arguments in the Job's spec; it holds no state of its own.

    `defaults`: the flags that it understands, with their defaults. `mark`: whether `status.controlledResources` shows that the
    plugin has been set up; one without has no objects.
    """

    name: ClassVar[str]
    defaults: ClassVar[Mapping[str, Value]] = {}
    mark: ClassVar[bool] = True

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = tuple(arguments)
        self.flags = parse(arguments, self.defaults)

    def objects(self, job: Job) -> list[PluginObject]:  # noqa: ARG002
        """What has to exist while `job` lives, in the order of creation.

        Raises:
            PluginError: the Job lacks what the plugin needs.
        """
        return []

    def removed_at_end(self, job: Job) -> list[PluginObject]:
        """Which of its objects the controller deletes when `job` ends or is stopped: all of them. The rest goes with the Job.

        Raises:
            PluginError: the Job lacks what the plugin needs.
        """
        return self.objects(job)

    def problems(self, job: Job) -> list[str]:  # noqa: ARG002
        """Why `job` cannot run with the plugin, a sentence each; asked before anything is made for it."""
        return []

    def warnings(self, job: Job) -> list[str]:  # noqa: ARG002
        """What users of `job` should know, a sentence each: they find it as Events."""
        return []

    def pod(self, job: Job, task: Task, index: int, manifest: Manifest) -> Manifest:  # noqa: ARG002
        """Pod `index` of `task` as it should be created: `manifest`, which is left as it is, with the plugin's changes.

        Raises:
            PluginError: the Job lacks what the plugin needs.
        """
        return manifest

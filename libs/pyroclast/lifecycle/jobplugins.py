"""The interface between the controller and the plugins of a Job.

A third party adds a plugin by an entry point of the group `pyroclast.job_plugins`. The name of the entry point is the plugin's
name in `spec.plugins`; the value is the class. A plugin is pure: the plugin returns the desired objects, and the controller owns,
orders and performs the writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from pyroclast.api.jobplugins import BUILT_IN
from pyroclast.api.records import Job, Task
from pyroclast.api.types import ResourceType
from pyroclast.resources.go_flags import Value, parse

Manifest: TypeAlias = dict[str, Any]
"""An object, or a part of an object, as JSON."""


class PluginError(Exception):
    """The Job lacks something that the plugin needs; the text tells users what is missing."""


class PluginCrash(PluginError):
    """The code of a plugin failed. The Job is not at fault, and waits until the plugin is repaired."""


@dataclass(frozen=True, slots=True)
class PluginObject:
    """An object that a plugin wants to exist beside a Job, in the Job's namespace; the controller adds the owner reference.

    Attributes:
        kind: the resource type of the object.
        name: the name of the object.
        body: the object without apiVersion, kind and metadata.
        follows: paths of the fields that the controller keeps equal to `body` while the Job exists. When empty, the object only
            has to exist: an object of that name with another owner is enough, and the controller does not change it.
        series: returns the name of the n-th object of the series to which this object belongs. The controller deletes the objects
            behind the last desired one, which were created for a larger scale.
        once: makes the fields that are set at the creation of the object and never changed, such as keys. The controller calls it
            in a thread, so it may be slow and random.
    """

    kind: ResourceType
    name: str
    body: Manifest = field(repr=False)
    follows: tuple[tuple[str, ...], ...] = ()
    once: Callable[[], Manifest] | None = None
    series: Callable[[int], str] | None = None


class JobPlugin:
    """Base class of all plugins. The controller creates one instance for each use, from the arguments in the Job's spec; a plugin
    has no state of its own.

    `defaults`: the flags that the plugin understands, with their default values; `BUILT_IN` has those of our plugins.
    `mark`: whether `status.controlledResources` shows that the plugin has been set up; a plugin with `mark` false has no objects.
    """

    name: ClassVar[str]
    defaults: ClassVar[Mapping[str, Value]] = {}
    mark: ClassVar[bool] = True

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = tuple(arguments)
        self.flags = parse(arguments, self.defaults or BUILT_IN.get(self.name, {}))

    def objects(self, job: Job) -> list[PluginObject]:  # noqa: ARG002
        """Return the objects that must exist while `job` exists, in the order of their creation.

        Raises PluginError: the Job lacks something that the plugin needs.
        """
        return []

    def removed_at_end(self, job: Job) -> list[PluginObject]:
        """Which of its objects the controller deletes when `job` ends or is stopped: all of them. The rest goes with the Job.

        Raises PluginError: the Job lacks what the plugin needs.
        """
        return self.objects(job)

    def problems(self, job: Job) -> list[str]:  # noqa: ARG002
        """Return why `job` cannot run with the plugin, one sentence for each reason.

        The controller calls this before it creates anything for `job`.
        """
        return []

    def warnings(self, job: Job) -> list[str]:  # noqa: ARG002
        """Return warnings for the users of `job`, one sentence each; the controller records each as an Event."""
        return []

    def pod(self, job: Job, task: Task, index: int, manifest: Manifest) -> Manifest:  # noqa: ARG002
        """Return the manifest of pod `index` of `task`: a copy of `manifest` with the plugin's changes.

        Raises PluginError: the Job lacks something that the plugin needs.
        """
        return manifest

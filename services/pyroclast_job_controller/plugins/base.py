"""What a job plugin is: the port through which the controller uses one.

Third parties add theirs by an entry point of the group `pyroclast.job_plugins` whose name is that in `spec.plugins` and whose
value is the class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pyroclast.api.records import Job, Task
from pyroclast.api.types import ResourceType

__all__ = ["JobPlugin", "PluginObject"]


@dataclass(frozen=True, slots=True)
class PluginObject:
    """An object that a plugin wants to exist beside a Job, in its namespace; the controller adds the owner.

    Attributes:
        kind: what it is.
        name: its name.
        body: everything but apiVersion, kind and metadata.
        follows: the top-level fields that are kept as in `body` while the Job lives. Without any the object only has to be
        there: one of that name that belongs to somebody else will do, and is left alone.
    """

    kind: ResourceType
    name: str
    body: dict[str, Any]
    follows: tuple[str, ...] = ()


class JobPlugin:
    """Base of all plugins. One is made for each use, from the arguments in the Job's spec; it holds no state of its own.

    `mark`: whether `status.controlledResources` shows that the plugin has been set up; one without has no objects.
    """

    name: ClassVar[str]
    mark: ClassVar[bool] = True

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = tuple(arguments)

    def objects(self, job: Job) -> list[PluginObject]:  # noqa: ARG002
        """What has to exist while `job` lives, in the order of creation."""
        return []

    def adapt(self, job: Job, task: Task, index: int, pod: dict[str, Any]) -> None:
        """Change the manifest of pod `index` of `task` before it is created."""

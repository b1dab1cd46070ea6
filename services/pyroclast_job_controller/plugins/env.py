"""The plugin `env`: tells every container which pod of its task it is in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pyroclast.api.records import Job, Task
from pyroclast_job_controller.plugins.arguments import parse
from pyroclast_job_controller.plugins.base import JobPlugin

__all__ = ["EnvPlugin"]


class EnvPlugin(JobPlugin):
    """Adds `VK_TASK_INDEX` and `VC_TASK_INDEX`, and `VC_TASK_NAME` with the argument `--task-name`."""

    name: ClassVar[str] = "env"

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__(arguments)
        self._with_task_name = parse(self.name, arguments, {"task-name": False})["task-name"]

    def adapt(self, job: Job, task: Task, index: int, pod: dict[str, Any]) -> None:  # noqa: ARG002
        """Append the variables to all containers and init containers, after those they have."""
        variables = {"VK_TASK_INDEX": str(index), "VC_TASK_INDEX": str(index)}
        if self._with_task_name:
            variables["VC_TASK_NAME"] = task.name
        for field in ("containers", "initContainers"):
            for container in pod["spec"].get(field) or ():
                container.setdefault("env", []).extend({"name": name, "value": value} for name, value in variables.items())

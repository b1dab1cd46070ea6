"""The plugin `env`, which writes the pod's index in its task into the environment of each container."""

from __future__ import annotations

from pyroclast.api.records import Job, Task
from pyroclast.lifecycle.jobplugins import JobPlugin, Manifest
from pyroclast.lifecycle.plugins.containers import variable, with_variables


class EnvPlugin(JobPlugin):
    """Adds `VK_TASK_INDEX` and `VC_TASK_INDEX`. With the argument `--task-name`, it also adds `VC_TASK_NAME`."""

    name = "env"

    def pod(self, job: Job, task: Task, index: int, manifest: Manifest) -> Manifest:  # noqa: ARG002
        """Append the variables with the index of the pod to all its containers and init containers."""
        variables = [variable("VK_TASK_INDEX", str(index)), variable("VC_TASK_INDEX", str(index))]
        if self.flags.is_set("task-name"):
            variables.append(variable("VC_TASK_NAME", task.name))
        return with_variables(manifest, variables)

"""The plugin `tensorflow`, which describes to each pod the cluster and the pod's role in it."""

from __future__ import annotations

from typing import Final

import msgspec

from pyroclast.api.jobplugins import LONGEST_HOST_LIST
from pyroclast.api.records import Job, Task
from pyroclast.lifecycle.gang.members import total_replicas
from pyroclast.lifecycle.jobplugins import JobPlugin, Manifest
from pyroclast.lifecycle.plugins.containers import variable, with_variables
from pyroclast.lifecycle.plugins.hosts import address

_ROLES: Final = ("ps", "worker", "chief", "evaluator")
"""The roles in the order in which a cluster lists them."""
_OF_A_POD: Final = 200
"""Most characters of TF_CONFIG besides the cluster."""
_BY_RANK: Final = ("chief", "worker", "ps", "evaluator")
"""The roles in the order in which a task is compared with them."""


class TensorflowPlugin(JobPlugin):
    """Adds `TF_CONFIG` to the containers, unless the Job is a single pod."""

    name = "tensorflow"

    def pod(self, job: Job, task: Task, index: int, manifest: Manifest) -> Manifest:
        """Append the variable `TF_CONFIG` to the containers of the pod."""
        if len(job.spec.tasks) == 1 and total_replicas(job.spec) == 1:
            return manifest
        role = next((role for role in _BY_RANK if self.flags.text(role) == task.name), task.name)
        if self._is_too_long(job):
            return manifest
        configuration = {"cluster": self._cluster(job), "task": {"type": role, "index": index}}
        value = msgspec.json.encode(configuration).decode()
        if len(value) > LONGEST_HOST_LIST:
            return manifest
        return with_variables(manifest, [variable("TF_CONFIG", value)], init=False)

    def warnings(self, job: Job) -> list[str]:
        """Return a warning when the description of the cluster is too long for `TF_CONFIG`."""
        if not self._is_too_long(job) and len(msgspec.json.encode(self._cluster(job))) + _OF_A_POD <= LONGEST_HOST_LIST:
            return []
        return ["TF_CONFIG is not set, as the addresses of the cluster are too long: make it of the files /etc/volcano/*.host"]

    def _is_too_long(self, job: Job) -> bool:
        """Return whether already the shortest addresses are too long, so that the cluster is not even described."""
        roles = {self.flags.text(role) for role in _ROLES}
        return (
            sum(task.replicas * len(address(job, task, 0)) for task in job.spec.tasks if task.name in roles) > LONGEST_HOST_LIST
        )

    def _cluster(self, job: Job) -> dict[str, list[str]]:
        port = self.flags.number("port")
        cluster: dict[str, list[str]] = {}
        for role in _ROLES:
            members = [task for task in job.spec.tasks if task.name == self.flags.text(role)]
            cluster[role] = [f"{address(job, task, index)}:{port}" for task in members for index in range(task.replicas)]
        return {role: addresses for role, addresses in cluster.items() if addresses}

"""The plugin `mpi`, which gives the master the list of its workers."""

from __future__ import annotations

from typing import Final

from pyroclast.api.records import Job, Task
from pyroclast.lifecycle.jobplugins import JobPlugin, Manifest
from pyroclast.lifecycle.plugins.containers import change_containers, variable, with_port, with_variables
from pyroclast.lifecycle.plugins.hosts import addresses, fit_variables, host_file, task_named

_PORT_NAME: Final = "mpijob-port"


class MpiPlugin(JobPlugin):
    """Adds `MPI_HOST` to the containers of the master, and the SSH port to the containers of all pods."""

    name = "mpi"

    def warnings(self, job: Job) -> list[str]:
        """Return a warning when the list of workers is too long for the master's environment."""
        workers = task_named(job, self.flags.text("worker"))
        if workers is None or workers.name in fit_variables(job):
            return []
        return [f'MPI_HOST is not set, as the hosts of task "{workers.name}" are too long: read {host_file(workers)}']

    def pod(self, job: Job, task: Task, index: int, manifest: Manifest) -> Manifest:  # noqa: ARG002
        """Add the port, and the list of workers to the master. Without a task of workers, the master's variables stay unchanged.

        A list of workers that is too long for a variable is only in the file `/etc/volcano/TASK.host`.
        """
        is_master, workers = task.name == self.flags.text("master"), task_named(job, self.flags.text("worker"))
        if is_master and workers is None:
            return manifest
        port = self.flags.number("port")
        pod = change_containers(manifest, lambda container: with_port(container, _PORT_NAME, port))
        if not is_master or workers is None or workers.name not in fit_variables(job):
            return pod  # the file of the plugin svc has the list
        return with_variables(pod, [variable("MPI_HOST", ",".join(addresses(job, workers)))])

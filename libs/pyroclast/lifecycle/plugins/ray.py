"""The plugin `ray`, which starts a Ray cluster from a head and its workers."""

from __future__ import annotations

from typing import Final

from pyroclast.api import keys
from pyroclast.api.records import Job, Task
from pyroclast.api.types import SERVICES
from pyroclast.lifecycle.gang.pods import template_of
from pyroclast.lifecycle.jobplugins import JobPlugin, Manifest, PluginError, PluginObject
from pyroclast.lifecycle.plugins.containers import change_containers, with_port
from pyroclast.lifecycle.plugins.hosts import address, task_named

_PORTS: Final = {"gcs": "port", "dashboard": "dashboardPort", "client-server": "clientPort"}
"""The flag of each named port."""


class RayPlugin(JobPlugin):
    """Sets the commands of the head and the workers, and creates a Service for the head."""

    name = "ray"

    def objects(self, job: Job) -> list[PluginObject]:
        """Return the Service of the head. Raises PluginError: the Job has no head."""
        head = self._head(job)
        selector = {
            keys.JOB_NAME: job.metadata.name,
            keys.JOB_NAMESPACE: job.metadata.namespace,
            keys.TASK_SPEC: self.flags.text("head"),
        }
        ports = [
            {"name": name, "protocol": "TCP", "port": number, "targetPort": self._target(head, name, number)}
            for name, number in self._ports().items()
        ]
        return [PluginObject(SERVICES, f"{job.metadata.name}-head-svc", {"spec": {"selector": selector, "ports": ports}})]

    def pod(self, job: Job, task: Task, index: int, manifest: Manifest) -> Manifest:  # noqa: ARG002
        """Set the command of the head's container or of a worker's container. Raises PluginError: the Job has no head."""
        head = self._head(job)
        if task.name == head.name:
            name = self.flags.text("headContainer")
            return change_containers(manifest, lambda one: self._as_head(one) if one.get("name") == name else one, init=False)
        if task.name == self.flags.text("worker"):
            command = f"ray start --block --address={address(job, head, 0)}:{self.flags.number('port')}"
            name = self.flags.text("workerContainer")
            return change_containers(manifest, lambda one: _running(one, command) if one.get("name") == name else one, init=False)
        return manifest

    def _head(self, job: Job) -> Task:
        head = task_named(job, self.flags.text("head"))
        if head is None:
            raise PluginError(f"job {job.metadata.name} doesn't have head task {self.flags.text('head')}")
        return head

    def _ports(self) -> dict[str, int]:
        return {name: self.flags.number(flag) for name, flag in _PORTS.items()}

    def _target(self, head: Task, name: str, number: int) -> str | int:
        """Return the target port of the Service: the name of the port, or its number if the template gives it another name."""
        for container in (template_of(head).get("spec") or {}).get("containers") or ():
            if container.get("name") == self.flags.text("headContainer"):
                ports = container.get("ports") or ()
                if any(port.get("containerPort") == number and port.get("name") != name for port in ports):
                    return number
        return name

    def _as_head(self, container: Manifest) -> Manifest:
        gcs, dashboard, client = self._ports().values()
        for name, number in self._ports().items():
            container = with_port(container, name, number)
        options = f"--port={gcs} --dashboard-port={dashboard} --ray-client-server-port={client}"
        return _running(container, f"ray start --head --block --dashboard-host=0.0.0.0 {options}")


def _running(container: Manifest, command: str) -> Manifest:
    return {**container, "command": ["sh", "-c", command]}

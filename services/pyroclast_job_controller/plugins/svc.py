"""The plugin `svc`: pods of a Job find each other by name.

A headless Service gives them names, a ConfigMap tells each the names of all, and a NetworkPolicy keeps strangers out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from pyroclast.api import keys
from pyroclast.api.records import Job, Task
from pyroclast.api.types import CONFIG_MAPS, NETWORK_POLICIES, SERVICES
from pyroclast.lifecycle import members
from pyroclast.lifecycle.pods import template_of
from pyroclast_job_controller.plugins.arguments import parse
from pyroclast_job_controller.plugins.base import JobPlugin, PluginObject

__all__ = ["SvcPlugin"]

_MOUNT_PATH: Final = "/etc/volcano"
_DEFAULTS: Final = {"publish-not-ready-addresses": False, "disable-network-policy": False, "inject-hosts-env": True}


class SvcPlugin(JobPlugin):
    """Names and host lists.

    Running pods see the list follow the Job's scale under `/etc/volcano`; their environment stays as it was.
    """

    name: ClassVar[str] = "svc"

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__(arguments)
        self._flags = parse(self.name, arguments, _DEFAULTS)

    def objects(self, job: Job) -> list[PluginObject]:
        """The ConfigMap, the Service and, unless it is disabled, the NetworkPolicy."""
        selector = {keys.JOB_NAME: job.metadata.name, keys.JOB_NAMESPACE: job.metadata.namespace}
        service: dict[str, Any] = {"clusterIP": "None", "selector": selector}
        if self._flags["publish-not-ready-addresses"]:
            service["publishNotReadyAddresses"] = True
        policy = {
            "podSelector": {"matchLabels": selector},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": selector}}]}],
        }
        objects = [
            PluginObject(CONFIG_MAPS, _config_map(job), {"data": _host_lists(job)}, follows=("data",)),
            PluginObject(SERVICES, job.metadata.name, {"spec": service}),
        ]
        if not self._flags["disable-network-policy"]:
            objects.append(PluginObject(NETWORK_POLICIES, job.metadata.name, {"spec": policy}))
        return objects

    def adapt(self, job: Job, task: Task, index: int, pod: dict[str, Any]) -> None:  # noqa: ARG002
        """Give the pod its name in the network, the variables and the files with the names of all."""
        spec, name = pod["spec"], _config_map(job)
        spec["hostname"] = spec.get("hostname") or pod["metadata"]["name"]
        spec["subdomain"] = spec.get("subdomain") or job.metadata.name
        variables = [
            {"name": key, "valueFrom": {"configMapKeyRef": {"name": name, "key": key}}}
            for other in job.spec.tasks
            for key in _variables(other)
            if self._flags["inject-hosts-env"]
        ]
        spec.setdefault("volumes", []).append({"name": name, "configMap": {"name": name}})
        for field in ("containers", "initContainers"):
            for container in spec.get(field) or ():
                if variables:
                    container.setdefault("env", []).extend(map(dict, variables))
                container.setdefault("volumeMounts", []).append({"mountPath": _MOUNT_PATH, "name": name})


def _config_map(job: Job) -> str:
    return f"{job.metadata.name}-svc"


def _host_lists(job: Job) -> dict[str, str]:
    lists = {}
    for task in job.spec.tasks:
        addresses = list(_addresses(job, task))
        hosts, number = _variables(task)
        lists[f"{task.name.replace('-', '_')}.host"] = "\n".join(addresses)
        lists[hosts] = ",".join(addresses)
        lists[number] = str(len(addresses))
    return lists


def _variables(task: Task) -> tuple[str, str]:
    word = task.name.replace("-", "_").upper()
    return f"VC_{word}_HOSTS", f"VC_{word}_NUM"


def _addresses(job: Job, task: Task) -> Iterator[str]:
    """Host and sub-domain of each pod of `task`; only one when the template fixes the host name."""
    spec = template_of(task).get("spec") or {}
    subdomain = spec.get("subdomain") or job.metadata.name
    for index in range(task.replicas):
        if spec.get("hostname"):
            yield f"{spec['hostname']}.{subdomain}"
            return
        yield f"{members.pod_name(job.metadata.name, task.name, index)}.{subdomain}"

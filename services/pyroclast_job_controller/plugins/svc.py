"""The plugin `svc`: pods of a Job find each other by name.

A headless Service gives them names, a ConfigMap tells each the names of all, and a NetworkPolicy keeps strangers out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pyroclast.api import keys
from pyroclast.api.jobplugins import BUILT_IN
from pyroclast.api.records import Job, Task
from pyroclast.api.types import CONFIG_MAPS, NETWORK_POLICIES, SERVICES
from pyroclast.resources.go_flags import Value
from pyroclast_job_controller.plugins import waiting
from pyroclast_job_controller.plugins.base import JobPlugin, Manifest, PluginObject
from pyroclast_job_controller.plugins.containers import with_init_container, with_variables, with_volume
from pyroclast_job_controller.plugins.hosts import addresses, fit_a_variable

__all__ = ["SvcPlugin"]

_MOUNT_PATH: Final = "/etc/volcano"


class SvcPlugin(JobPlugin):
    """Names and host lists.

    Running pods see the list follow the Job's scale under `/etc/volcano`; their environment stays as it was. With
    A list that is too long for a variable stands in its file alone. With
    `--wait-for-workers` the containers of the launcher start when the names of the workers resolve.
    """

    name: ClassVar[str] = "svc"
    defaults: ClassVar[Mapping[str, Value]] = BUILT_IN["svc"]

    def objects(self, job: Job) -> list[PluginObject]:
        """The ConfigMap, the Service and, unless it is disabled, the NetworkPolicy."""
        selector = {keys.JOB_NAME: job.metadata.name, keys.JOB_NAMESPACE: job.metadata.namespace}
        service: dict[str, Any] = {"clusterIP": "None", "selector": selector}
        if self.flags.is_set("publish-not-ready-addresses"):
            service["publishNotReadyAddresses"] = True
        policy = {
            "podSelector": {"matchLabels": selector},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": selector}}]}],
        }
        objects = [
            PluginObject(CONFIG_MAPS, _config_map(job), {"data": _host_lists(job)}, follows=(("data",),)),
            PluginObject(SERVICES, job.metadata.name, {"spec": service}),
        ]
        if not self.flags.is_set("disable-network-policy"):
            objects.append(PluginObject(NETWORK_POLICIES, job.metadata.name, {"spec": policy}))
        return objects

    def pod(self, job: Job, task: Task, index: int, manifest: Manifest) -> Manifest:  # noqa: ARG002
        """Give the pod its name in the network, the variables and the files with the names of all."""
        spec, name = manifest["spec"], _config_map(job)
        named = {
            "hostname": spec.get("hostname") or manifest["metadata"]["name"],
            "subdomain": spec.get("subdomain") or job.metadata.name,
        }
        variables = [
            {"name": key, "valueFrom": {"configMapKeyRef": {"name": name, "key": key}}}
            for other in job.spec.tasks
            for key in _variables(other)[0 if fit_a_variable(job, other) else 1 :]
            if self.flags.is_set("inject-hosts-env")
        ]
        pod = with_variables({**manifest, "spec": {**spec, **named}}, variables)
        pod = with_volume(pod, {"name": name, "configMap": {"name": name}}, {"mountPath": _MOUNT_PATH})
        if self.flags.is_set("wait-for-workers") and task.name == waiting.launcher(job, self.flags.text("launcher")):
            return with_init_container(pod, waiting.init_container(job, task, self.flags.text("wait-image")))
        return pod


def _config_map(job: Job) -> str:
    return f"{job.metadata.name}-svc"


def _host_lists(job: Job) -> dict[str, str]:
    lists = {}
    for task in job.spec.tasks:
        names = addresses(job, task)
        hosts, number = _variables(task)
        lists[f"{task.name.replace('-', '_')}.host"] = "\n".join(names)
        if fit_a_variable(job, task):
            lists[hosts] = ",".join(names)
        lists[number] = str(len(names))
    return lists


def _variables(task: Task) -> tuple[str, str]:
    word = task.name.replace("-", "_").upper()
    return f"VC_{word}_HOSTS", f"VC_{word}_NUM"

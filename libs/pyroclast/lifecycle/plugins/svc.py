"""The plugin `svc`, with which the pods of a Job find each other by name.

A headless Service provides DNS names, a ConfigMap lists the names of all pods, and a NetworkPolicy blocks other pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.jobplugins import BUILT_IN, LONGEST_HOST_LIST
from pyroclast.api.records import Job, JobSpec, Task
from pyroclast.api.types import CONFIG_MAPS, NETWORK_POLICIES, SERVICES
from pyroclast.lifecycle.gang.members import needed_pods
from pyroclast.lifecycle.jobplugins import JobPlugin, Manifest, PluginObject
from pyroclast.lifecycle.plugins import hosts
from pyroclast.lifecycle.plugins.containers import with_variables, with_volume, with_wait
from pyroclast.lifecycle.plugins.hosts import MOUNT_PATH, addresses, fit_variables, host_file, task_named
from pyroclast.resources.go_flags import parse


class SvcPlugin(JobPlugin):
    """Adds host names and host lists.

    When the Job is scaled, running pods see the new list under `/etc/volcano`, while their environment stays unchanged. A list
    that is too long for a variable is only in its file. A list that is too long for a ConfigMap is in several files of several
    ConfigMaps. With `--wait-for-workers` the launcher's containers start after the names of the workers resolve.
    """

    name = "svc"

    def objects(self, job: Job) -> list[PluginObject]:
        """Return the ConfigMaps, the Service and, unless it is disabled, the NetworkPolicy."""
        selector = {keys.JOB_NAME: job.metadata.name, keys.JOB_NAMESPACE: job.metadata.namespace}
        service: dict[str, Any] = {"clusterIP": "None", "selector": selector}
        if self.flags.is_set("publish-not-ready-addresses"):
            service["publishNotReadyAddresses"] = True
        policy = {
            "podSelector": {"matchLabels": selector},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": selector}}]}],
        }
        series = partial(_config_map, job)
        objects = [
            *(
                PluginObject(CONFIG_MAPS, series(part), {"data": data}, follows=(("data",),), series=series)
                for part, data in enumerate(hosts.parts(job))
            ),
            PluginObject(SERVICES, job.metadata.name, {"spec": service}),
        ]
        if not self.flags.is_set("disable-network-policy"):
            objects.append(PluginObject(NETWORK_POLICIES, job.metadata.name, {"spec": policy}))
        return objects

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__(arguments)
        self._known: tuple[JobSpec, frozenset[str], int] | None = None

    def _layout(self, job: Job) -> tuple[frozenset[str], int]:
        """Return the tasks that have a variable, and the number of ConfigMaps. Computed once for all pods of a Job."""
        if self._known is None or self._known[0] is not job.spec:
            self._known = job.spec, fit_variables(job), len(hosts.parts(job))
        return self._known[1:]

    def warnings(self, job: Job) -> list[str]:
        """Return a warning for each task whose list of hosts is too long for an environment variable, and is omitted."""
        fitting = fit_variables(job) if self.flags.is_set("inject-hosts-env") else frozenset(task.name for task in job.spec.tasks)
        return [
            f"{hosts.variables(task)[0]} is not set, as the hosts are too long: read {host_file(task)}"
            for task in job.spec.tasks
            if task.name not in fitting
        ]

    def pod(self, job: Job, task: Task, index: int, manifest: Manifest) -> Manifest:  # noqa: ARG002
        """Set the host name of the pod, the variables with host names, and the files with the names of all pods."""
        spec, name = manifest["spec"], _config_map(job)
        fitting, parts = self._layout(job)
        named = {
            "hostname": spec.get("hostname") or manifest["metadata"]["name"],
            "subdomain": spec.get("subdomain") or job.metadata.name,
        }
        variables = [
            {"name": key, "valueFrom": {"configMapKeyRef": {"name": name, "key": key}}}
            for other in job.spec.tasks
            for key in hosts.variables(other)[0 if other.name in fitting else 1 :]
            if self.flags.is_set("inject-hosts-env")
        ]
        pod = with_variables({**manifest, "spec": {**spec, **named}}, variables)
        pod = with_volume(pod, {"name": name, **_source(job, parts)}, {"mountPath": MOUNT_PATH})
        if self.flags.is_set("wait-for-workers") and task.name == launcher(job, self.flags.text("launcher")):
            return with_wait(pod, NAME, self.flags.text("wait-image"), wait_script(job, task))
        return pod


def _config_map(job: Job, part: int = 0) -> str:
    return f"{job.metadata.name}-svc-{part}" if part else f"{job.metadata.name}-svc"


def _source(job: Job, parts: int) -> dict[str, Any]:
    """Return the volume with all files.

    All ConfigMaps but the first are optional: after a scale-down, a restarted pod may name ones that were deleted.
    """
    names = [_config_map(job, part) for part in range(parts)]
    if len(names) == 1:
        return {"configMap": {"name": names[0]}}
    sources = [{"configMap": {"name": name, **({"optional": True} if name != names[0] else {})}} for name in names]
    return {"projected": {"sources": sources}}


NAME: Final = "wait-for-workers"

_USUAL: Final = ("launcher", "master")
"""Default names of the task that launches."""

_RESOLVE: Final = """\
python=$(command -v python3 || command -v python)
resolves() {
  getent hosts "$1" || nslookup "$1" && return
  for domain in $(sed -n 's/^search//p' /etc/resolv.conf); do nslookup "$1.$domain" && return; done
  "$python" -c 'import socket, sys; socket.gethostbyname(sys.argv[1])' "$1"
}
"""
"""Resolves a name with `getent`, `nslookup` or Python: an image may have only one of them, and `nslookup` may ignore the search
domains.
"""

_SCRIPT: Final = """\
rounds=0
while :; do
  found=0
  for host in {hosts}; do
    if resolves "$host" >/dev/null 2>&1; then found=$((found + 1)); fi
  done
  if [ "$found" -ge {needed} ]; then
    rounds=$((rounds + 1))
    if [ "$rounds" -ge 3 ]; then break; fi
    sleep 1
    continue
  fi
  rounds=0
  echo "$found of {needed} names of task {task} resolve, waiting for more"
  sleep 2
done
echo "{needed} names of task {task} resolve"
"""
"""Waits until enough names resolve three times, a second apart: a cluster has several DNS servers, and each learns a name in its
own time.
"""


def launcher(job: Job, given: str) -> str:
    """Return the task that launches: `given`, the master of the plugin `mpi`, or a task with a default name.

    Empty without one.
    """
    if given:
        return given
    if "mpi" in job.spec.plugins:
        return parse(job.spec.plugins["mpi"], BUILT_IN["mpi"]).text("master")
    return next((name for name in _USUAL if task_named(job, name)), "")


def workers(job: Job, task: Task) -> list[Task]:
    """Return the tasks for which the launcher `task` waits: the workers of the plugin `mpi`, otherwise all other tasks.

    A task that itself waits for the launcher by `dependsOn` is omitted. Otherwise both would wait for ever.
    """
    named = parse(job.spec.plugins["mpi"], BUILT_IN["mpi"]).text("worker") if "mpi" in job.spec.plugins else ""
    others = [other for other in job.spec.tasks if other.name != task.name and (not named or other.name == named)]
    behind = _behind(job, task)
    return [other for other in others if other.name not in behind and needed_pods(other) > 0]


def wait_script(job: Job, task: Task) -> str:
    """Return a shell script that ends when, for each task of workers, as many names resolve as the gang needs pods."""
    waits = [_script(other, addresses(job, other)) for other in workers(job, task)]
    return _RESOLVE + "".join(waits) if waits else "true"


def _script(task: Task, hosts: Sequence[str]) -> str:
    listed = " ".join(hosts)
    if len(listed) > LONGEST_HOST_LIST:  # the names differ only in their number
        prefix, _, rest = hosts[0].partition("-0.")
        listed = f"$(i=0; while [ $i -lt {len(hosts)} ]; do echo {prefix}-$i.{rest}; i=$((i + 1)); done)"
    return _SCRIPT.format(hosts=listed, needed=min(needed_pods(task), len(hosts)), task=task.name)


def _behind(job: Job, task: Task) -> set[str]:
    """Return the names of the tasks that start only after `task`."""
    behind = {task.name}
    while True:
        more = {
            other.name
            for other in job.spec.tasks
            if other.name not in behind and other.depends_on is not None and behind & set(other.depends_on.name)
        }
        if not more:
            return behind
        behind |= more

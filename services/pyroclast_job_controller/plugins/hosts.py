"""The DNS names of a Job's pods, which the headless Service of the plugin `svc` provides."""

from __future__ import annotations

from typing import Any, Final

from pyroclast.api.jobplugins import LONGEST_HOST_LIST, MOST_IN_VARIABLES
from pyroclast.api.records import Job, Task
from pyroclast.lifecycle.gang import members
from pyroclast.lifecycle.gang.pods import template_of
from pyroclast.lifecycle.gang.size import total_replicas
from pyroclast.lifecycle.jobplugins import PluginError

MOUNT_PATH: Final = "/etc/volcano"
"""The path at which the plugin `svc` mounts its files."""

MOST_HOSTS: Final = 1_000_000
"""The most pods of a Job whose hosts are listed. Their file in ConfigMaps has some ten megabytes."""

Host = tuple[str, str]
"""Host name and subdomain."""


def address(job: Job, task: Task, index: int) -> str:
    """Return `HOST.SUBDOMAIN` of pod `index` of `task`, a name that resolves inside the namespace."""
    return _joined(_host(job, task, index, template_of(task).get("spec") or {}))


def addresses(job: Job, task: Task) -> list[str]:
    """Return the address of each pod of `task`. There is only one address when the template sets the host name."""
    return [_joined(host) for host in hosts(job, task)]


def hosts(job: Job, task: Task) -> list[Host]:
    """Return host name and subdomain of each pod of `task`. There is only one pair when the template sets the host name.

    Raises:
        PluginError: the Job has more than `MOST_HOSTS` pods.
    """
    spec = template_of(task).get("spec") or {}
    if (total := total_replicas(job.spec)) > MOST_HOSTS:
        raise PluginError(f"spec.tasks: the Job has {total} pods; plugins list the hosts of Jobs with at most {MOST_HOSTS} pods")
    return [_host(job, task, index, spec) for index in range(_count(task, spec))]


def fit_variables(job: Job) -> frozenset[str]:
    """Return the tasks whose addresses, joined by commas, fit into environment variables, each alone and all together."""
    names, total = set(), 0
    for task in job.spec.tasks:
        length = _count(task, template_of(task).get("spec") or {}) * (len(address(job, task, max(0, task.replicas - 1))) + 1)
        if length <= LONGEST_HOST_LIST and total + length <= MOST_IN_VARIABLES:
            names.add(task.name)
            total += length
    return frozenset(names)


def host_file(task: Task) -> str:
    """Return the path of the file with the addresses of `task`. A very long list continues in files with the same prefix."""
    return f"{MOUNT_PATH}/{task.name.replace('-', '_')}.host"


def task_named(job: Job, name: str) -> Task | None:
    """Return the task with that name. None when it does not exist."""
    return next((task for task in job.spec.tasks if task.name == name), None)


def _host(job: Job, task: Task, index: int, spec: dict[str, Any]) -> Host:
    name = spec.get("hostname") or members.pod_name(job.metadata.name, task.name, index)
    return name, spec.get("subdomain") or job.metadata.name


def _count(task: Task, spec: dict[str, Any]) -> int:
    return min(task.replicas, 1) if spec.get("hostname") else task.replicas


def _joined(host: Host) -> str:
    return ".".join(host)

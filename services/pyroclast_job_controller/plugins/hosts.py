"""Under which names the pods of a Job find each other, by the headless Service of plugin `svc`."""

from __future__ import annotations

from typing import Any, Final

from pyroclast.api.jobplugins import LONGEST_HOST_LIST, MOST_IN_VARIABLES
from pyroclast.api.records import Job, Task
from pyroclast.lifecycle.gang import members
from pyroclast.lifecycle.gang.pods import template_of

__all__ = ["MOUNT_PATH", "Host", "address", "addresses", "fit_variables", "host_file", "hosts", "task_named"]

MOUNT_PATH: Final = "/etc/volcano"
"""Where plugin `svc` mounts its files."""

Host = tuple[str, str]
"""Host name and sub-domain."""


def address(job: Job, task: Task, index: int) -> str:
    """Host and sub-domain of pod `index` of `task`, which resolve inside the namespace."""
    return _joined(_host(job, task, index, template_of(task).get("spec") or {}))


def addresses(job: Job, task: Task) -> list[str]:
    """The address of each pod of `task`; only one when the template fixes the host name."""
    return [_joined(host) for host in hosts(job, task)]


def hosts(job: Job, task: Task) -> list[Host]:
    """Host name and sub-domain of each pod of `task`; only one when the template fixes the host name."""
    spec = template_of(task).get("spec") or {}
    return [_host(job, task, index, spec) for index in range(_count(task, spec))]


def fit_variables(job: Job) -> frozenset[str]:
    """The tasks whose addresses, with commas between, are short enough for an environment variable: each, and together."""
    names, total = set(), 0
    for task in job.spec.tasks:
        length = _count(task, template_of(task).get("spec") or {}) * (len(address(job, task, max(0, task.replicas - 1))) + 1)
        if length <= LONGEST_HOST_LIST and total + length <= MOST_IN_VARIABLES:
            names.add(task.name)
            total += length
    return frozenset(names)


def host_file(task: Task) -> str:
    """Where plugin `svc` mounts the addresses of `task`; a very long list is in further files whose names begin so."""
    return f"{MOUNT_PATH}/{task.name.replace('-', '_')}.host"


def task_named(job: Job, name: str) -> Task | None:
    """The task of that name."""
    return next((task for task in job.spec.tasks if task.name == name), None)


def _host(job: Job, task: Task, index: int, spec: dict[str, Any]) -> Host:
    name = spec.get("hostname") or members.pod_name(job.metadata.name, task.name, index)
    return name, spec.get("subdomain") or job.metadata.name


def _count(task: Task, spec: dict[str, Any]) -> int:
    return min(task.replicas, 1) if spec.get("hostname") else task.replicas


def _joined(host: Host) -> str:
    return ".".join(host)

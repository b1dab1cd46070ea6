"""Under which names the pods of a Job find each other, by the headless Service of plugin `svc`."""

from __future__ import annotations

from typing import Any

from pyroclast.api.jobplugins import LONGEST_HOST_LIST
from pyroclast.api.records import Job, Task
from pyroclast.lifecycle.gang import members
from pyroclast.lifecycle.gang.pods import template_of

__all__ = ["Host", "address", "addresses", "fit_a_variable", "hosts", "task_named"]

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
    number = min(task.replicas, 1) if spec.get("hostname") else task.replicas
    return [_host(job, task, index, spec) for index in range(number)]


def fit_a_variable(job: Job, task: Task) -> bool:
    """Whether the addresses of `task`, with commas between, are short enough for an environment variable."""
    return task.replicas * (len(address(job, task, max(0, task.replicas - 1))) + 1) <= LONGEST_HOST_LIST


def task_named(job: Job, name: str) -> Task | None:
    """The task of that name."""
    return next((task for task in job.spec.tasks if task.name == name), None)


def _host(job: Job, task: Task, index: int, spec: dict[str, Any]) -> Host:
    name = spec.get("hostname") or members.pod_name(job.metadata.name, task.name, index)
    return name, spec.get("subdomain") or job.metadata.name


def _joined(host: Host) -> str:
    return ".".join(host)

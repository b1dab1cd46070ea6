"""The DNS names of a Job's pods, which the headless Service of the plugin `svc` provides, and the files that list them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyroclast.api.jobplugins import LONGEST_HOST_LIST, MOST_IN_VARIABLES
from pyroclast.api.records import Job, Task
from pyroclast.lifecycle.gang import members
from pyroclast.lifecycle.gang.pods import template_of
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

    Raises PluginError: the Job has more than `MOST_HOSTS` pods.
    """
    spec = template_of(task).get("spec") or {}
    if (total := sum(each.replicas for each in job.spec.tasks if each.array is None)) > MOST_HOSTS:
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
    if task.array is not None:
        return 0  # its pods do not know each other
    return min(task.replicas, 1) if spec.get("hostname") else task.replicas


def _joined(host: Host) -> str:
    return ".".join(host)


_LARGEST: Final = 900_000
"""Most bytes of a ConfigMap. The API server accepts 1 MiB."""

_LONGEST_FILE: Final = 400_000
"""Most bytes of one file, so that two files fit into a ConfigMap and little of it stays empty."""


def parts(job: Job) -> list[dict[str, str]]:
    """Return the data of each ConfigMap. The first contains all variables. A long host list continues in numbered files."""
    fitting = fit_variables(job)
    small: dict[str, str] = {}
    files: list[tuple[str, str]] = []
    for task in job.spec.tasks:
        names = addresses(job, task)
        listed, number = variables(task)
        files += _files(task, names)
        if task.name in fitting:
            small[listed] = ",".join(names)
        small[number] = str(len(names))
    found, room = [dict[str, str]()], _LARGEST - sum(len(key) + len(value) for key, value in small.items())
    for name, text in files:
        size = len(name) + len(text)
        if size > room:
            found.append({})
            room = _LARGEST
        found[-1][name] = text
        room -= size
    found[0] |= small
    return found


def variables(task: Task) -> tuple[str, str]:
    """Return the names of the variables with the hosts of `task` and with their number."""
    word = task.name.replace("-", "_").upper()
    return f"VC_{word}_HOSTS", f"VC_{word}_NUM"


def _files(task: Task, names: list[str]) -> Iterator[tuple[str, str]]:
    name = f"{task.name.replace('-', '_')}.host"
    lines, length, number = list[str](), 0, 0
    for line in names:
        if length + len(line) > _LONGEST_FILE:
            yield (f"{name}.{number:03}" if number else name), "\n".join(lines) + "\n"
            lines, length, number = [], 0, number + 1
        lines.append(line)
        length += len(line) + 1
    yield (f"{name}.{number:03}" if number else name), "\n".join(lines)

"""The host files of the plugin `svc`, with the addresses of all pods, split so that each ConfigMap can be stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyroclast.api.records import Job, Task
from pyroclast_job_controller.plugins.hosts import addresses, fit_variables

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
    """Yield the files with the hosts of `task`, in the order of their names."""
    name = f"{task.name.replace('-', '_')}.host"
    lines, length, number = list[str](), 0, 0
    for line in names:
        if length + len(line) > _LONGEST_FILE:
            yield (f"{name}.{number:03}" if number else name), "\n".join(lines) + "\n"
            lines, length, number = [], 0, number + 1
        lines.append(line)
        length += len(line) + 1
    yield (f"{name}.{number:03}" if number else name), "\n".join(lines)

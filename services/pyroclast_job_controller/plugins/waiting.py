"""The init container in which a launcher waits until its workers' names resolve, for `svc --wait-for-workers`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyroclast.api.jobplugins import BUILT_IN, LONGEST_HOST_LIST
from pyroclast.api.records import Job, Task
from pyroclast.lifecycle.gang.size import needed_pods
from pyroclast.lifecycle.jobplugins import Manifest
from pyroclast.resources.go_flags import parse
from pyroclast_job_controller.plugins.hosts import addresses, task_named

NAME: Final = "wait-for-workers"

_USUAL: Final = ("launcher", "master")
"""Default names of the task that launches."""

_SCRIPT: Final = """\
while :; do
  found=0
  for host in {hosts}; do
    if nslookup "$host" >/dev/null 2>&1 || getent hosts "$host" >/dev/null 2>&1; then
      found=$((found + 1))
    else
      for domain in $(sed -n 's/^search//p' /etc/resolv.conf); do
        if nslookup "$host.$domain" >/dev/null 2>&1; then found=$((found + 1)); break; fi
      done
    fi
  done
  if [ "$found" -ge {needed} ]; then break; fi
  echo "$found of {needed} names of task {task} resolve, waiting for more"
  sleep 2
done
echo "{needed} names of task {task} resolve"
"""
"""Resolves in three ways: an `nslookup` may ignore the search domains, and an image may have only one of the programs."""


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


def init_container(job: Job, task: Task, image: str) -> Manifest:
    """Return an init container that ends when, for each task of workers, as many names resolve as the gang needs pods."""
    scripts = [_script(other, addresses(job, other)) for other in workers(job, task)]
    return {"name": NAME, "image": image, "command": ["sh", "-c", "".join(scripts) or "true"]}


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

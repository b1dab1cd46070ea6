"""The plugin `slurm`, which gives containers the environment variables that programs written for Slurm read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyroclast.api.records import Job, Task
from pyroclast.lifecycle.gang import arrays
from pyroclast.lifecycle.jobplugins import JobPlugin, Manifest
from pyroclast.lifecycle.plugins.containers import change_containers, extended, variable
from pyroclast.resources import indexes, quantity

_LARGEST_ID: Final = 2**31 - 1
"""The largest number of a Job: programs read it into a signed integer of 32 bits."""


class SlurmPlugin(JobPlugin):
    """Adds `SLURM_JOB_ID` and others; a pod of an array is a Job of one task of Slurm, and has the variables of arrays too.

    Each pod of another task is one node and one task. The numbers of Jobs follow from the UID of the Job.
    """

    name = "slurm"

    def pod(self, job: Job, task: Task, index: int, manifest: Manifest) -> Manifest:
        """Append the variables to all containers and init containers; a variable that a container has already stays."""
        shared = dict(_variables(job, task, index))

        def with_own(container: Manifest) -> Manifest:
            given = {each.get("name") for each in container.get("env") or ()}
            named = {**shared, **dict(_of_container(container))}
            return extended(container, "env", [variable(name, value) for name, value in named.items() if name not in given])

        return change_containers(manifest, with_own)


def _variables(job: Job, task: Task, index: int) -> Iterator[tuple[str, str]]:
    whole = str(_number(job.metadata.uid))
    ranges = indexes.lenient(task.array.indexes) if task.array is not None else ()
    yield "SLURM_JOB_NAME", job.metadata.name
    yield "SLURM_LOCALID", "0"
    if ranges:
        yield "SLURM_JOB_ID", str(_number(f"{job.metadata.uid}/{task.name}/{index}"))
        yield "SLURM_ARRAY_JOB_ID", whole
        yield "SLURM_ARRAY_TASK_ID", str(index)
        yield "SLURM_ARRAY_TASK_COUNT", str(indexes.number(ranges))
        yield "SLURM_ARRAY_TASK_MIN", str(ranges[0].start)
        yield "SLURM_ARRAY_TASK_MAX", str(ranges[-1][-1])
    else:
        yield "SLURM_JOB_ID", whole
    others = [each for each in job.spec.tasks if each.array is None]
    before = sum(each.replicas for each in others[: others.index(task)]) if task in others else 0
    count = 1 if ranges else sum(each.replicas for each in others)
    rank = 0 if ranges else before + index
    for name, number in (("NTASKS", count), ("PROCID", rank), ("NODEID", rank), ("JOB_NUM_NODES", count), ("NNODES", count)):
        yield f"SLURM_{name}", str(number)
    if failures := arrays.failures_before(job, task, index):
        yield "SLURM_RESTART_COUNT", str(failures)


def _of_container(container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    resources = container.get("resources") or {}
    given = (resources.get("requests") or {}).get("cpu") or (resources.get("limits") or {}).get("cpu")
    try:
        cpus = quantity.parse(str(given)).value if given is not None else 1
    except ValueError:
        cpus = 1  # the API server refuses the pod
    yield "SLURM_CPUS_PER_TASK", str(max(1, cpus))
    if container.get("workingDir"):
        yield "SLURM_SUBMIT_DIR", str(container["workingDir"])


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % _LARGEST_ID + 1

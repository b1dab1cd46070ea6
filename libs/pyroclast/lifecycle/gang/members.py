"""The pods of a Job: their names, and the information in their labels and annotations."""

from __future__ import annotations

from typing import Final

import msgspec

from pyroclast.api import keys
from pyroclast.api.enums import PodPhase
from pyroclast.api.records import Job, OwnerReference, Pod
from pyroclast.api.types import JOBS, Key

_FINISHED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)


def pod_name(job: str, task: str, index: int) -> str:
    """Return the name of pod `index` of a task."""
    return f"{job}-{task}-{index}"


def place_of(job: str, name: str) -> tuple[str, int]:
    """Return the task and the index in `name`, the name of a pod of `job`; the index is -1 when it is no such name.

    It is the inverse of `pod_name`. So the pods that exist tell their places, and no code has to make the names of all replicas:
    the number of replicas is whatever a user wrote.
    """
    head, _, digits = name.rpartition("-")
    is_index = digits.isascii() and digits.isdecimal() and (digits[0] != "0" or digits == "0")
    return (head[len(job) + 1 :], int(digits)) if is_index and head.startswith(f"{job}-") else ("", -1)


def group_name(job: Job) -> str:
    """Return the name of the Job's PodGroup."""
    return f"{job.metadata.name}-{job.metadata.uid}"


def owner_of(pod: Pod) -> OwnerReference | None:
    """Return the owner reference to the Job that controls `pod`; None when no Job does."""
    owner = pod.metadata.controller
    return owner if owner and owner.kind == JOBS.kind and owner.api_version == JOBS.api_version else None


def job_key(pod: Pod) -> Key | None:
    """Return the key of the Job that controls `pod`; None when no Job does."""
    owner = owner_of(pod)
    return Key(pod.metadata.namespace, owner.name) if owner else None


def task_of(pod: Pod) -> str:
    """Return the name of the task to which `pod` belongs; empty when the pod has no such annotation."""
    return pod.metadata.annotations.get(keys.TASK_SPEC, "")


def index_of(pod: Pod) -> int:
    """Return the index of `pod` in its task; -1 when its name has no index."""
    index = pod.metadata.name.rpartition("-")[2]
    return int(index) if index.isdecimal() else -1


def version_of(pod: Pod) -> int:
    """Return the version of the Job at the creation of `pod`; -1, lower than any version, without the annotation."""
    version = pod.metadata.annotations.get(keys.JOB_VERSION, "")
    return int(version) if version.isdecimal() else -1


def is_marked(pod: Pod) -> bool:
    """Whether the controller has marked `pod` because the controller is about to delete the pod."""
    return keys.OUT_OF_SYNC in pod.metadata.annotations


def is_surplus(job: Job, pod: Pod) -> bool:
    """Whether `pod` is beyond the spec of `job`: its task was scaled down or removed."""
    task = next((task for task in job.spec.tasks if task.name == task_of(pod)), None)
    return task is None or index_of(pod) >= task.replicas


def is_released(job: Job, pod: Pod) -> bool:
    """Whether the controller deletes `pod` on purpose: `pod` is marked, has an older version of `job`, or is surplus."""
    return is_marked(pod) or version_of(pod) < job.status.version or is_surplus(job, pod)


def named(job: Job) -> Job:
    """Return `job` with a name for each task: tasks without a name get the name that admission would have set."""
    if all(task.name for task in job.spec.tasks):
        return job
    tasks = tuple(
        task if task.name else msgspec.structs.replace(task, name=f"default{index}") for index, task in enumerate(job.spec.tasks)
    )
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, tasks=tasks))


def is_finished(pod: Pod) -> bool:
    """Whether `pod` has succeeded or failed."""
    return pod.status.phase in _FINISHED


def exit_code(pod: Pod) -> int:
    """Return the exit code of the first container of `pod`; 0 while the container has not ended."""
    terminated = pod.status.container_statuses[0].state.terminated if pod.status.container_statuses else None
    return terminated.exit_code if terminated else 0


def last_exit_code(pod: Pod) -> int:
    """Return the first exit code other than 0 of a restarted container of `pod`; 0 when there is none."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    ended = (status.last_state.terminated or status.state.terminated for status in statuses if status.restart_count)
    return next((terminated.exit_code for terminated in ended if terminated and terminated.exit_code), 0)


def restarts(pod: Pod) -> int:
    """Return the number of restarts of the containers of `pod`, init containers included."""
    return sum(status.restart_count for status in (*pod.status.init_container_statuses, *pod.status.container_statuses))

"""The pods of a Job: their names, and what their labels and annotations say of them."""

from __future__ import annotations

from typing import Final

from pyroclast.api import keys
from pyroclast.api.enums import PodPhase
from pyroclast.api.records import Job, OwnerReference, Pod
from pyroclast.api.types import JOBS, Key

__all__ = [
    "exit_code",
    "group_name",
    "index_of",
    "is_finished",
    "is_marked",
    "job_key",
    "owner_of",
    "pod_name",
    "restarts",
    "task_of",
    "version_of",
]

_FINISHED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)


def pod_name(job: str, task: str, index: int) -> str:
    """The name of pod `index` of a task."""
    return f"{job}-{task}-{index}"


def group_name(job: Job) -> str:
    """The name of the Job's PodGroup."""
    return f"{job.metadata.name}-{job.metadata.uid}"


def owner_of(pod: Pod) -> OwnerReference | None:
    """The Job that controls `pod`; None when no Job does."""
    owner = pod.metadata.controller
    return owner if owner and owner.kind == JOBS.kind and owner.api_version == JOBS.api_version else None


def job_key(pod: Pod) -> Key | None:
    """The key of the Job that controls `pod`."""
    owner = owner_of(pod)
    return Key(pod.metadata.namespace, owner.name) if owner else None


def task_of(pod: Pod) -> str:
    """The task that `pod` belongs to; empty when it does not say."""
    return pod.metadata.annotations.get(keys.TASK_SPEC, "")


def index_of(pod: Pod) -> int:
    """The index of `pod` in its task; -1 when its name has none."""
    index = pod.metadata.name.rpartition("-")[2]
    return int(index) if index.isdecimal() else -1


def version_of(pod: Pod) -> int:
    """The version of the Job at which `pod` was made; -1, older than any, when it does not say."""
    version = pod.metadata.annotations.get(keys.JOB_VERSION, "")
    return int(version) if version.isdecimal() else -1


def is_marked(pod: Pod) -> bool:
    """Whether the controller has marked `pod` because it is going to delete it itself."""
    return keys.OUT_OF_SYNC in pod.metadata.annotations


def is_finished(pod: Pod) -> bool:
    """Whether `pod` has succeeded or failed."""
    return pod.status.phase in _FINISHED


def exit_code(pod: Pod) -> int:
    """How the first container ended; 0 while it has not."""
    terminated = pod.status.container_statuses[0].state.terminated if pod.status.container_statuses else None
    return terminated.exit_code if terminated else 0


def restarts(pod: Pod) -> int:
    """How often the containers of `pod`, init containers included, were restarted."""
    return sum(status.restart_count for status in (*pod.status.init_container_statuses, *pod.status.container_statuses))

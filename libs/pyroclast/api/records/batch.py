"""The record of native Jobs of Kubernetes with their end, which only the recorder reads."""

from __future__ import annotations

from pyroclast.api.records.meta import Condition, Wire
from pyroclast.api.records.workloads import BatchJob, BatchJobSpec


class JobPodSpec(Wire, frozen=True, kw_only=True):
    """The spec of a Job's pods."""

    scheduler_name: str = ""


class JobTemplate(Wire, frozen=True, kw_only=True):
    """The pod template of a Job."""

    spec: JobPodSpec = JobPodSpec()


class JobSpec(BatchJobSpec, frozen=True, kw_only=True):
    """The spec of a Job."""

    template: JobTemplate = JobTemplate()


class JobStatus(Wire, frozen=True, kw_only=True):
    """The status of a Job; the conditions of type `Complete` and `Failed` end the Job."""

    conditions: tuple[Condition, ...] = ()


class Job(BatchJob, frozen=True, kw_only=True):
    """A native Job of Kubernetes."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

"""The record of the Jobs of Kubernetes itself with how they end, which the recorder alone reads."""

from __future__ import annotations

from pyroclast.api.records.meta import Condition, Wire
from pyroclast.api.records.workloads import BatchJob, BatchJobSpec

__all__ = ["Job", "JobPodSpec", "JobSpec", "JobStatus", "JobTemplate"]


class JobPodSpec(Wire, frozen=True, kw_only=True):
    """What its pods are."""

    scheduler_name: str = ""


class JobTemplate(Wire, frozen=True, kw_only=True):
    """The template of its pods."""

    spec: JobPodSpec = JobPodSpec()


class JobSpec(BatchJobSpec, frozen=True, kw_only=True):
    """What it runs."""

    template: JobTemplate = JobTemplate()


class JobStatus(Wire, frozen=True, kw_only=True):
    """How it is: `Complete` and `Failed` are the types of the conditions that end it."""

    conditions: tuple[Condition, ...] = ()


class Job(BatchJob, frozen=True, kw_only=True):
    """A Job."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

"""The record of native Jobs of Kubernetes with the scheduler of their pods, which only the recorder reads."""

from __future__ import annotations

from pyroclast.api.records.meta import Wire
from pyroclast.api.records.workloads import BatchJob, BatchJobSpec


class JobPodSpec(Wire, frozen=True, kw_only=True):
    scheduler_name: str = ""


class JobTemplate(Wire, frozen=True, kw_only=True):
    spec: JobPodSpec = JobPodSpec()


class JobSpec(BatchJobSpec, frozen=True, kw_only=True):
    template: JobTemplate = JobTemplate()


class Job(BatchJob, frozen=True, kw_only=True):
    spec: JobSpec = JobSpec()

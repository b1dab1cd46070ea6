"""The record of the Jobs of Kubernetes itself (`batch/v1`), as far as the recorder reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.api.records.meta import Condition, ObjectRecord, Wire

__all__ = ["Job", "JobPodSpec", "JobSpec", "JobStatus", "JobTemplate"]


class JobPodSpec(Wire, frozen=True, kw_only=True):
    """What its pods are."""

    scheduler_name: str = ""


class JobTemplate(Wire, frozen=True, kw_only=True):
    """The template of its pods."""

    spec: JobPodSpec = JobPodSpec()


class JobSpec(Wire, frozen=True, kw_only=True):
    """What it runs. `scheduling`: how its pods start together, as raw as it is."""

    template: JobTemplate = JobTemplate()
    scheduling: Mapping[str, Any] | None = None


class JobStatus(Wire, frozen=True, kw_only=True):
    """How it is: `Complete` and `Failed` are the types of the conditions that end it."""

    conditions: tuple[Condition, ...] = ()


class Job(ObjectRecord, frozen=True, kw_only=True):
    """A Job."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

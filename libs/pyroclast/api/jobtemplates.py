"""JobTemplate: what a Job of a flow looks like."""

from __future__ import annotations

from pyroclast.api import types
from pyroclast.api.jobs import JobSpec
from pyroclast.api.kinds import CustomKind
from pyroclast.api.wire import ApiObject, WireModel

__all__ = ["KIND", "JobTemplate", "JobTemplateStatus"]


class JobTemplateStatus(WireModel):
    """What was made from a template."""

    job_depends_on_list: list[str] | None = None
    """Names of the Jobs that were made from the template."""


class JobTemplate(ApiObject):
    """A JobTemplate says what the Jobs look like that flows make under its name."""

    spec: JobSpec | None = None
    """What the Jobs should be."""
    status: JobTemplateStatus | None = None
    """What was made from the template."""


KIND = CustomKind(types.JOB_TEMPLATES, JobTemplate, ("jt",))

"""JobTemplate: the template of a flow's Jobs."""

from __future__ import annotations

from pyroclast.api import types
from pyroclast.api.jobs import JobSpec
from pyroclast.api.kinds import CustomKind
from pyroclast.api.wire import ApiObject, WireModel


class JobTemplateStatus(WireModel):
    """The state of a template."""

    job_depends_on_list: list[str] | None = None
    """Names of the Jobs that were created from the template."""


class JobTemplate(ApiObject):
    """A JobTemplate is the template of the Jobs that flows create for entries of the same name."""

    spec: JobSpec | None = None
    """The spec of the Jobs."""
    status: JobTemplateStatus | None = None
    """The state of the template."""


KIND = CustomKind(types.JOB_TEMPLATES, JobTemplate, ("jt",))

"""Rules for specs from which Jobs will be created: in a JobTemplate or a CronJob."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pyroclast.api.jobplugins import BUILT_IN
from pyroclast.rules.jobs.create import check_spec
from pyroclast.rules.jobs.defaults import default
from pyroclast.rules.patches import applied
from pyroclast.rules.verdicts import Finding


def check_template_spec(
    spec: Mapping[str, Any], path: str, *, name: str, pod_level_resources: bool = True, plugins: Collection[str] = BUILT_IN
) -> list[Finding]:
    """Return all faults of the spec of a template at `path`, which is checked like the future Job, with its defaults.

    The Job has no name yet, so messages use `name`. Rules for the Job's name and queue are skipped.
    """
    job = applied({"spec": spec}, default({"spec": spec}))
    return check_spec(job["spec"], path, name=name, pod_level_resources=pod_level_resources, plugins=plugins)

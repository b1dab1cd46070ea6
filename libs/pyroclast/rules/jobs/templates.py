"""Rules for specs from which Jobs will be created: in a JobTemplate, a CronJob, a HyperJob or an entry of a flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.rules.errors import invalid
from pyroclast.rules.jobs.create import check_spec
from pyroclast.rules.jobs.defaults import default
from pyroclast.rules.jobs.queue import ROOT_REFUSED
from pyroclast.rules.lookups import ANY_JOB, ROOT_QUEUE, JobOptions
from pyroclast.rules.patches import applied
from pyroclast.rules.verdicts import Finding


def check_template_spec(spec: Mapping[str, Any], path: str, options: JobOptions = ANY_JOB, *, name: str) -> list[Finding]:
    """Return all faults of the spec of a template at `path`, which is checked like the future Job, with its defaults.

    The Job has no name yet, so messages use `name`. Rules for the Job's name are skipped, and those for its queue, which may be
    created later; the queue `root` never takes Jobs.
    """
    job = applied({"spec": spec}, default({"spec": spec}))
    findings = check_spec(job["spec"], path, options, name=name)
    if spec.get("queue") == ROOT_QUEUE:
        error = invalid(f"{path}.queue", ROOT_QUEUE, f"{ROOT_REFUSED}; name a queue below it")
        findings.append(Finding(f"{ROOT_REFUSED};", (error,), extra=True))
    return findings

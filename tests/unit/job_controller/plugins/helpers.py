"""Using a plugin on a Job, and looking at what comes out."""

from __future__ import annotations

import copy
from typing import Any

from pyroclast.api.records import Job
from pyroclast.lifecycle.gang import pods
from pyroclast_job_controller.plugins.registry import JobPlugin
from tests.unit.lifecycle.builders import template

__all__ = ["env", "pod_of", "with_init"]


def pod_of(plugin: JobPlugin, owner: Job, task: str | int = 0, index: int = 0) -> dict[str, Any]:
    """Pod `index` of a task, by its name or number, as `plugin` makes it; the manifest that it is given must stay as it is."""
    number = task if isinstance(task, int) else [each.name for each in owner.spec.tasks].index(task)
    spec = owner.spec.tasks[number]
    given = pods.build(owner, spec, index)
    before = copy.deepcopy(given)
    made = plugin.pod(owner, spec, index, given)
    assert given == before
    return made


def env(pod: dict[str, Any], container: int = 0) -> dict[str, str]:
    """The variables of a container with their values."""
    return {entry["name"]: entry.get("value", "") for entry in pod["spec"]["containers"][container].get("env", ())}


def with_init(**spec: Any) -> dict[str, Any]:
    """A template with an init container."""
    both = template(**spec)
    both["spec"]["initContainers"] = [{"name": "i"}]
    return both

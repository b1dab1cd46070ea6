"""The plugin `hcclrank`, which gives each pod a rank for collective communication on Ascend devices."""

from __future__ import annotations

from typing import Final

from pyroclast.api.records import Job, Task
from pyroclast.lifecycle.jobplugins import JobPlugin, Manifest
from pyroclast.lifecycle.plugins.containers import annotated
from pyroclast.lifecycle.plugins.hosts import task_named

_ANNOTATION: Final = "hccl/rankIndex"


class HcclrankPlugin(JobPlugin):
    """Annotates the pod with its rank: the value of its variable `RANK`, or its index with masters before workers."""

    name = "hcclrank"
    mark = False

    def pod(self, job: Job, task: Task, index: int, manifest: Manifest) -> Manifest:
        """Add the annotation with the rank, unless the pod already has this annotation or has no rank."""
        if (manifest["metadata"].get("annotations") or {}).get(_ANNOTATION):
            return manifest
        rank = _given(manifest) or self._worked_out(job, task, index)
        return annotated(manifest, _ANNOTATION, rank) if rank else manifest

    def _worked_out(self, job: Job, task: Task, index: int) -> str:
        if task.name == self.flags.text("master"):
            return str(index)
        if task.name != self.flags.text("worker"):
            return ""
        master = task_named(job, self.flags.text("master"))
        return str((master.replicas if master else 0) + index)


def _given(pod: Manifest) -> str:
    """Return the value of the first variable RANK in a container. Empty when no such variable has a literal value."""
    for container in pod["spec"].get("containers") or ():
        for entry in container.get("env") or ():
            if entry.get("name") == "RANK":
                return str(entry.get("value") or "")
    return ""

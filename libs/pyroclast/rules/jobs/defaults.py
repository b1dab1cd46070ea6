"""Defaults of a Job, as patches of single fields: nothing that the user wrote is written again."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any

from pyroclast.rules.values import Json, integer, items, mapping, mappings, text
from pyroclast.rules.verdicts import Patch

DEFAULT_QUEUE = "default"
DEFAULT_SCHEDULER = "volcano"
DEFAULT_MAX_RETRY = 3

_NEEDS_SERVICE = ("tensorflow", "mpi", "pytorch", "ray")
_NEEDS_SSH = ("mpi",)


def default(job: Mapping[str, Any], *, scheduler_name: str = DEFAULT_SCHEDULER) -> Patch:
    """Return the operations that set the defaults of `job`; none for a Job without spec, which validation refuses.

    Values of a wrong type and negative numbers stay, because the schema reports them.
    """
    if not isinstance(job.get("spec"), dict):
        return []
    spec = mapping(job["spec"])
    patch: Patch = []
    if _unset(spec.get("queue"), ""):
        patch.append(_add("/spec/queue", DEFAULT_QUEUE))
    if _unset(spec.get("schedulerName"), ""):
        patch.append(_add("/spec/schedulerName", scheduler_name))
    if _unset(spec.get("maxRetry"), 0):
        patch.append(_add("/spec/maxRetry", DEFAULT_MAX_RETRY))
    for index, task in enumerate(items(spec.get("tasks"))):
        if isinstance(task, dict):
            patch += _default_task(f"/spec/tasks/{index}", index, task)
    if _unset(spec.get("minAvailable"), 0):
        patch.append(_add("/spec/minAvailable", sum(task_minimum(task) for _, task in mappings(spec.get("tasks")))))
    patch += _default_plugins(spec.get("plugins"))
    return patch


def default_update(job: Mapping[str, Any], old: Mapping[str, Any], *, scheduler_name: str = DEFAULT_SCHEDULER) -> Patch:
    """Return the operations that complete a spec which replaces that of `old`, as when a manifest is applied again.

    Existing values stay, also a 0. The scheduler is that of `old`, even if new Jobs have another default.
    """
    patch = default(job, scheduler_name=text(mapping(old.get("spec")).get("schedulerName")) or scheduler_name)
    return [operation for operation in patch if not _is_there(job, operation["path"])]


def default_warnings(job: Mapping[str, Any]) -> tuple[str, ...]:
    """Return warnings for values that the defaults replace, although they were written."""
    if mapping(job.get("spec")).get("maxRetry") != 0:
        return ()
    return ("spec.maxRetry: 0 is taken as the default 3, as in Volcano; 1 lets the job fail instead of its first restart",)


def task_minimum(task: Mapping[str, Any]) -> int:
    """Return how many pods of the task the gang needs: as set, else 1 of an array, what the partitions need, or all pods."""
    given = task.get("minAvailable")
    if given is not None:
        return integer(given)
    if "array" in task:
        return 1  # its pods are independent of each other
    partitions = mapping(task.get("partitionPolicy"))
    minimum = integer(partitions.get("minPartitions"))
    return minimum * integer(partitions.get("partitionSize")) if minimum > 0 else integer(task.get("replicas"))


def _default_task(path: str, index: int, task: Mapping[str, Any]) -> Patch:
    patch: Patch = []
    if _unset(task.get("name"), ""):
        patch.append(_add(f"{path}/name", f"default{index}"))
    pod = mapping(mapping(task.get("template")).get("spec"))
    if pod.get("hostNetwork") is True and _unset(pod.get("dnsPolicy"), ""):
        patch.append(_add(f"{path}/template/spec/dnsPolicy", "ClusterFirstWithHostNet"))
    if task.get("minAvailable") is None and type(task.get("replicas")) in (int, NoneType):
        patch.append(_add(f"{path}/minAvailable", task_minimum(task)))
    if _unset(task.get("maxRetry"), 0):
        patch.append(_add(f"{path}/maxRetry", DEFAULT_MAX_RETRY))
    return patch


def _default_plugins(plugins: Json) -> Patch:
    if not isinstance(plugins, dict):
        return []
    patch: Patch = []
    if "svc" not in plugins and any(name in plugins for name in _NEEDS_SERVICE):
        patch.append(_add("/spec/plugins/svc", []))
    if "ssh" not in plugins and any(name in plugins for name in _NEEDS_SSH):
        patch.append(_add("/spec/plugins/ssh", []))
    return patch


def _is_there(document: Json, path: str) -> bool:
    """Whether the document has the field at `path`. The names in the paths of defaults need no escapes."""
    for part in path.split("/")[1:]:
        document = document[int(part)] if isinstance(document, list) else mapping(document).get(part)
    return document is not None


def _unset(value: Json, zero: str | int) -> bool:
    return value is None or (type(value) is type(zero) and value == zero)


def _add(path: str, value: Json) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}

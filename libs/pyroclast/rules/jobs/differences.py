"""The immutable fields of a Job's spec that an update changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.rules.meaning import same_meaning
from pyroclast.rules.values import Json, mappings

_FREE = frozenset({"minAvailable", "priorityClassName", "tasks", "volumes"})
_FREE_IN_TASK = frozenset({"replicas", "minAvailable"})


def changed_fields(spec: Mapping[str, Any], old: Mapping[str, Any]) -> list[str]:
    """Return the paths of the immutable fields whose meaning differs. Both specs have the same number of tasks."""
    changed = [f"spec.{key}" for key in _changed(spec, old, free=_FREE)]
    before = dict(mappings(old.get("tasks")))
    for index, task in mappings(spec.get("tasks")):
        changed += [f"spec.tasks[{index}].{key}" for key in _changed(task, before[index], free=_FREE_IN_TASK)]
    if not same_meaning(_without_made_names(spec.get("volumes")), _without_made_names(old.get("volumes")), of_job=True):
        changed.append("spec.volumes")
    return changed


def _changed(new: Mapping[str, Any], old: Mapping[str, Any], *, free: frozenset[str]) -> list[str]:
    keys = sorted((new.keys() | old.keys()) - free)
    return [key for key in keys if not same_meaning({key: new.get(key)}, {key: old.get(key)}, of_job=True)]


def _without_made_names(volumes: Json) -> list[dict[str, Any]]:
    """Return the volumes without the claim names that the controller generates for new claims."""
    return [
        {key: value for key, value in volume.items() if key != "volumeClaimName" or "volumeClaim" not in volume}
        for _, volume in mappings(volumes)
    ]

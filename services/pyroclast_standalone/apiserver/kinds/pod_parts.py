"""What changes of a pod by way of its subresources: ephemeral containers are added, resources are resized."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast_standalone.apiserver.documents.errors import FieldError, forbidden, invalid

from .diffs import diff
from .pod_annotations import MIRROR, check_annotation_changes
from .pod_checks import check_pod
from .quality import quality_of_service
from .rules import Part

__all__ = ["EPHEMERAL_CONTAINERS", "RESIZE"]

_RESIZED: Final = ("cpu", "memory")
_ONLY_RESOURCES: Final = "only cpu and memory resources are mutable"


def _take_ephemeral_containers(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    given = new["spec"].get("ephemeralContainers")
    new["spec"] = {field: value for field, value in old["spec"].items() if field != "ephemeralContainers"}
    if given:
        new["spec"]["ephemeralContainers"] = given


def _check_ephemeral_containers(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    if MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden("", "static pods do not support ephemeral containers")]
    errors = [*check_pod(new), *check_annotation_changes(new, old)]
    mine = {each.get("name"): each for each in new["spec"].get("ephemeralContainers") or ()}
    for before in old["spec"].get("ephemeralContainers") or ():
        name = before.get("name", "")
        start = f'existing ephemeral containers "{name}" may not be'
        if name not in mine:
            errors.append(forbidden("spec.ephemeralContainers", f"{start} removed\n"))
        elif mine[name] != before:
            errors.append(forbidden("spec.ephemeralContainers", f"{start} changed\n{diff(before, mine[name])}"))
    return errors


def _take_resources(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    given = new["spec"]
    spec: dict[str, Any] = copy.deepcopy(old["spec"])
    for field in ("containers", "initContainers"):
        mine, theirs = given.get(field) or [], spec.get(field) or []
        if [each.get("name") for each in mine] != [each.get("name") for each in theirs]:
            if mine:
                spec[field] = mine
            continue
        for container, before in zip(mine, theirs, strict=True):
            before["resources"] = container.get("resources") or {}
            if "resizePolicy" in container:
                before["resizePolicy"] = container["resizePolicy"]
    if "resources" in given:
        spec["resources"] = given["resources"]
    new["spec"] = spec


def _settled(container: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """`container` with the amounts that may change set back to what they were."""
    resources: dict[str, Any] = {}
    theirs = before.get("resources") or {}
    for kind in ("limits", "requests"):
        own = {
            name: amount for name, amount in ((container.get("resources") or {}).get(kind) or {}).items() if name not in _RESIZED
        }
        own |= {name: amount for name, amount in (theirs.get(kind) or {}).items() if name in _RESIZED}
        if own:
            resources[kind] = own
    if "claims" in theirs:
        resources["claims"] = theirs["claims"]
    return {**container, "resources": resources}


def _check_containers(new: Sequence[Mapping[str, Any]], old: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, (container, before) in enumerate(zip(new, old, strict=True)):
        mine, theirs = container.get("resources") or {}, before.get("resources") or {}
        errors += [
            forbidden(f"{path}[{index}].resources.{kind}", f"resource {kind} cannot be removed")
            for kind in ("requests", "limits")
            if not set(theirs.get(kind) or ()) <= set(mine.get(kind) or ())
        ]
    return errors


def _check_resize(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    if MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden("", "static pods cannot be resized")]
    spec, before = new["spec"], old["spec"]
    if (before.get("os") or {}).get("name") == "windows":
        return [forbidden("", "windows pods cannot be resized")]
    errors = check_pod(new)
    quality = (old.get("status") or {}).get("qosClass") or quality_of_service(before)
    if quality != quality_of_service(spec):
        text = "Pod QOS Class may not change as a result of resizing"
        errors.append(invalid("spec", (new.get("status") or {}).get("qosClass", ""), text))
    for field, words in (("containers", "containers"), ("initContainers", "initContainers")):
        mine, theirs = spec.get(field) or [], before.get(field) or []
        if [each.get("name") for each in mine] != [each.get("name") for each in theirs]:
            return [*errors, forbidden(f"spec.{field}", f"{words} may not be renamed, reordered, added or removed on resize")]
    errors += _check_containers(spec.get("initContainers") or [], before.get("initContainers") or [], "spec.initContainers")
    errors += _check_containers(spec.get("containers") or [], before.get("containers") or [], "spec.containers")
    for container, known in zip(spec.get("containers") or (), before.get("containers") or (), strict=True):
        if _settled(container, known) != known:
            errors.append(forbidden("spec", _ONLY_RESOURCES))
    for container, known in zip(spec.get("initContainers") or (), before.get("initContainers") or (), strict=True):
        if container.get("restartPolicy") != "Always":
            if container != known:
                errors.append(forbidden("spec", "resources for non-sidecar init containers are immutable"))
        elif _settled(container, known) != known:
            errors.append(forbidden("spec", "only cpu and memory resources for sidecar containers are mutable"))
    return errors


EPHEMERAL_CONTAINERS: Final = Part(keep=_take_ephemeral_containers, check=_check_ephemeral_containers)
RESIZE: Final = Part(keep=_take_resources, check=_check_resize)

"""What the endpoints `ephemeralcontainers` and `resize` of a pod may change: one part of its spec each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents.errors import FieldError, forbidden, invalid

from .diffs import diff
from .pod_checks import check_pod
from .rules import Part

__all__ = ["parts_of_pods"]

_LISTS: Final = ("containers", "initContainers")
_SIZES: Final = ("resources", "resizePolicy")
_RESIZABLE: Final = ("cpu", "memory")


def parts_of_pods(quality_of_service: Callable[[Mapping[str, Any]], str]) -> dict[str, Part]:
    """The parts by their endpoints; a resize may not change the class of service."""

    def check_size(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        return _check_size(new, old, is_same_class=quality_of_service(new["spec"]) == quality_of_service(old["spec"]))

    return {"ephemeralcontainers": Part(_keep_all_but_guests, _check_guests), "resize": Part(_keep_all_but_sizes, check_size)}


def _keep_all_but_guests(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    guests = new["spec"].get("ephemeralContainers")
    new["spec"] = {name: value for name, value in old["spec"].items() if name != "ephemeralContainers"}
    if guests:
        new["spec"]["ephemeralContainers"] = guests


def _check_guests(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    path = "spec.ephemeralContainers"
    errors = check_pod(new)
    present = {each["name"]: each for each in new["spec"].get("ephemeralContainers") or ()}
    for each in old["spec"].get("ephemeralContainers") or ():
        name, now = each["name"], present.get(each["name"])
        if now is None:
            errors.append(forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif now != each:
            errors.append(forbidden(path, f'existing ephemeral containers "{name}" may not be changed\n{diff(each, now)}'))
    return errors


def _keep_all_but_sizes(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    """Containers that are added, removed, renamed or moved stay, for validation to refuse."""
    mine, theirs = new["spec"], old["spec"]
    if any(len(mine.get(field) or ()) != len(theirs.get(field) or ()) for field in _LISTS):
        return
    kept = {name: value for name, value in theirs.items() if name != "resources"}
    if "resources" in mine:
        kept["resources"] = mine["resources"]
    for field in _LISTS:
        if field in theirs:
            kept[field] = _resized(mine[field], theirs[field])
    new["spec"] = kept


def _resized(new: list[dict[str, Any]], old: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if [each["name"] for each in new] != [each["name"] for each in old]:
        return new
    return [
        {name: value for name, value in (theirs | {size: mine.get(size) for size in _SIZES}).items() if value is not None}
        for mine, theirs in zip(new, old, strict=True)
    ]


def _check_size(new: dict[str, Any], old: dict[str, Any], *, is_same_class: bool) -> list[FieldError]:
    errors = check_pod(new)
    mine, theirs = new["spec"], old["spec"]
    if not is_same_class:
        quality = (new.get("status") or {}).get("qosClass", "")
        errors.append(invalid("spec", quality, "Pod QOS Class may not change as a result of resizing"))
    if misplaced := list(_misplaced(mine, theirs)):
        return errors + misplaced
    for field in reversed(_LISTS):
        for index, (container, before) in enumerate(zip(mine.get(field) or (), theirs.get(field) or (), strict=True)):
            errors += _check_removed(container, before, f"spec.{field}[{index}].resources")
            if _without_sizes(container) != _without_sizes(before):
                errors.append(forbidden("spec", "only cpu and memory resources are mutable"))
    return errors


def _misplaced(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[FieldError]:
    for field in _LISTS:
        new, old = mine.get(field) or [], theirs.get(field) or []
        if len(new) != len(old):
            yield forbidden(f"spec.{field}", f"{field} may not be added or removed on resize")
            continue
        for index, (container, before) in enumerate(zip(new, old, strict=True)):
            if container["name"] != before["name"]:
                yield forbidden(f"spec.{field}[{index}].name", f"{field} may not be renamed or reordered on resize")


def _check_removed(container: Mapping[str, Any], before: Mapping[str, Any], path: str) -> list[FieldError]:
    new, old = container.get("resources") or {}, before.get("resources") or {}
    return [
        forbidden(f"{path}.{field}", f"resource {field} cannot be removed")
        for field in ("requests", "limits")
        if set(old.get(field) or ()) - set(new.get(field) or ())
    ]


def _without_sizes(container: Mapping[str, Any]) -> dict[str, Any]:
    """`container` without what a resize may change of it."""
    resources = {
        field: {name: amount for name, amount in (amounts or {}).items() if name not in _RESIZABLE}
        if field != "claims"
        else amounts
        for field, amounts in (container.get("resources") or {}).items()
    }
    kept = {name: value for name, value in container.items() if name not in _SIZES}
    return kept | {"resources": {field: amounts for field, amounts in resources.items() if amounts}}

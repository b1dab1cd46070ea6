"""Where a kind has its replicas, and who owns them after they were scaled."""

from __future__ import annotations

from typing import Any

from .registry import Resource

__all__ = ["at", "drop_scale_of_nothing", "has_owner", "paths"]


def paths(resource: Resource) -> tuple[str, str, str]:
    """Paths of the wished replicas, the present ones, and the selector."""
    declared = getattr(resource.strategy, "scale", None)
    if declared:
        return declared["specReplicasPath"], declared["statusReplicasPath"], declared.get("labelSelectorPath", "")
    return ".spec.replicas", ".status.replicas", ".spec.selector"


def at(body: dict[str, Any], path: str) -> Any:  # noqa: ANN401 - any JSON
    """The value at `path`; None where there is nothing."""
    value: Any = body
    for step in path.strip(".").split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def has_owner(resource: Resource, metadata: dict[str, Any]) -> bool:
    """Whether somebody owns the wished replicas: where nobody does, scaling makes no owner."""
    path = ".".join(f"f:{step}" for step in paths(resource)[0].strip(".").split("."))
    return any(at(entry.get("fieldsV1") or {}, path) is not None for entry in metadata.get("managedFields") or ())


def drop_scale_of_nothing(resource: Resource, body: dict[str, Any], manager: str) -> None:
    """Take the writer's entry away where it scaled to nothing: a Scale without replicas has no field to own."""
    if at(body, paths(resource)[0]):
        return
    metadata = body["metadata"]
    entries = metadata.get("managedFields") or []
    kept = [each for each in entries if not (each.get("subresource") == "scale" and each["manager"] == manager)]
    if kept != entries:
        metadata["managedFields"] = kept

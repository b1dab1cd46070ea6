"""Where a kind has its replicas."""

from __future__ import annotations

from typing import Any

from .registry import Resource

__all__ = ["at", "paths"]


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

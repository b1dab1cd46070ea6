"""The class of service of a pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.resources import quantity

__all__ = ["quality_of_service"]


def _is_zero(amount: str) -> bool:
    return amount == "0" or quantity.parse(amount).is_zero


def quality_of_service(spec: Mapping[str, Any]) -> str:
    """The class of service that its requests and limits give a pod: Guaranteed, Burstable or BestEffort.

    Those of all containers count, unless the pod has some as a whole.
    """
    guaranteed = True
    some = False
    whole = spec.get("resources") or {}
    holders = [spec] if whole.get("limits") or whole.get("requests") else None
    for holder in holders or [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = holder.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            limit, request = limits.get(name), requests.get(name)
            has_limit = limit is not None and not _is_zero(limit)
            some = some or has_limit or (request is not None and not _is_zero(request))
            if not has_limit or request != limit:
                guaranteed = False
    if not some:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"

"""The effective requests and limits of a whole pod, and its quality of service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pyroclast.resources import quantity
from pyroclast.resources.quantity import Quantity, QuantityError

Amounts: TypeAlias = dict[str, Quantity]
"""Amounts by name of the resource."""


def effective(spec: Mapping[str, Any], kind: str) -> Amounts:
    """Return the effective `requests` or `limits` (`kind`) of a pod spec, by Kubernetes' rules.

    The result is the larger of two amounts: the sum of containers and sidecars, or the largest sum during the init phase.
    Pod-level resources and overhead come on top. A quantity that cannot be parsed counts as zero, because admission has refused
    it.
    """
    running: Amounts = {}
    for container in spec.get("containers") or ():
        running = combined(running, _amounts(container, kind), Quantity.__add__)
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        amounts = combined(sidecars, _amounts(container, kind), Quantity.__add__)
        if container.get("restartPolicy") == "Always":
            sidecars = amounts
        starting = combined(starting, amounts, max)
    total = combined(combined(running, sidecars, Quantity.__add__), starting, max)
    total |= _amounts(spec, kind)
    overhead = _read(spec.get("overhead"))
    if kind != "requests":
        overhead = {name: amount for name, amount in overhead.items() if name in total}
    return combined(total, overhead, Quantity.__add__)


def combined(
    one: Mapping[str, Quantity], other: Mapping[str, Quantity], how: Callable[[Quantity, Quantity], Quantity]
) -> Amounts:
    """Return the union of two resource lists. Amounts with the same name are combined by `how`."""
    found = {**one, **other}
    return found | {name: how(amount, other[name]) for name, amount in one.items() if name in other}


def _amounts(holder: Mapping[str, Any], kind: str) -> Amounts:
    return _read((holder.get("resources") or {}).get(kind))


def _read(amounts: Mapping[str, Any] | None) -> Amounts:
    found: Amounts = {}
    for name, text in (amounts or {}).items():
        try:
            found[name] = quantity.parse(text)
        except QuantityError:
            continue
    return found


def _is_zero(amount: str) -> bool:
    return amount == "0" or quantity.parse(amount).is_zero


def quality_of_service(spec: Mapping[str, Any]) -> str:
    """Return the quality-of-service class of a pod: Guaranteed, Burstable or BestEffort.

    The class depends on the requests and limits of all containers, or on those of the whole pod if it has any.
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

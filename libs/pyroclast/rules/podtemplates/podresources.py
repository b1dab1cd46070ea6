"""Resources of a whole pod: they must cover what its containers ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.resources.quantity import Quantity
from pyroclast.rules.amounts import amount
from pyroclast.rules.errors import FieldError, forbidden, invalid, invalid_for, unsupported
from pyroclast.rules.podtemplates.requirements import HUGE_PAGES, check_requirements, resource_problems
from pyroclast.rules.values import mapping, mappings

__all__ = ["check_pod_resources"]

_SUPPORTED = ("cpu", "memory")


def check_pod_resources(spec: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """`resources` of the pod at `path`, by itself and against its containers."""
    where, resources = f"{path}.resources", mapping(spec.get("resources"))
    if resources.get("claims"):
        errors.append(forbidden(f"{where}.claims", "claims may not be set for Resources at pod-level"))
    supported = {kind: _check_names(mapping(resources.get(kind)), f"{where}.{kind}", errors) for kind in ("limits", "requests")}
    check_requirements(supported, where, errors, frozenset())
    requests, limits = mapping(resources.get("requests")), mapping(resources.get("limits"))
    for name, value in requests.items():
        own, needed = amount(value), _aggregate(spec, name)
        if own is not None and needed is not None and own < needed:
            detail = f"must be greater than or equal to aggregate container requests of {needed}"
            errors.append(invalid(f"{where}.requests[{name}]", str(own), detail))
    for name, value in limits.items():
        _check_container_limits(spec, name, amount(value), path, errors)


def _check_names(amounts: Mapping[str, Any], path: str, errors: list[FieldError]) -> dict[str, Any]:
    """The entries that pods as a whole can have."""
    for name in amounts:
        if problems := resource_problems(name):
            errors += invalid_for(f"{path}[{name}]", name, problems)
        elif not _is_supported(name):
            errors.append(unsupported(f"{path}[{name}]", name, ("cpu", HUGE_PAGES, "memory")))
    return {name: value for name, value in amounts.items() if _is_supported(name)}


def _is_supported(name: str) -> bool:
    return name in _SUPPORTED or name.startswith(HUGE_PAGES)


def _aggregate(spec: Mapping[str, Any], name: str) -> Quantity | None:
    """What the containers ask for together: the regular ones at once, the init ones one after the other."""
    total = amount(0)
    for _, container in mappings(spec.get("containers")):
        asked = _asked(container, "requests", name)
        total = total + asked if total is not None and asked is not None else total
    sidecars = amount(0)
    peak = total
    for _, container in mappings(spec.get("initContainers")):
        asked = _asked(container, "requests", name)
        if asked is None or sidecars is None or total is None or peak is None:
            continue
        if container.get("restartPolicy") == "Always":
            sidecars, total = sidecars + asked, total + asked
            peak = max(peak, total, sidecars)
        else:
            peak = max(peak, total, sidecars + asked)
    return peak


def _check_container_limits(
    spec: Mapping[str, Any], name: str, limit: Quantity | None, path: str, errors: list[FieldError]
) -> None:
    for part in ("containers", "initContainers"):
        for index, container in mappings(spec.get(part)):
            own = _asked(container, "limits", name)
            if own is not None and limit is not None and own > limit:
                where = f"{path}.resources.{part}[{index}][{name}].limits"  # the path that the API server gives
                errors.append(invalid(where, str(own), f"must be less than or equal to pod limits of {limit}"))


def _asked(container: Mapping[str, Any], kind: str, name: str) -> Quantity | None:
    return amount(mapping(mapping(container.get("resources")).get(kind)).get(name))

"""Resources of a whole pod: they must cover what its containers ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyroclast.resources.quantity import Quantity
from pyroclast.rules.amounts import amount
from pyroclast.rules.errors import FieldError, forbidden, invalid, invalid_for, unsupported
from pyroclast.rules.podspecs.options import Options
from pyroclast.rules.podspecs.requirements import HUGE_PAGES, check_requirements, resource_problems
from pyroclast.rules.values import Json, mapping, mappings

__all__ = ["check_pod_resources", "total_of"]

_SUPPORTED: Final = ("cpu", "memory")


def check_pod_resources(spec: Mapping[str, Any], path: str, errors: list[FieldError], options: Options) -> None:
    """`resources` of the pod at `path`, by itself and against its containers."""
    where, resources = f"{path}.resources", mapping(spec.get("resources"))
    if options.current and mapping(spec.get("os")).get("name") == "windows":
        errors.append(forbidden(where, "may not be set for a windows pod"))
        return
    if resources.get("claims"):
        errors.append(forbidden(f"{where}.claims", "claims may not be set for Resources at pod-level"))
    supported = {kind: _check_names(mapping(resources.get(kind)), f"{where}.{kind}", errors) for kind in ("limits", "requests")}
    check_requirements(resources if options.current else supported, where, errors, frozenset(), checks_names=not options.current)
    for kind, names in (("requests", None), ("limits", HUGE_PAGES if options.current else "/")):
        given, needed = mapping(resources.get(kind)), total_of(spec, kind)
        for name, value in given.items():
            own, sum_of_all = amount(value), needed.get(name)
            if own is not None and sum_of_all is not None and own < sum_of_all and (names is None or name.startswith(names)):
                detail = f"must be greater than or equal to aggregate container {kind} of {sum_of_all}"
                errors.append(invalid(f"{where}.{kind}[{name}]", str(own), detail))
    parts = ("containers",) if options.current else ("containers", "initContainers")
    for name, value in mapping(resources.get("limits")).items():
        for part in parts:
            errors += _beyond(spec.get(part), name, amount(value), f"{path}.resources.{part}")


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


def _beyond(containers: Json, name: str, limit: Quantity | None, path: str) -> Iterator[FieldError]:
    """Containers whose limit is beyond that of the pod; the paths are those that the API server gives."""
    for index, container in mappings(containers):
        own = amount(mapping(mapping(container.get("resources")).get("limits")).get(name))
        if own is not None and limit is not None and own > limit:
            yield invalid(f"{path}[{index}][{name}].limits", str(own), f"must be less than or equal to pod limits of {limit}")


def total_of(spec: Mapping[str, Any], kind: str) -> dict[str, Quantity]:
    """What the containers of a pod need together: the init containers one after the other, sidecars all along."""
    total: dict[str, Quantity] = {}
    sidecars: dict[str, Quantity] = {}
    largest: dict[str, Quantity] = {}
    for _, container in mappings(spec.get("containers")):
        _add(total, container, kind)
    for _, container in mappings(spec.get("initContainers")):
        if container.get("restartPolicy") == "Always":
            _add(total, container, kind)
            _add(sidecars, container, kind)
            now = sidecars
        else:
            now = dict(sidecars)
            _add(now, container, kind)
        for name, needed in now.items():
            largest[name] = max(largest.get(name, needed), needed)
    return {name: max(total.get(name, needed), needed) for name, needed in {**total, **largest}.items()}


def _add(total: dict[str, Quantity], container: Mapping[str, Any], kind: str) -> None:
    for name, value in mapping(mapping(container.get("resources")).get(kind)).items():
        if (asked := amount(value)) is not None:
            total[name] = total[name] + asked if name in total else asked

"""Rules for the resources of a whole pod: they must cover the requests of its containers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from pyroclast.resources.quantity import Quantity
from pyroclast.rules.errors import FieldError, forbidden, invalid, invalid_for, unsupported
from pyroclast.rules.podspecs.requirements import HUGE_PAGES, check_requirements, resource_problems, rounded
from pyroclast.rules.values import Json, mapping, mappings

_SUPPORTED: Final = ("cpu", "memory")


def check_pod_resources(spec: Mapping[str, Any], path: str, errors: list[FieldError], claims: AbstractSet[str]) -> None:
    """Check `resources` of the pod at `path`, also against its containers. `claims`: the names of the pod's resource claims."""
    where, resources = f"{path}.resources", mapping(spec.get("resources"))
    if mapping(spec.get("os")).get("name") == "windows":
        errors.append(forbidden(where, "may not be set for a windows pod"))
        return
    if resources.get("claims"):
        errors.append(forbidden(f"{where}.claims", "claims may not be set for Resources at pod-level"))
    check_requirements(resources, where, errors, claims, check_name=_check_name)
    for kind, names in (("requests", None), ("limits", HUGE_PAGES)):
        given, needed = mapping(resources.get(kind)), total_of(spec, kind)
        for name, value in given.items():
            own, sum_of_all = rounded(value), needed.get(name)
            if own is not None and sum_of_all is not None and own < sum_of_all and (names is None or name.startswith(names)):
                detail = f"must be greater than or equal to aggregate container {kind} of {sum_of_all}"
                errors.append(invalid(f"{where}.{kind}[{name}]", str(own), detail))
    for name, value in mapping(resources.get("limits")).items():
        errors += _beyond(spec.get("containers"), name, rounded(value), f"{path}.resources.containers")


def _check_name(name: str, where: str) -> Sequence[FieldError]:
    """Return an error when pods as a whole cannot have a resource of that name."""
    if problems := resource_problems(name):
        return invalid_for(where, name, problems)
    if name in _SUPPORTED or name.startswith(HUGE_PAGES):
        return ()
    return [unsupported(where, name, ("cpu", HUGE_PAGES, "memory"))]


def _beyond(containers: Json, name: str, limit: Quantity | None, path: str) -> Iterator[FieldError]:
    """Yield an error for each container whose limit exceeds the pod's limit, with the paths of the API server's messages."""
    for index, container in mappings(containers):
        own = rounded(mapping(mapping(container.get("resources")).get("limits")).get(name))
        if own is not None and limit is not None and own > limit:
            yield invalid(f"{path}[{index}][{name}].limits", str(own), f"must be less than or equal to pod limits of {limit}")


def total_of(spec: Mapping[str, Any], kind: str) -> dict[str, Quantity]:
    """Return the resources that the containers of a pod need together. Init containers run one after the other; sidecars run all
    the time.
    """
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
        if (asked := rounded(value)) is not None:
            total[name] = total[name] + asked if name in total else asked

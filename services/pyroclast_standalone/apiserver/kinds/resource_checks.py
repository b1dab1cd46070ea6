"""Requests and limits of containers and of whole pods."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import (
    ErrorType,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)

from .checks import named

__all__ = [
    "STANDARD_RESOURCES",
    "check_amount",
    "check_container_name",
    "check_resource_name",
    "check_resources",
    "check_spec_resources",
    "is_extended",
    "is_native",
    "overcommits",
    "total_of",
]

_CONTAINER_RESOURCES: Final = {"cpu", "memory", "ephemeral-storage"}
_SCHEDULED: Final = {"cpu", "memory"}
_POD_RESOURCES: Final = ("cpu", "hugepages-", "memory")
_HUGE: Final = ("hugepages-", "requests.hugepages-")
_WHOLE_RESOURCES: Final = {
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
}
STANDARD_RESOURCES: Final = {
    *_CONTAINER_RESOURCES,
    *_WHOLE_RESOURCES,
    "storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
}


def is_native(name: str) -> bool:
    """Whether Kubernetes itself has the resource: it has no domain, or one of Kubernetes."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether it is a resource of somebody's own that quotas can tell apart."""
    return not is_native(name) and not name.startswith("requests.") and not names.label_key(f"requests.{name}")


def overcommits(name: str) -> bool:
    """Whether limits may be above requests."""
    return is_native(name) and not name.startswith("hugepages-")


def check_resource_name(name: str, path: str) -> list[FieldError]:
    """What is wrong with `name` as a resource of anything."""
    return named(name, _resource_name, path)


def check_container_name(name: str, path: str) -> list[FieldError]:
    """What is wrong with `name` as a resource of containers."""
    return named(name, _container_resource, path)


def _resource_name(name: str) -> list[str]:
    if wrong := names.label_key(name):
        return wrong
    is_known = "/" in name or name in STANDARD_RESOURCES or name.startswith(_HUGE)
    return [] if is_known else ["must be a standard resource type or fully qualified"]


@lru_cache(maxsize=1024)
def _container_resource(name: str) -> list[str]:
    wrong = _resource_name(name)
    if "/" not in name:
        if name not in _CONTAINER_RESOURCES and not name.startswith("hugepages-"):
            return [*wrong, "must be a standard resource for containers"]
    elif not is_native(name) and not is_extended(name):
        return [*wrong, "doesn't follow extended resource name standard"]
    return wrong


def _check_pod_name(name: str, path: str) -> list[FieldError]:
    if errors := check_resource_name(name, path):
        return errors
    supported = name in _SCHEDULED or name.startswith("hugepages-")
    return [] if supported else [unsupported(path, name, _POD_RESOURCES)]


def check_amount(name: str, amount: str, path: str) -> list[FieldError]:
    """What is wrong with `amount` of the resource `name`."""
    value = quantity.parse(amount)
    if value.nanos < 0:
        return [invalid(path, amount, "must be greater than or equal to 0")]
    if (name in _WHOLE_RESOURCES or not is_native(name)) and value.millis % 1000:
        return [invalid(path, amount, "must be an integer")]
    return []


def _check_pages(name: str, amount: str, path: str) -> list[FieldError]:
    """Huge pages come whole."""
    if not name.startswith("hugepages-"):
        return []
    try:
        size = quantity.parse(name.removeprefix("hugepages-")).millis
    except ValueError:
        size = 0
    if size > 0 and size % 1000 == 0 and quantity.parse(amount).millis % size == 0:
        return []
    return [invalid(path, amount, f"{amount} is not positive integer multiple of {name}")]


def _check_pair(name: str, amount: str, limit: str | None, path: str) -> list[FieldError]:
    if limit is None:
        return [] if overcommits(name) else [required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    requested, most = quantity.parse(amount).nanos, quantity.parse(limit).nanos
    if requested != most and not overcommits(name):
        return [invalid(f"{path}.requests", amount, f"must be equal to {name} limit of {limit}")]
    if requested > most:
        return [invalid(f"{path}.requests", amount, f"must be less than or equal to {name} limit of {limit}")]
    return []


def _check_claims(claims: Sequence[Mapping[str, Any]], known: Collection[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    detail = "must be one of the names in pod.spec.resourceClaims"
    detail += f": {', '.join(sorted(known))}" if known else " which is empty"
    for index, claim in enumerate(claims):
        own = f"{path}[{index}]"
        name, request = claim.get("name", ""), claim.get("request", "")
        if not name:
            errors.append(required(own))
            continue
        key = f"{name}/{request}" if request else name
        if name in seen:
            errors.append(duplicate(own, name))
        else:
            errors += [invalid(f"{own}.request", request, text) for text in names.dns_label(request)] if request else []
            if key in seen:
                errors.append(duplicate(own, key))
            elif not request and any(each.partition("/")[0] == name for each in seen):
                errors.append(duplicate(own, name))
            seen.add(key)
        if name not in known:
            errors.append(FieldError(own, ErrorType.NOT_FOUND, detail, name))
    return errors


def _is_plain(name: str, amount: str) -> bool:
    """Whether this is what everybody may ask for, with a limit or without."""
    return name in _SCHEDULED and quantity.parse(amount).nanos >= 0


def _check(
    resources: Mapping[str, Any], check_name: Callable[[str, str], list[FieldError]], claims: Collection[str], path: str
) -> list[FieldError]:
    errors: list[FieldError] = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, amount in limits.items():
        if not _is_plain(name, amount):
            own = f"{path}.limits[{name}]"
            errors += [*check_name(name, own), *check_amount(name, amount, own), *_check_pages(name, amount, own)]
    for name, amount in requests.items():
        limit, is_plain = limits.get(name), _is_plain(name, amount)
        if is_plain and (limit is None or limit == amount):
            continue
        own = f"{path}.requests[{name}]"
        if not is_plain:
            errors += [*check_name(name, own), *check_amount(name, amount, own)]
        errors += _check_pair(name, amount, limit, path)
        errors += _check_pages(name, amount, own)
    given = {*limits, *requests}
    if given.isdisjoint(_SCHEDULED) and any(name.startswith("hugepages-") for name in given):
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    if listed := resources.get("claims"):
        errors += _check_claims(listed, claims, f"{path}.claims")
    return errors


def check_resources(resources: Mapping[str, Any], path: str, claims: Collection[str] = ()) -> list[FieldError]:
    """What is wrong with the resources of a container; `claims` are those that its pod has."""
    return _check(resources, check_container_name, claims, path)


def check_spec_resources(spec: Mapping[str, Any], path: str, claims: Collection[str]) -> list[FieldError]:
    """What is wrong with the resources that a pod has as a whole."""
    resources = spec.get("resources")
    if resources is None:
        return []
    own = f"{path}.resources"
    if (spec.get("os") or {}).get("name") == "windows":
        return [forbidden(own, "may not be set for a windows pod")]
    errors: list[FieldError] = []
    if resources.get("claims"):
        errors.append(forbidden(f"{own}.claims", "claims may not be set for Resources at pod-level"))
    errors += _check(resources, _check_pod_name, claims, own)
    return [*errors, *_check_sums(spec, resources, own)]


def _check_sums(spec: Mapping[str, Any], resources: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, needed in sorted(total_of(spec, "requests").items()):
        if name in requests and needed > quantity.parse(requests[name]):
            text = f"must be greater than or equal to aggregate container requests of {needed}"
            errors.append(invalid(f"{path}.requests[{name}]", requests[name], text))
    for name, needed in sorted(total_of(spec, "limits").items()):
        if name.startswith("hugepages-") and name in limits and needed > quantity.parse(limits[name]):
            text = f"must be greater than or equal to aggregate container limits of {needed}"
            errors.append(invalid(f"{path}.limits[{name}]", limits[name], text))
    for index, container in enumerate(spec.get("containers") or ()):
        for name, limit in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and quantity.parse(limit) > quantity.parse(limits[name]):
                text = f"must be less than or equal to pod limits of {limits[name]}"
                errors.append(invalid(f"{path}.containers[{index}][{name}].limits", limit, text))
    return errors


def total_of(spec: Mapping[str, Any], kind: str) -> dict[str, quantity.Quantity]:
    """What the containers of a pod need together: the init containers one after the other, sidecars all along."""
    total: dict[str, quantity.Quantity] = {}
    sidecars: dict[str, quantity.Quantity] = {}
    largest: dict[str, quantity.Quantity] = {}
    for container in spec.get("containers") or ():
        _add(total, container, kind)
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            _add(total, container, kind)
            _add(sidecars, container, kind)
            now = sidecars
        else:
            now = dict(sidecars)
            _add(now, container, kind)
        for name, amount in now.items():
            largest[name] = max(largest.get(name, amount), amount)
    return {name: max(total.get(name, amount), amount) for name, amount in {**total, **largest}.items()}


def _add(total: dict[str, quantity.Quantity], container: Mapping[str, Any], kind: str) -> None:
    for name, text in ((container.get("resources") or {}).get(kind) or {}).items():
        amount = quantity.parse(text)
        total[name] = total[name] + amount if name in total else amount

"""Rules for the requests and limits of a container, and of a whole pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Final

from pyroclast.resources.pods import whole_pod
from pyroclast.resources.quantity import Quantity, from_millis
from pyroclast.rules.errors import FieldError, duplicate, forbidden, invalid, invalid_for, not_found, required, unsupported
from pyroclast.rules.names import dns_label, qualified_name
from pyroclast.rules.values import Json, amount, mapping, mappings, text

HUGE_PAGES = "hugepages-"
NOT_NEGATIVE = "must be greater than or equal to 0"

_NANOS_PER_MILLI = 10**6

_COMPUTE = frozenset({"cpu", "memory"})
_CONTAINER = _COMPUTE | {"ephemeral-storage"}
COUNTED = (
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
)
STANDARD = frozenset(
    {*_CONTAINER, *COUNTED, "storage", "requests.storage"}
    | {f"{kind}.{name}" for kind in ("requests", "limits") for name in _CONTAINER}
)


def _check_container_name(name: str, where: str) -> Sequence[FieldError]:
    return invalid_for(where, name, container_resource_problems(name)) if name not in _CONTAINER else ()


def check_requirements(
    resources: Json,
    path: str,
    errors: list[FieldError],
    claims: AbstractSet[str],
    *,
    check_name: Callable[[str, str], Sequence[FieldError]] = _check_container_name,
) -> None:
    """Check `resources` of a container or pod at `path`. `claims`: those of the pod. `check_name` checks names of resources."""
    given = mapping(resources)
    limits, requests = mapping(given.get("limits")), mapping(given.get("requests"))
    bounds = {name: rounded(value) for name, value in limits.items()}
    for name, limit in bounds.items():
        if name not in _COMPUTE:
            errors += check_name(name, f"{path}.limits[{name}]")
        errors += invalid_for(f"{path}.limits[{name}]", str(limit), amount_problems(name, limit))
    for name, value in requests.items():
        asked = rounded(value)
        if name not in _COMPUTE:
            errors += check_name(name, f"{path}.requests[{name}]")
        errors += invalid_for(f"{path}.requests[{name}]", str(asked), _value_problems(name, asked))
        _check_within_limit(name, asked, bounds, path, errors)
        errors += invalid_for(f"{path}.requests[{name}]", str(asked), _page_problems(name, asked))
    if _COMPUTE.isdisjoint(limits) and _COMPUTE.isdisjoint(requests) and any(map(_is_huge_pages, (*limits, *requests))):
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    if given.get("claims"):
        check_claims(given["claims"], f"{path}.claims", errors, claims)


def check_claims(used: Json, path: str, errors: list[FieldError], claims: AbstractSet[str]) -> None:
    """Check that the claims of a container are claims of its pod."""
    seen: set[str] = set()
    known = f": {', '.join(sorted(claims))}" if claims else " which is empty"
    for index, claim in mappings(used):
        where, name, request = f"{path}[{index}]", text(claim.get("name")), text(claim.get("request"))
        if not name:
            errors.append(required(where))
            continue
        key = f"{name}/{request}" if request else name
        if name in seen:
            errors.append(duplicate(where, name))
        else:
            errors += invalid_for(f"{where}.request", request, dns_label(request)) if request else []
            if key in seen:
                errors.append(duplicate(where, key))
            elif not request and any(each.partition("/")[0] == name for each in seen):
                errors.append(duplicate(where, name))
            seen.add(key)
        if name not in claims:
            errors.append(not_found(where, name, f"must be one of the names in pod.spec.resourceClaims{known}"))


def rounded(value: Json) -> Quantity | None:
    """Return the amount in a resource list, in which defaulting rounds amounts up to thousandths."""
    given = amount(value)
    return given if given is None or given.nanos % _NANOS_PER_MILLI == 0 else from_millis(given.millis, given.format)


def amount_problems(name: str, value: Quantity | None) -> Sequence[str]:
    """Return the faults of an amount: it must not be negative, and must be whole for a resource that is counted."""
    return (*_value_problems(name, value), *_page_problems(name, value))


def _value_problems(name: str, value: Quantity | None) -> Sequence[str]:
    if value is None or (name in _CONTAINER and value.nanos >= 0):
        return ()
    problems = [NOT_NEGATIVE] if value.nanos < 0 else []
    if name not in _CONTAINER and value.millis % 1000 and (name in COUNTED or is_extended(name)):
        problems.append("must be an integer")
    return problems


def _page_problems(name: str, value: Quantity | None) -> Sequence[str]:
    if value is None or not _is_huge_pages(name):
        return ()
    page = amount(name.removeprefix(HUGE_PAGES))
    fits = page is not None and page.millis > 0 and not page.millis % 1000 and value.nanos >= 0 and not value.millis % page.millis
    return () if fits else (f"{value} is not positive integer multiple of {name}",)


def _check_within_limit(
    name: str, request: Quantity | None, limits: Mapping[str, Quantity | None], path: str, errors: list[FieldError]
) -> None:
    if name not in limits:
        if not overcommits(name):
            errors.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
        return
    limit = limits[name]
    if request is None or limit is None or request == limit:
        return
    if not overcommits(name):
        errors.append(invalid(f"{path}.requests", str(request), f"must be equal to {name} limit of {limit}"))
    elif limit < request:
        errors.append(invalid(f"{path}.requests", str(request), f"must be less than or equal to {name} limit of {limit}"))


def overcommits(name: str) -> bool:
    """Whether limits of the resource may be above requests."""
    return name in _CONTAINER or (is_native(name) and not _is_huge_pages(name))


def _is_huge_pages(name: str) -> bool:
    return name.startswith(HUGE_PAGES)


@lru_cache(1024)
def container_resource_problems(name: str) -> tuple[str, ...]:
    """Return the faults of a name of a resource that a container requests."""
    problems = resource_problems(name)
    if "/" not in name:
        fits = name in _CONTAINER or name.startswith(HUGE_PAGES)
        return problems if fits else (*problems, "must be a standard resource for containers")
    fits = is_native(name) or is_extended(name)
    return problems if fits else (*problems, "doesn't follow extended resource name standard")


@lru_cache(1024)
def resource_problems(name: str) -> tuple[str, ...]:
    """Return the faults of a resource name, such as `nvidia.com/gpu`."""
    if problems := qualified_name(name):
        return problems
    if "/" in name or name in STANDARD or name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}")):
        return ()
    return ("must be a standard resource type or fully qualified",)


@lru_cache(1024)
def is_native(name: str) -> bool:
    """Whether the resource is defined by Kubernetes."""
    return "/" not in name or "kubernetes.io/" in name


@lru_cache(1024)
def is_extended(name: str) -> bool:
    """Whether the resource is an extended resource (`domain/name`), counted in whole numbers."""
    return not is_native(name) and not name.startswith("requests.") and not qualified_name(f"requests.{name}")


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
    """Return what the containers of a pod need together; init containers run one after the other, sidecars all the time."""

    def amounts(container: Mapping[str, Any]) -> dict[str, Quantity]:
        given = mapping(mapping(container.get("resources")).get(kind))
        return {name: asked for name, value in given.items() if (asked := rounded(value)) is not None}

    starting = ((amounts(each), each.get("restartPolicy") == "Always") for _, each in mappings(spec.get("initContainers")))
    return whole_pod((amounts(each) for _, each in mappings(spec.get("containers"))), starting, of_pod={}, overhead={})

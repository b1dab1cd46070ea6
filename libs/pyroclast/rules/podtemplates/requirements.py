"""Requests and limits of a container."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any

from pyroclast.resources.quantity import Quantity
from pyroclast.rules.amounts import amount
from pyroclast.rules.errors import FieldError, duplicate, forbidden, invalid, not_found, required
from pyroclast.rules.names import qualified_name
from pyroclast.rules.values import Json, mapping, mappings, text

__all__ = [
    "COUNTED",
    "HUGE_PAGES",
    "check_amount",
    "check_claims",
    "check_requirements",
    "container_resource_problems",
    "is_extended",
    "is_native",
    "resource_problems",
]

HUGE_PAGES = "hugepages-"
NOT_NEGATIVE = "must be greater than or equal to 0"

_CONTAINER = frozenset({"cpu", "memory", "ephemeral-storage"})
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
_STANDARD = frozenset(
    {*_CONTAINER, *COUNTED, "storage", "requests.storage"}
    | {f"{kind}.{name}" for kind in ("requests", "limits") for name in _CONTAINER}
)


def check_requirements(resources: Json, path: str, errors: list[FieldError], claims: AbstractSet[str]) -> None:
    """`resources` of a container at `path`; `claims` are the resource claims of the pod."""
    given = mapping(resources)
    limits, requests = mapping(given.get("limits")), mapping(given.get("requests"))
    for name, value in limits.items():
        _check_named(name, value, f"{path}.limits", errors)
    for name, value in requests.items():
        _check_named(name, value, f"{path}.requests", errors)
        _check_within_limit(name, amount(value), limits, path, errors)
    names = limits.keys() | requests.keys()
    if any(name.startswith(HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}:
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    if given.get("claims"):
        check_claims(given["claims"], f"{path}.claims", errors, claims)


def check_claims(used: Json, path: str, errors: list[FieldError], claims: AbstractSet[str]) -> None:
    """Claims that a container uses must be claims of its pod."""
    seen: set[tuple[str, str]] = set()
    for index, claim in mappings(used):
        name, request = text(claim.get("name")), text(claim.get("request"))
        if not name:
            errors.append(required(f"{path}[{index}]"))
        elif (name, request) in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        else:
            seen.add((name, request))
            if name not in claims:
                known = f"must be one of the names in pod.spec.resourceClaims: {', '.join(sorted(claims))}" if claims else ""
                errors.append(not_found(f"{path}[{index}]", name, known))


def check_amount(name: str, value: Quantity | None, path: str, errors: list[FieldError]) -> None:
    """An amount is not negative, and whole where the resource is counted."""
    if value is None:
        return
    if value.millis < 0:
        errors.append(invalid(path, str(value), NOT_NEGATIVE))
    if value.millis % 1000 and (name in COUNTED or is_extended(name)):
        errors.append(invalid(path, str(value), "must be an integer"))
    if name.startswith(HUGE_PAGES):
        page = amount(name.removeprefix(HUGE_PAGES))
        if page is not None and page.millis > 0 and value.millis % page.millis:
            errors.append(invalid(path, str(value), f"{value} is not positive integer multiple of {name}"))


def _check_within_limit(
    name: str, request: Quantity | None, limits: Mapping[str, Any], path: str, errors: list[FieldError]
) -> None:
    overcommits = is_native(name) and not name.startswith(HUGE_PAGES)
    if name not in limits:
        if not overcommits:
            errors.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
        return
    limit = amount(limits[name])
    if request is None or limit is None:
        return
    if request != limit and not overcommits:
        errors.append(invalid(f"{path}.requests", str(request), f"must be equal to {name} limit of {limit}"))
    elif request > limit:
        errors.append(invalid(f"{path}.requests", str(request), f"must be less than or equal to {name} limit of {limit}"))


def _check_named(name: str, value: Json, path: str, errors: list[FieldError]) -> None:
    """One entry of a resource list."""
    if name not in _CONTAINER:
        errors += (invalid(f"{path}[{name}]", name, problem) for problem in container_resource_problems(name))
    check_amount(name, amount(value), f"{path}[{name}]", errors)


@lru_cache(1024)
def container_resource_problems(name: str) -> tuple[str, ...]:
    """What speaks against a container asking for a resource of that name."""
    problems = resource_problems(name)
    if "/" not in name:
        fits = name in _CONTAINER or name.startswith(HUGE_PAGES)
        return problems if fits else (*problems, "must be a standard resource for containers")
    fits = is_native(name) or is_extended(name)
    return problems if fits else (*problems, "doesn't follow extended resource name standard")


@lru_cache(1024)
def resource_problems(name: str) -> tuple[str, ...]:
    """What speaks against a resource of that name."""
    if problems := qualified_name(name):
        return problems
    if "/" in name or name in _STANDARD or name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}")):
        return ()
    return ("must be a standard resource type or fully qualified",)


@lru_cache(1024)
def is_native(name: str) -> bool:
    """Whether the resource is one of Kubernetes itself."""
    return "/" not in name or "kubernetes.io/" in name


@lru_cache(1024)
def is_extended(name: str) -> bool:
    """Whether the resource is somebody's own (`domain/name`), counted in whole numbers."""
    return not is_native(name) and not name.startswith("requests.") and not qualified_name(f"requests.{name}")

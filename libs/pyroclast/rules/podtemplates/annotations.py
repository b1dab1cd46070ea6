"""Annotations of a pod: their keys, their size, and those that the API server itself reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyroclast.rules.errors import FieldError, forbidden, invalid, invalid_for, too_long
from pyroclast.rules.names import qualified_name
from pyroclast.rules.values import items, mapping, mappings, text

__all__ = ["check_annotations"]

TOTAL_LIMIT = 256 * 1024
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
APPARMOR_CONTAINER = "container.apparmor.security.beta.kubernetes.io/"

_INT32 = re.compile(r"0|[+-]?[1-9][0-9]*")


def check_annotations(annotations: Mapping[str, Any], spec: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Everything wrong with the annotations of a pod with that `spec`."""
    total = 0
    for key, value in annotations.items():
        if problems := qualified_name(key.lower()):
            errors += invalid_for(path, key, problems)
        total += len(key.encode(errors="replace")) + len(text(value).encode(errors="replace"))
    if total > TOTAL_LIMIT:
        errors.append(too_long(path, TOTAL_LIMIT))
    _check_deletion_cost(annotations, path, errors)
    _check_profiles(annotations, spec, path, errors)


def _check_deletion_cost(annotations: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    cost = annotations.get(DELETION_COST)
    if isinstance(cost, str) and not (_INT32.fullmatch(cost) and -(2**31) <= int(cost[:12]) < 2**31):
        errors.append(invalid(f"{path}[{DELETION_COST}]", cost, "must be a 32bit integer"))


def _check_profiles(annotations: Mapping[str, Any], spec: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    names = {
        text(container.get("name"))
        for part in ("initContainers", "containers")
        for _, container in mappings(items(spec.get(part)))
    }
    for key, value in annotations.items():
        where, profile = f"{path}[{key}]", text(value)
        if key.startswith(APPARMOR_CONTAINER):
            if key.removeprefix(APPARMOR_CONTAINER) not in names:
                errors.append(invalid(where, key.removeprefix(APPARMOR_CONTAINER), "container not found"))
            if not (profile in ("", "runtime/default", "unconfined") or profile.startswith("localhost/")):
                errors.append(invalid(where, profile, f'invalid AppArmor profile name: "{profile}"'))
        elif (key == SECCOMP_POD or key.startswith(SECCOMP_CONTAINER)) and not _is_seccomp(profile):
            errors.append(invalid(f"{path}.{key}", profile, "must be a valid seccomp profile"))
    pod_profile = mapping(mapping(spec.get("securityContext")).get("seccompProfile")).get("type")
    if SECCOMP_POD in annotations and pod_profile is not None and not _agree(text(annotations[SECCOMP_POD]), text(pod_profile)):
        errors.append(forbidden(f"{path}[{SECCOMP_POD}]", "seccomp type in annotation and field must match"))


def _is_seccomp(profile: str) -> bool:
    if profile in ("runtime/default", "docker/default", "unconfined"):
        return True
    name = profile.removeprefix("localhost/")
    return name != profile and bool(name) and not name.startswith("/") and ".." not in name.split("/")


def _agree(annotation: str, profile_type: str) -> bool:
    kinds = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault", "docker/default": "RuntimeDefault"}
    return kinds.get(annotation, "Localhost") == profile_type

"""Annotations that pods were steered by before there were fields, and which still must fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents.errors import FieldError, forbidden, invalid

from .paths import check_descending
from .security import containers_of_pod

__all__ = ["MIRROR", "check_annotation_changes", "check_annotations", "check_profiles", "profiles_in"]

MIRROR: Final = "kubernetes.io/config.mirror"
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_OF_CONTAINERS: Final = (_APP_ARMOR, _SECCOMP)
_INT: Final = re.compile(r"0|-?[1-9][0-9]*")


def _check_seccomp(profile: str, path: str) -> list[FieldError]:
    if profile in {"runtime/default", "docker/default", "unconfined"}:
        return []
    if profile.startswith("localhost/"):
        return check_descending(profile.removeprefix("localhost/"), path)
    return [invalid(path, profile, "must be a valid seccomp profile")]


def _check_app_armor(key: str, profile: str, spec: Mapping[str, Any], path: str) -> list[FieldError]:
    name = key.removeprefix(_APP_ARMOR)
    errors: list[FieldError] = []
    if all(container.get("name") != name for _, container in containers_of_pod(spec, "")):
        errors.append(invalid(path, name, "container not found"))
    if profile not in {"", "runtime/default", "unconfined"} and not profile.startswith("localhost/"):
        errors.append(invalid(path, profile, f'invalid AppArmor profile name: "{profile}"'))
    return errors


def check_annotations(annotations: Mapping[str, str], spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with the annotations of a pod, or of a template of pods, of this spec."""
    errors: list[FieldError] = []
    if MIRROR in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{path}[{MIRROR}]", annotations[MIRROR], text))
    cost = annotations.get(_DELETION_COST)
    if cost is not None and (not _INT.fullmatch(cost) or not -(2**31) <= int(cost) < 2**31):
        errors.append(invalid(f"{path}[{_DELETION_COST}]", cost, "must be a 32bit integer"))
    profiles = profiles_in(annotations)
    for key in profiles:
        if not key.startswith(_APP_ARMOR):
            errors += _check_seccomp(annotations[key], f"{path}.{key}")
    for key in profiles:
        if key.startswith(_APP_ARMOR):
            errors += _check_app_armor(key, annotations[key], spec, f"{path}[{key}]")
    return errors


def profiles_in(annotations: Mapping[str, str]) -> list[str]:
    """The keys that name profiles."""
    return [key for key in annotations if key.startswith(_OF_CONTAINERS) or key == _SECCOMP_POD]


def check_annotation_changes(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    """What is wrong with how the annotations of a pod change."""
    mine, theirs = (pod["metadata"].get("annotations") or {} for pod in (new, old))
    errors: list[FieldError] = []
    if mine == theirs:
        return errors
    for key in [*theirs, *(key for key in mine if key not in theirs)]:
        if mine.get(key) == theirs.get(key):
            continue
        verb = "remove or update" if key in theirs else "add"
        if key.startswith(_APP_ARMOR):
            errors.append(forbidden(f"metadata.annotations[{key}]", f"may not {verb} AppArmor annotations"))
        if key == MIRROR:
            errors.append(forbidden(f"metadata.annotations[{key}]", f"may not {verb} mirror pod annotation"))
    return errors


_NAMES: Final = {"Unconfined": {"unconfined"}, "RuntimeDefault": {"runtime/default"}}


def _check_profile(annotation: str | None, profile: Mapping[str, Any] | None, path: str, word: str) -> Iterator[FieldError]:
    """An annotation and the field that took its place must tell the same."""
    if annotation is None or profile is None:
        return
    kind, text = profile.get("type", ""), f"{word} type in annotation and field must match"
    names = _NAMES.get(kind, set()) | ({"docker/default"} if word == "seccomp" and kind == "RuntimeDefault" else set())
    if kind == "Localhost":
        if not annotation.startswith("localhost/"):
            yield forbidden(f"{path}.type", text)
        elif annotation.removeprefix("localhost/") != profile.get("localhostProfile"):
            yield forbidden(f"{path}.localhostProfile", f"{word} profile in annotation and field must match")
    elif names and annotation not in names:
        yield forbidden(f"{path}.type", text)


def check_profiles(annotations: Mapping[str, str], spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """Where annotations of a new pod, or of a template, contradict the security contexts of the spec at `path`."""
    if not profiles_in(annotations):
        return []
    whole = spec.get("securityContext") or {}
    own = f"{path}.securityContext.seccompProfile"
    errors = list(_check_profile(annotations.get(_SECCOMP_POD), whole.get("seccompProfile"), own, "seccomp"))
    contexts = [
        (own, container.get("name", ""), container.get("securityContext") or {})
        for own, container in containers_of_pod(spec, path)
    ]
    for own, name, context in contexts:
        inner = f"{own}.securityContext.seccompProfile"
        errors += _check_profile(annotations.get(_SECCOMP + name), context.get("seccompProfile"), inner, "seccomp")
    if (spec.get("os") or {}).get("name") == "windows":
        return errors
    for own, name, context in contexts:
        profile = context.get("appArmorProfile") or whole.get("appArmorProfile")
        inner = f"{own}.securityContext.appArmorProfile"
        errors += _check_profile(annotations.get(_APP_ARMOR + name), profile, inner, "apparmor")
    return errors

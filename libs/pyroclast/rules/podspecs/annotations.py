"""Rules for annotations of a pod, of which the API server reads some, and for paths of files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyroclast.rules.errors import FieldError, forbidden, invalid, invalid_for, not_found, too_long
from pyroclast.rules.names import qualified_name
from pyroclast.rules.podspecs.mounts import check_descending
from pyroclast.rules.values import mapping, mappings, text

TOTAL_LIMIT: Final = 256 * 1024
MIRROR: Final = "kubernetes.io/config.mirror"
APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"

_WIDEST: Final = 4  # the most bytes of a character
_INT32: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_NAMES: Final = {"Unconfined": {"unconfined"}, "RuntimeDefault": {"runtime/default"}}


def containers_of(spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every container of a pod with its path, in the order of their start."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in mappings(spec.get(field)):
            yield f"{path}.{field}[{index}]", container


def check_annotation_names(annotations: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check the keys and the total size of annotations."""
    for key in annotations:
        errors += invalid_for(path, key, qualified_name(key.lower()))
    texts = [each for key, value in annotations.items() for each in (key, text(value))]
    if sum(map(len, texts)) * _WIDEST > TOTAL_LIMIT and sum(len(each.encode(errors="replace")) for each in texts) > TOTAL_LIMIT:
        errors.append(too_long(path, TOTAL_LIMIT))


def check_annotations(annotations: Mapping[str, Any], spec: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check the values of the annotations that the API server reads. `spec`: the spec of the pod or template."""
    if MIRROR in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{path}[{MIRROR}]", annotations[MIRROR], detail))
    cost = annotations.get(DELETION_COST)
    if isinstance(cost, str) and not (_INT32.fullmatch(cost) and -(2**31) <= int(cost[:12]) < 2**31):
        errors.append(invalid(f"{path}[{DELETION_COST}]", cost, "must be a 32bit integer"))
    profiles = profiles_in(annotations)
    for key in profiles:
        if not key.startswith(APP_ARMOR):
            _check_seccomp(text(annotations[key]), f"{path}.{key}", errors)
    for key in profiles:
        if key.startswith(APP_ARMOR):
            _check_app_armor(key.removeprefix(APP_ARMOR), text(annotations[key]), spec, f"{path}[{key}]", errors)


def profiles_in(annotations: Mapping[str, Any]) -> list[str]:
    """Return the keys of annotations that name security profiles."""
    return [key for key in annotations if key.startswith((APP_ARMOR, SECCOMP)) or key == SECCOMP_POD]


def _check_seccomp(profile: str, path: str, errors: list[FieldError]) -> None:
    if profile.startswith("localhost/"):
        check_descending(profile.removeprefix("localhost/"), path, errors)
    elif profile not in ("runtime/default", "docker/default", "unconfined"):
        errors.append(invalid(path, profile, "must be a valid seccomp profile"))


def _check_app_armor(name: str, profile: str, spec: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    if all(container.get("name") != name for _, container in containers_of(spec, "")):
        errors.append(invalid(path, name, "container not found"))
    if profile not in ("", "runtime/default", "unconfined") and not profile.startswith("localhost/"):
        errors.append(invalid(path, profile, f'invalid AppArmor profile name: "{profile}"'))


def check_profiles(annotations: Mapping[str, Any], spec: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check that annotations do not contradict the security contexts of the spec at `path`."""
    if not profiles_in(annotations):
        return
    whole = mapping(spec.get("securityContext"))
    errors += _agree(annotations.get(SECCOMP_POD), whole, f"{path}.securityContext", "seccomp")
    contexts = [
        (f"{where}.securityContext", text(container.get("name")), mapping(container.get("securityContext")))
        for where, container in containers_of(spec, path)
    ]
    for where, name, context in contexts:
        errors += _agree(annotations.get(SECCOMP + name), context, where, "seccomp")
    if mapping(spec.get("os")).get("name") == "windows":
        return
    for where, name, context in contexts:
        holder = context if context.get("appArmorProfile") is not None else whole
        errors += _agree(annotations.get(APP_ARMOR + name), holder, where, "apparmor")


def _agree(annotation: object, context: Mapping[str, Any], path: str, word: str) -> Iterator[FieldError]:
    """Yield an error when an annotation contradicts the field that replaced it."""
    field = "seccompProfile" if word == "seccomp" else "appArmorProfile"
    if not isinstance(annotation, str) or context.get(field) is None:
        return
    profile, where = mapping(context[field]), f"{path}.{field}"
    kind, detail = text(profile.get("type")), f"{word} type in annotation and field must match"
    names = _NAMES.get(kind, set()) | ({"docker/default"} if word == "seccomp" and kind == "RuntimeDefault" else set())
    if kind == "Localhost":
        if not annotation.startswith("localhost/"):
            yield forbidden(f"{where}.type", detail)
        elif annotation.removeprefix("localhost/") != profile.get("localhostProfile"):
            yield forbidden(f"{where}.localhostProfile", f"{word} profile in annotation and field must match")
    elif names and annotation not in names:
        yield forbidden(f"{where}.type", detail)


def check_files(spec: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check that variables from files use an emptyDir volume of the pod."""
    wanted = [
        (f"{where}.env[{at}].valueFrom.fileKeyRef.volumeName", text(mapping(reference).get("volumeName")))
        for where, container in containers_of(spec, path)
        for at, variable in mappings(container.get("env"))
        if (reference := mapping(variable.get("valueFrom")).get("fileKeyRef")) is not None
    ]
    if not wanted:
        return
    volumes = {text(each.get("name")): each for _, each in mappings(spec.get("volumes"))}
    for where, name in wanted:
        if name not in volumes:
            errors.append(not_found(where, name))
        elif volumes[name].get("emptyDir") is None:
            errors.append(invalid(where, name, "referenced volume must be of type emptyDir"))

"""What containers take from their pod: its fields, its resources, and keys of configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast.rules.podtemplates.environment import ENV_FIELDS
from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, invalid, required, unsupported

from .checks import named, required_name
from .paths import check_no_backsteps

__all__ = ["check_env", "check_env_from", "check_pod_field", "check_resource_field"]

_FIELDS: Final = {
    *ENV_FIELDS,
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
}
_RESOURCES: Final = tuple(f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory"))
_HUGE: Final = ("limits.hugepages-", "requests.hugepages-")
_SIZES: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_WORDS: Final = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}
_SUBSCRIPT: Final = re.compile(r"(.*)\['(.*)'\]", re.DOTALL)


def _field_error(version: str, field: str) -> str:
    """Why a pod of `version` has no such field; empty if it has."""
    if version != "v1":
        return f"unsupported pod version: {version}"
    subscripted = _SUBSCRIPT.fullmatch(field)
    if subscripted:
        known = subscripted[1] in {"metadata.annotations", "metadata.labels"}
        return "" if known else f"field label does not support subscript: {field}"
    return "" if field in _FIELDS else f"field label not supported: {field}"


def check_pod_field(reference: Mapping[str, Any], supported: Sequence[str], path: str) -> list[FieldError]:
    """What is wrong with a reference to a field of the pod."""
    version, field = reference.get("apiVersion", ""), reference.get("fieldPath", "")
    if not version:
        return [required(f"{path}.apiVersion")]
    if not field:
        return [required(f"{path}.fieldPath")]
    if version == "v1" and field in supported:
        return []
    if why := _field_error(version, field):
        return [invalid(f"{path}.fieldPath", field, f"error converting fieldPath: {why}")]
    if subscripted := _SUBSCRIPT.fullmatch(field):
        key = subscripted[2].lower() if subscripted[1] == "metadata.annotations" else subscripted[2]
        return named(key, names.label_key, path)
    return [unsupported(f"{path}.fieldPath", field, supported)]


def check_resource_field(reference: Mapping[str, Any], path: str, *, of_volume: bool) -> list[FieldError]:
    """What is wrong with a reference to a container's resource."""
    errors: list[FieldError] = []
    resource = reference.get("resource", "")
    if of_volume and not reference.get("containerName"):
        errors.append(required(f"{path}.containerName"))
    elif not resource:
        errors.append(required(f"{path}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE):
        errors.append(unsupported(f"{path}.resource", resource, _RESOURCES))
    errors += _check_divisor(resource, str(reference.get("divisor") or "0"), f"{path}.divisor")
    return errors


def _check_divisor(resource: str, divisor: str, path: str) -> list[FieldError]:
    if divisor == "0" or quantity.parse(divisor).is_zero:
        return []
    kind = resource.partition(".")[2]
    if resource in {"limits.cpu", "requests.cpu"}:
        text = "only divisor's values 1m and 1 are supported with the cpu resource"
        return [] if divisor in {"1m", "1"} else [invalid(path, resource, text)]
    word = "hugepages" if resource.startswith(_HUGE) else _WORDS.get(kind) if resource in _RESOURCES else None
    if word is None or divisor in _SIZES:
        return []
    return [invalid(path, resource, f"only divisor's values {', '.join(_SIZES)} are supported with the {word} resource")]


def _check_key(reference: Mapping[str, Any], path: str) -> list[FieldError]:
    errors = named(reference.get("name", ""), names.dns_subdomain, f"{path}.name")
    errors += required_name(reference, "key", names.config_map_key, path)
    return errors


def _check_file(reference: Mapping[str, Any], path: str) -> list[FieldError]:
    errors = required_name(reference, "key", names.env_var_name, path)
    errors += required_name(reference, "volumeName", names.dns_label, path)
    file = reference.get("path")
    return [*errors, *(check_no_backsteps(file, f"{path}.path") if file else [required(f"{path}.path")])]


_SOURCES: Final[Sequence[tuple[str, Callable[[Mapping[str, Any], str], list[FieldError]]]]] = (
    ("fieldRef", lambda reference, path: check_pod_field(reference, ENV_FIELDS, path)),
    ("resourceFieldRef", lambda reference, path: check_resource_field(reference, path, of_volume=False)),
    ("configMapKeyRef", _check_key),
    ("secretKeyRef", _check_key),
    ("fileKeyRef", _check_file),
)


def _check_source(variable: Mapping[str, Any], path: str) -> list[FieldError]:
    source = variable["valueFrom"]
    errors: list[FieldError] = []
    count = 0
    for kind, check in _SOURCES:
        if kind in source:
            errors += check(source[kind], f"{path}.{kind}")
            count += 1
    if count == 0:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        errors.append(invalid(path, "", text))
    elif variable.get("value"):
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif count > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def check_env(variables: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    """What is wrong with the variables of a container."""
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        if names.env_var_name(variable.get("name", "")):
            errors += required_name(variable, "name", names.env_var_name, f"{path}[{index}]")
        if "valueFrom" in variable:
            errors += _check_source(variable, f"{path}[{index}].valueFrom")
    return errors


def check_env_from(sources: Collection[Mapping[str, Any]], path: str) -> list[FieldError]:
    """What is wrong with the objects whose keys become variables."""
    errors: list[FieldError] = []
    for index, source in enumerate(sources):
        own = f"{path}[{index}]"
        if prefix := source.get("prefix"):
            errors += named(prefix, names.env_var_name, f"{own}.prefix")
        given = [kind for kind in ("configMapRef", "secretRef") if source.get(kind) is not None]
        for kind in given:
            name = source[kind].get("name", "")
            errors += named(name, names.dns_subdomain, f"{own}.{kind}.name") if name else [required(f"{own}.{kind}.name")]
        if not given:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors

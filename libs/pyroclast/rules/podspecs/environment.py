"""Rules for environment variables of a container and the sources of their values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from pyroclast.rules.errors import FieldError, invalid, invalid_for, required, unsupported
from pyroclast.rules.names import NameRule, config_map_key, dns_label, dns_subdomain, env_var_name, qualified_name
from pyroclast.rules.podspecs.options import Options, check_name
from pyroclast.rules.values import amount, mapping, mappings, text

ENV_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
RESOURCES = tuple(f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory"))
HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
CPU_DIVISORS = ("1m", "1")
BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")

_KNOWN_FIELDS = frozenset(
    {*ENV_FIELDS, "metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase"}
)
_SUBSCRIPT = re.compile(r"(.*)\['(.*)'\]", re.DOTALL)
_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_BAD_NAME = (
    "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start with "
    "a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation is '[-._a-zA-Z][-._a-zA-Z0-9]*')"
)
_ONE_OF = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
_ONE_OF_CURRENT = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_ONE_ONLY = "may not have more than one field specified at a time"


def check_environment(container: Mapping[str, Any], where: str, errors: list[FieldError], options: Options) -> None:
    """Check `env` and `envFrom` of the container at `where`."""
    problems_of = env_var_name if options.current else _name_problems
    for index, variable in mappings(container.get("env")):
        name, source = text(variable.get("name")), variable.get("valueFrom")
        if not name:
            errors.append(required(f"{where}.env[{index}].name"))
        elif problems := problems_of(name):
            errors += invalid_for(f"{where}.env[{index}].name", name, problems)
        if source is not None:
            _check_source(
                mapping(source), f"{where}.env[{index}].valueFrom", errors, options, has_value=bool(variable.get("value"))
            )
    for index, source in mappings(container.get("envFrom")):
        _check_bulk_source(source, f"{where}.envFrom", index, errors, problems_of)


@lru_cache(4096)
def _name_problems(name: str) -> tuple[str, ...]:
    bad = () if _NAME.fullmatch(name) else (_BAD_NAME,)
    if name in (".", ".."):
        return (*bad, f"must not be '{name}'")
    return (*bad, "must not start with '..'") if name.startswith("..") else bad


def _check_source(source: Mapping[str, Any], path: str, errors: list[FieldError], options: Options, *, has_value: bool) -> None:
    count = 0
    for key, check in _SOURCES:
        if (given := source.get(key)) is not None:
            count += 1
            check(mapping(given), f"{path}.{key}", errors)
    if (file := source.get("fileKeyRef")) is not None:
        count += 1
        if options.current:
            _check_file_ref(mapping(file), f"{path}.fileKeyRef", errors)
    if count == 0:
        errors.append(invalid(path, "", _ONE_OF_CURRENT if options.current else _ONE_OF))
    elif has_value:
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif count > 1:
        errors.append(invalid(path, "", _ONE_ONLY))


def _check_bulk_source(source: Mapping[str, Any], path: str, index: int, errors: list[FieldError], problems_of: NameRule) -> None:
    if prefix := text(source.get("prefix")):
        errors += invalid_for(f"{path}[{index}].prefix", prefix, problems_of(prefix))
    given = [key for key in ("configMapRef", "secretRef") if source.get(key) is not None]
    for key in given:
        check_name(mapping(source[key]), "name", dns_subdomain, f"{path}[{index}].{key}", errors)
    if not given:
        errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
    elif len(given) > 1:
        errors.append(invalid(path, "", _ONE_ONLY))


def check_field_ref(
    reference: Mapping[str, Any], path: str, errors: list[FieldError], fields: tuple[str, ...] = ENV_FIELDS
) -> None:
    """Check a reference to a field of the pod. `fields`: the fields that the reference may name."""
    version, field = text(reference.get("apiVersion")) or "v1", text(reference.get("fieldPath"))
    if not field:
        errors.append(required(f"{path}.fieldPath"))
        return
    if version != "v1":
        errors.append(invalid(f"{path}.fieldPath", field, f"error converting fieldPath: unsupported pod version: {version}"))
        return
    if field in fields:
        return
    subscripted = _SUBSCRIPT.fullmatch(field)
    if subscripted and subscripted[1] in ("metadata.annotations", "metadata.labels"):
        key = subscripted[2].lower() if subscripted[1] == "metadata.annotations" else subscripted[2]
        errors += invalid_for(path, subscripted[2], qualified_name(key))
    elif subscripted:
        detail = f"error converting fieldPath: field label does not support subscript: {field}"
        errors.append(invalid(f"{path}.fieldPath", field, detail))
    elif field not in _KNOWN_FIELDS:
        errors.append(invalid(f"{path}.fieldPath", field, f"error converting fieldPath: field label not supported: {field}"))
    else:
        errors.append(unsupported(f"{path}.fieldPath", field, fields))


def check_resource_field_ref(reference: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check a reference to a request or limit of a container."""
    resource = text(reference.get("resource"))
    if not resource:
        errors.append(required(f"{path}.resource"))
    elif resource not in RESOURCES and not resource.startswith(HUGE_PAGES):
        errors.append(unsupported(f"{path}.resource", resource, RESOURCES))
    divisor = amount(reference.get("divisor"))
    if divisor is None or divisor.millis == 0:
        return
    allowed = CPU_DIVISORS if resource.endswith(".cpu") else BYTE_DIVISORS
    if (resource in RESOURCES or resource.startswith(HUGE_PAGES)) and str(divisor) not in allowed:
        shown = " and ".join(allowed) if len(allowed) == 2 else ", ".join(allowed)
        kind = _divided(resource)
        errors.append(
            invalid(f"{path}.divisor", resource, f"only divisor's values {shown} are supported with the {kind} resource")
        )


def _divided(resource: str) -> str:
    """Return the name of the resource in messages about its divisor."""
    name = resource.partition(".")[2]
    if name.startswith("hugepages-"):
        return "hugepages"
    return "local ephemeral storage" if name == "ephemeral-storage" else name


def _check_key_ref(reference: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    name = text(reference.get("name"))
    errors += invalid_for(f"{path}.name", name, dns_subdomain(name))
    check_name(reference, "key", config_map_key, path, errors)


def _check_file_ref(reference: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    check_name(reference, "key", env_var_name, path, errors)
    check_name(reference, "volumeName", dns_label, path, errors)
    if not (file := text(reference.get("path"))):
        errors.append(required(f"{path}.path"))
    elif ".." in file.split("/"):
        errors.append(invalid(f"{path}.path", file, "must not contain '..'"))


_SOURCES = (
    ("fieldRef", check_field_ref),
    ("resourceFieldRef", check_resource_field_ref),
    ("configMapKeyRef", _check_key_ref),
    ("secretKeyRef", _check_key_ref),
)

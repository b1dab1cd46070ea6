"""The environment of a container, with all references resolved, and the downward API, whose values volumes show too. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyroclast.api.types import Key
from pyroclast.resources import quantity
from pyroclast_standalone.nodes import records
from pyroclast_standalone.nodes.sources import Reference

_BRACKETED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


def field_value(pod: records.Pod, path: str, *, pod_ip: str, host_ip: str) -> str | None:
    """Return the value of `fieldRef.fieldPath`. None for a path that does not exist."""
    metadata = pod.metadata
    bracketed = _BRACKETED.fullmatch(path)
    if bracketed:
        kept: Mapping[str, str] = getattr(metadata, bracketed[1])
        return kept.get(bracketed[2], "")
    match path:
        case "metadata.labels" | "metadata.annotations":
            kept = getattr(metadata, path.removeprefix("metadata."))
            return "".join(f'{key}="{_escaped(value)}"\n' for key, value in sorted(kept.items())).rstrip("\n")
        case "metadata.name":
            return metadata.name
        case "metadata.namespace":
            return metadata.namespace
        case "metadata.uid":
            return metadata.uid
        case "spec.nodeName":
            return pod.spec.node_name
        case "spec.serviceAccountName":
            return pod.spec.service_account_name
        case "status.hostIP" | "status.hostIPs":
            return host_ip
        case "status.podIP" | "status.podIPs":
            return pod_ip
        case _:
            return None


def resource_value(container: records.Container, reference: Mapping[str, Any], allocatable: Mapping[str, Any]) -> str | None:
    """Return the value of a `resourceFieldRef`, rounded up to its divisor.

    For an unset limit it is the node's allocatable amount.
    """
    side, _, name = str(reference.get("resource", "")).partition(".")
    kept = container.resources.limits if side == "limits" else container.resources.requests
    found = kept.get(name, allocatable.get(name) if side == "limits" else "0")
    if found is None:
        return None
    divisor = quantity.parse(str(reference.get("divisor") or "1"))
    divisor = quantity.parse("1") if divisor.millis == 0 else divisor
    return str(-(-quantity.parse(str(found)).millis // divisor.millis))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)")
_VARIABLE = re.compile(r"[-._A-Za-z][-._A-Za-z0-9]*")

Read = Mapping[tuple[str, Key], Mapping[str, bytes] | None]


class ConfigurationError(Exception):
    """A container cannot start with its configuration. The message is that of the kubelet."""


@dataclass(frozen=True, slots=True)
class Place:
    """The addresses and the node of a pod, as far as environment variables can show them."""

    pod_ip: str
    host_ip: str
    allocatable: Mapping[str, Any]


def references(pod: records.Pod, container: records.Container) -> list[Reference]:
    """Return the ConfigMaps and Secrets from which `container` has variables."""
    found: list[Reference] = []
    for source in container.env_from:
        found += _of(pod, source, {"configMapRef": "ConfigMap", "secretRef": "Secret"})
    for variable in container.env:
        found += _of(pod, variable.value_from or {}, {"configMapKeyRef": "ConfigMap", "secretKeyRef": "Secret"})
    return found


def environment(pod: records.Pod, container: records.Container, place: Place, read: Read) -> dict[str, str]:
    """Return the variables of `container`. `read`: the contents of the objects in `references`, None for a missing one.

    Raises ConfigurationError: a required object or key does not exist.
    """
    variables: dict[str, str] = {}
    for source in container.env_from:
        prefix = str(source.get("prefix") or "")
        for reference in _of(pod, source, {"configMapRef": "ConfigMap", "secretRef": "Secret"}):
            for name, content in (_content(reference, read) or {}).items():
                if _VARIABLE.fullmatch(prefix + name):
                    variables[prefix + name] = content.decode(errors="replace")
    for variable in container.env:
        value = (
            expand(variable.value, variables) if variable.value_from is None else _value(pod, container, variable, place, read)
        )
        if value is not None:
            variables[variable.name] = value
    variables.setdefault("HOSTNAME", pod.spec.hostname or pod.metadata.name)
    variables.setdefault("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    return variables


def argv(container: records.Container, variables: Mapping[str, str]) -> list[str]:
    """Return the command line with references to variables expanded."""
    return [expand(word, variables) for word in (*container.command, *container.args)]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Return `text` with `$(NAME)` replaced if the variable exists, and with `$$` replaced by `$`."""
    if "$" not in text:
        return text
    return _REFERENCE.sub(lambda found: "$" if found[0] == "$$" else variables.get(found[1], found[0]), text)


def _of(pod: records.Pod, source: Mapping[str, Any], kinds: Mapping[str, str]) -> list[Reference]:
    found = []
    for field, kind in kinds.items():
        reference = source.get(field)
        if reference is not None:
            key = Key(pod.metadata.namespace, str(reference.get("name", "")))
            found.append(Reference(kind, key, bool(reference.get("optional"))))
    return found


def _content(reference: Reference, read: Read) -> Mapping[str, bytes] | None:
    content = read.get((reference.kind, reference.key))
    if content is None and not reference.is_optional:
        raise ConfigurationError(f'{reference.kind.lower()} "{reference.key.name}" not found')
    return content


def _value(
    pod: records.Pod, container: records.Container, variable: records.EnvironmentVariable, place: Place, read: Read
) -> str | None:
    source = variable.value_from or {}
    if "fieldRef" in source:
        return field_value(pod, str(source["fieldRef"].get("fieldPath")), pod_ip=place.pod_ip, host_ip=place.host_ip)
    if "resourceFieldRef" in source:
        reference = source["resourceFieldRef"]
        named = reference.get("containerName")
        chosen = next((c for c in (*pod.spec.containers, *pod.spec.init_containers) if c.name == named), container)
        return resource_value(chosen, reference, place.allocatable)
    for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if field in source:
            reference = _of(pod, source, {field: kind})[0]
            content = _content(reference, read)
            key = str(source[field].get("key", ""))
            if content is None or key not in content:
                if reference.is_optional:
                    return None
                raise ConfigurationError(f"couldn't find key {key} in {kind} {reference.key}")
            return content[key].decode(errors="replace")
    return ""

"""The downward API: the values of a pod's fields and of its containers' resources. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyroclast.resources import quantity
from pyroclast_standalone.nodes import records

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

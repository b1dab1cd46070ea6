"""Turns an OpenAPI definition of a built-in kind into the structural schema that a CRD can embed.

Only the generation of the data needs this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

INT_OR_STRING: Final[Mapping[str, Any]] = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
QUANTITY: Final[Mapping[str, Any]] = {
    **INT_OR_STRING,
    "pattern": (
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
        r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
    ),
}

_STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
_EMBEDDED_METADATA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "annotations": _STRINGS,
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "labels": _STRINGS,
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
}
_PINNED: Final[Mapping[str, Mapping[str, Any]]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": QUANTITY,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": INT_OR_STRING,
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": _EMBEDDED_METADATA,
}
_CORE = "io.k8s.api.core.v1."
_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "AzureDiskVolumeSource": {"fsType": "ext4", "readOnly": False},
    "ConfigMapEnvSource": {"name": ""},
    "ConfigMapKeySelector": {"name": ""},
    "ConfigMapProjection": {"name": ""},
    "ConfigMapVolumeSource": {"name": ""},
    "ContainerPort": {"protocol": "TCP"},
    "FileKeySelector": {"optional": False},
    "GRPCAction": {"service": ""},
    "ISCSIVolumeSource": {"iscsiInterface": "default"},
    "LocalObjectReference": {"name": ""},
    "RBDVolumeSource": {"keyring": "/etc/ceph/keyring", "pool": "rbd", "user": "admin"},
    "ScaleIOVolumeSource": {"fsType": "xfs", "storageMode": "ThinProvisioned"},
    "SecretEnvSource": {"name": ""},
    "SecretKeySelector": {"name": ""},
    "SecretProjection": {"name": ""},
}
_KEPT = ("type", "format", "enum", "required", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type")


def structural(name: str, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition `name` with all references resolved, without descriptions, with the defaults of the Go types."""
    if name in _PINNED:
        return dict(_PINNED[name])
    return _inline(definitions[name], name, definitions)


def _inline(schema: Mapping[str, Any], owner: str, definitions: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return structural(schema["$ref"].rpartition("/")[2], definitions)
    result: dict[str, Any] = {key: schema[key] for key in _KEPT if key in schema}
    if "properties" in schema:
        result["properties"] = {field: _inline(value, owner, definitions) for field, value in schema["properties"].items()}
        for field, value in _DEFAULTS.get(owner.removeprefix(_CORE), {}).items():
            result["properties"][field]["default"] = value
    for key in ("items", "additionalProperties"):
        if key in schema:
            result[key] = _inline(schema[key], owner, definitions)
    return result

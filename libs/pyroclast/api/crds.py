"""CustomResourceDefinitions of Pyroclast's kinds, generated from the models. A schema only depends on the model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from pydantic import BaseModel

from pyroclast.api import commands, cronjobs, hyperjobs, hypernodes, jobflows, jobs, nodes, podgroups, queues
from pyroclast.api.shared import CustomKind

_KEPT: Final = (
    "type",
    "format",
    "enum",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "pattern",
    "required",
    "x-kubernetes-validations",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
)


def structural_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of `model` with all references resolved. A field that may be None in Python may be absent in JSON."""
    drawn = model.model_json_schema(by_alias=True)
    return _convert(drawn, drawn.get("$defs", {}))


def _convert(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        target = _convert(definitions[schema["$ref"].rpartition("/")[2]], definitions)
        return {**target, **{key: schema[key] for key in ("description", "default") if key in schema}}
    if "x-kubernetes-int-or-string" in schema:
        return dict(schema)
    if "anyOf" in schema:
        (present,) = (option for option in schema["anyOf"] if option != {"type": "null"})
        beside = {
            key: value for key, value in schema.items() if key not in ("anyOf", "title") and (key, value) != ("default", None)
        }
        return {**_convert(present, definitions), **beside}
    result: dict[str, Any] = {"description": schema["description"]} if "description" in schema else {}
    result |= {key: schema[key] for key in _KEPT if key in schema}
    if "enum" in result:
        result["enum"] = [word for word in result["enum"] if word]  # an empty value means that the field is absent
    if "properties" in schema:
        result["properties"] = {field: _convert(value, definitions) for field, value in schema["properties"].items()}
    if "items" in schema:
        result["items"] = _convert(schema["items"], definitions)
    if isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = _convert(schema["additionalProperties"], definitions)
    return result


KINDS: Final[tuple[CustomKind, ...]] = (
    jobs.KIND,
    cronjobs.KIND,
    commands.KIND,
    podgroups.KIND,
    queues.KIND,
    jobflows.KIND,
    jobflows.JOB_TEMPLATE,
    hypernodes.KIND,
    nodes.NUMATOPOLOGY,
    nodes.NODE_SHARD,
    nodes.COLOCATION_CONFIGURATION,
    hyperjobs.KIND,
)


@cache
def custom_resource_definitions() -> tuple[dict[str, Any], ...]:
    """Return the CRDs of all kinds, in the form that `kubectl create` accepts. The value is shared: change only a copy."""
    return tuple(custom_resource_definition(kind) for kind in KINDS)


def custom_resource_definition(kind: CustomKind) -> dict[str, Any]:
    """Return the CRD of one kind. The CRD and its objects stay when the helm release that created it is uninstalled."""
    version: dict[str, Any] = {
        "name": kind.resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": structural_schema(kind.model)},
        "subresources": {"status": {}} if kind.has_status else {},
    }
    if kind.columns:
        version["additionalPrinterColumns"] = [
            {
                "name": each.name,
                "type": each.type,
                "jsonPath": each.path,
                **({"priority": each.priority} if each.priority else {}),
            }
            for each in kind.columns
        ]
    names: dict[str, Any] = {
        "kind": kind.resource.kind,
        "listKind": f"{kind.resource.kind}List",
        "plural": kind.resource.plural,
        "singular": kind.resource.kind.lower(),
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource.qualified, "annotations": {"helm.sh/resource-policy": "keep"}},
        "spec": {
            "group": kind.resource.group,
            "names": names,
            "scope": "Namespaced" if kind.resource.namespaced else "Cluster",
            "versions": [version],
        },
    }

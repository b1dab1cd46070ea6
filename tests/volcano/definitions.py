"""The CustomResourceDefinitions of Volcano, as far as they differ from ours: without the fields that we add."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from pyroclast.api.crds import custom_resource_definitions

FIELDS: Final = Path(__file__).with_name("fields.yaml")
_OBJECT: Final = frozenset({"apiVersion", "kind", "metadata"})
_REQUIRED_THERE: Final = {"partitionPolicy": ("totalPartitions",)}
"""What Volcano requires and we do not, by the name of the object."""

Fields = Mapping[str, Any] | None


@cache
def fields() -> Mapping[str, Fields]:
    """The fields that Volcano knows, by kind."""
    known: dict[str, Fields] = yaml.safe_load(FIELDS.read_text())
    return known


def schema_of(definition: Mapping[str, Any]) -> dict[str, Any]:
    (version,) = definition["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def definitions() -> list[dict[str, Any]]:
    """What Volcano's chart installs: a definition for each of its kinds."""
    found = []
    for ours in custom_resource_definitions():
        kind = ours["spec"]["names"]["kind"]
        if kind in fields():
            theirs = copy.deepcopy(ours)
            job_spec = schema_of(next(each for each in custom_resource_definitions() if each["spec"]["names"]["kind"] == "Job"))
            _reduce(schema_of(theirs), fields()[kind], _OBJECT, copy.deepcopy(job_spec["properties"]["spec"]))
            found.append(theirs)
    return found


def added() -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """The fields of ours that Volcano does not know: where, the schema, and whether it is required."""
    for ours in custom_resource_definitions():
        kind = ours["spec"]["names"]["kind"]
        if kind in fields():
            yield from _added(kind, schema_of(ours), fields()[kind], _OBJECT)


def _added(
    path: str, schema: Mapping[str, Any], known: Fields, given: frozenset[str] = frozenset()
) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    schema = _item(schema)
    if known is None:
        return
    for name, field in schema.get("properties", {}).items():
        if name in known:
            yield from _added(f"{path}.{name}", field, known[name])
        elif name not in given:
            yield f"{path}.{name}", field, name in schema.get("required", ())
    if "*" in known:
        yield from _added(f"{path}.*", schema["additionalProperties"], known["*"])


def _reduce(schema: dict[str, Any], known: Fields, given: frozenset[str], job_spec: dict[str, Any]) -> None:
    """Take away what Volcano does not know."""
    if known is None:
        return
    schema = _item(schema)
    if "*" in known:
        _reduce(schema["additionalProperties"], known["*"], frozenset(), job_spec)
        return
    properties = schema["properties"]
    for name in [name for name in properties if name not in known and name not in given]:
        del properties[name]
    if "jobSpec" in properties:  # ours leaves the schema of a patch open
        properties["jobSpec"] = job_spec
    for name, field in properties.items():
        if name in known:
            _reduce(field, known[name], frozenset(), job_spec)
        if name in _REQUIRED_THERE:
            field["required"] = sorted({*field.get("required", ()), *_REQUIRED_THERE[name]})


def _item(schema: Any) -> Any:
    return _item(schema["items"]) if schema.get("type") == "array" else schema

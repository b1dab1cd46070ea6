"""OpenAPI v3 documents for each group and version, with the parts that kubectl uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pyroclast.api import builtin
from pyroclast_standalone.apiserver.documents.errors import Json, Object
from pyroclast_standalone.apiserver.documents.schema import definition_name
from pyroclast_standalone.apiserver.storage.registry import Resource

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_REFERENCE: Final = "#/components/schemas/"
_JSON: Final = "application/json"
_BODIES: Final = (_JSON, "application/yaml", "application/vnd.kubernetes.protobuf")
_WRITE_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation")
_PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_ENUMERATED: Final = (("", ""), ("[]", "items"), ("{}", "additionalProperties"))
_ACTIONS: Final = {"create": "post", "update": "put"}
_METHODS: Final = {"get": "get", "list": "list", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}


def _definition(served: Resource) -> str:
    """Return the name of the schema of a resource in the document."""
    if not served.is_custom:
        return definition_name(served.group, served.version, served.kind)
    return ".".join([*reversed(served.group.split(".")), served.version, served.kind])


def _kinds(served: Resource) -> Object:
    """Return the group, version and kind for the extension `x-kubernetes-group-version-kind`."""
    return {"group": served.group, "kind": served.kind, "version": served.version}


def _reference(name: str) -> Object:
    return {"$ref": f"{_REFERENCE}{name}"}


def _parameter(name: str, where: str = "query") -> Object:
    kind = "boolean" if name == "force" else "string"
    parameter: Object = {"name": name, "in": where, "schema": {"type": kind, "uniqueItems": True}}
    return {**parameter, "required": True} if where == "path" else parameter


def _content(name: str, types: Iterable[str] = _BODIES) -> Object:
    return {media: {"schema": _reference(name)} for media in types}


def _operation(served: Resource, verb: str) -> Object:
    definition = _definition(served)
    answer = f"{definition}List" if verb == "list" else definition
    operation: Object = {
        "operationId": f"{verb}{served.kind}",
        "responses": {"200": {"description": "OK", "content": _content(answer)}},
        "x-kubernetes-action": _ACTIONS.get(verb, verb),
        "x-kubernetes-group-version-kind": _kinds(served),
    }
    if verb in {"create", "update", "patch"}:
        names = (*_WRITE_PARAMETERS, "force") if verb == "patch" else _WRITE_PARAMETERS
        operation["parameters"] = [_parameter(each) for each in names]
        content = _content(definition, ("*/*",))
        if verb == "patch":
            content = _content(f"{_META}Patch", _PATCHES[:-1] if served.is_custom else _PATCHES)
        operation["requestBody"] = {"content": content, "required": True}
    return operation


def _paths(served: Resource) -> Iterator[tuple[str, Object]]:
    root = f"/apis/{served.group}/{served.version}" if served.group else f"/api/{served.version}"
    scope = "/namespaces/{namespace}" if served.namespaced else ""
    place = [_parameter("namespace", "path")] if served.namespaced else []
    verbs = set(served.strategy.verbs)
    collection = {_METHODS[verb]: _operation(served, verb) for verb in ("list", "create") if verb in verbs}
    single = {_METHODS[verb]: _operation(served, verb) for verb in ("get", "update", "patch", "delete") if verb in verbs}
    if collection:
        yield f"{root}{scope}/{served.plural}", {**collection, "parameters": place}
    if single:
        yield f"{root}{scope}/{served.plural}/{{name}}", {**single, "parameters": [_parameter("name", "path"), *place]}


def _custom_schemas(served: Resource) -> Iterator[tuple[str, Object]]:
    definition, schema = _definition(served), dict(served.strategy.schema.source)
    properties = dict(schema.get("properties") or {})
    meta = builtin.definitions()[f"{_META}ObjectMeta"]
    texts = builtin.definitions()[f"{_META}Status"]["properties"]
    properties["apiVersion"] = texts["apiVersion"]
    properties["kind"] = texts["kind"]
    properties["metadata"] = {
        "allOf": [_reference(f"{_META}ObjectMeta")],
        "description": meta.get("description", ""),
        "default": {},
    }
    schema["type"] = "object"
    schema["properties"] = properties
    schema["x-kubernetes-group-version-kind"] = [_kinds(served)]
    yield definition, schema
    yield (
        f"{definition}List",
        {
            "description": f"{served.kind}List is a list of {served.kind}",
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": texts["apiVersion"],
                "kind": texts["kind"],
                "metadata": _reference(f"{_META}ListMeta"),
                "items": {"type": "array", "items": _reference(definition)},
            },
            "x-kubernetes-group-version-kind": [{**_kinds(served), "kind": f"{served.kind}List"}],
        },
    )


def _references(value: Json) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, child in value.items():
            if key == "$ref" and isinstance(child, str):
                yield child.removeprefix(_REFERENCE)
            else:
                yield from _references(child)
    elif isinstance(value, list):
        for child in value:
            yield from _references(child)


def _adapted(schema: Mapping[str, Json]) -> Object:
    """Return a definition in version 3: a reference with a description beside it moves into `allOf`."""
    result: Object = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, Mapping):
            result[key] = {name: _adapted(inner) for name, inner in value.items()}
        elif key in {"items", "additionalProperties"} and isinstance(value, Mapping):
            result[key] = _adapted(value)
        else:
            result[key] = value
    if "$ref" in result and len(result) > 1:
        result["allOf"] = [{"$ref": result.pop("$ref")}]
    return result


def document(served: Iterable[Resource]) -> Object:
    """Return the document of the resources of one group and version."""
    paths: Object = {}
    schemas: Object = {}
    for each in served:
        paths.update(_paths(each))
        if each.is_custom:
            schemas.update(_custom_schemas(each))
    definitions = builtin.definitions()
    pending = [*_references(paths), *_references(schemas)]
    while pending:
        name = pending.pop()
        if name in schemas or name not in definitions:
            continue
        schemas[name] = _adapted(definitions[name])
        for field, schema in schemas[name].get("properties", {}).items():
            for end, place in _ENUMERATED:
                if values := builtin.enumerations().get(f"{name}.{field}{end}"):
                    (schema[place] if place else schema)["enum"] = values
        pending.extend(_references(schemas[name]))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": builtin.KUBERNETES_VERSION},
        "paths": {path: paths[path] for path in sorted(paths)},
        "components": {"schemas": {name: schemas[name] for name in sorted(schemas)}},
    }

"""OpenAPI v3 documents for each group and version, with the parts that kubectl uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pyroclast.api import builtin
from pyroclast_standalone.apiserver.documents.errors import Json, Object
from pyroclast_standalone.apiserver.documents.schema import definition_name

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


@dataclass(frozen=True, slots=True)
class ServedResource:
    """A resource in a document. `schema` is the openAPIV3Schema of a custom resource, None for a built-in kind."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: tuple[str, ...]
    schema: Mapping[str, Json] | None = None

    @property
    def definition(self) -> str:
        """The name of the schema of this resource in the OpenAPI document."""
        if self.schema is None:
            return definition_name(self.group, self.version, self.kind)
        return ".".join([*reversed(self.group.split(".")), self.version, self.kind])

    @property
    def kinds(self) -> Object:
        """Return the group, version and kind for the extension `x-kubernetes-group-version-kind`."""
        return {"group": self.group, "kind": self.kind, "version": self.version}


def _reference(name: str) -> Object:
    return {"$ref": f"{_REFERENCE}{name}"}


def _parameter(name: str, where: str = "query") -> Object:
    kind = "boolean" if name == "force" else "string"
    parameter: Object = {"name": name, "in": where, "schema": {"type": kind, "uniqueItems": True}}
    return {**parameter, "required": True} if where == "path" else parameter


def _content(name: str, types: Iterable[str] = _BODIES) -> Object:
    return {media: {"schema": _reference(name)} for media in types}


def _operation(served: ServedResource, verb: str) -> Object:
    answer = f"{served.definition}List" if verb == "list" else served.definition
    operation: Object = {
        "operationId": f"{verb}{served.kind}",
        "responses": {"200": {"description": "OK", "content": _content(answer)}},
        "x-kubernetes-action": _ACTIONS.get(verb, verb),
        "x-kubernetes-group-version-kind": served.kinds,
    }
    if verb in {"create", "update", "patch"}:
        names = (*_WRITE_PARAMETERS, "force") if verb == "patch" else _WRITE_PARAMETERS
        operation["parameters"] = [_parameter(each) for each in names]
        content = _content(served.definition, ("*/*",))
        if verb == "patch":
            content = _content(f"{_META}Patch", _PATCHES if served.schema is None else _PATCHES[:-1])
        operation["requestBody"] = {"content": content, "required": True}
    return operation


def _paths(served: ServedResource) -> Iterator[tuple[str, Object]]:
    root = f"/apis/{served.group}/{served.version}" if served.group else f"/api/{served.version}"
    scope = "/namespaces/{namespace}" if served.namespaced else ""
    place = [_parameter("namespace", "path")] if served.namespaced else []
    verbs = set(served.verbs)
    collection = {_METHODS[verb]: _operation(served, verb) for verb in ("list", "create") if verb in verbs}
    single = {_METHODS[verb]: _operation(served, verb) for verb in ("get", "update", "patch", "delete") if verb in verbs}
    if collection:
        yield f"{root}{scope}/{served.plural}", {**collection, "parameters": place}
    if single:
        yield f"{root}{scope}/{served.plural}/{{name}}", {**single, "parameters": [_parameter("name", "path"), *place]}


def _custom_schemas(served: ServedResource) -> Iterator[tuple[str, Object]]:
    schema = dict(served.schema or {})
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
    schema["x-kubernetes-group-version-kind"] = [served.kinds]
    yield served.definition, schema
    yield (
        f"{served.definition}List",
        {
            "description": f"{served.kind}List is a list of {served.kind}",
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": texts["apiVersion"],
                "kind": texts["kind"],
                "metadata": _reference(f"{_META}ListMeta"),
                "items": {"type": "array", "items": _reference(served.definition)},
            },
            "x-kubernetes-group-version-kind": [{**served.kinds, "kind": f"{served.kind}List"}],
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


def document(group: str, version: str, served: Iterable[ServedResource]) -> Object:
    """Return the document of one group and version. The group of core kinds is empty."""
    del group, version  # each resource has both
    paths: Object = {}
    schemas: Object = {}
    for each in served:
        paths.update(_paths(each))
        if each.schema is not None:
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

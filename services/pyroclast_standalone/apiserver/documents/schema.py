"""Schemas as trees of nodes, in one form for built-in kinds and custom resources. All other document functions use them.

Schemas are separate from validation, because patches, apply, pruning and decoding need the same facts: the existing fields, the
keys of list items, and which values are merged or replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from typing import Any, Final, TypeAlias

from pyroclast.api import builtin
from pyroclast_standalone.apiserver.documents.errors import Json

Resolver: TypeAlias = Callable[[str], "Node"]


_STEPS_KEPT: Final = 256  # per node: more than any object of the API declares


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """One node of a schema.

    Attributes:
        type: `object`, `map`, `list`, `scalar`, or `any` for an unknown type.
        fields: the declared fields of an object.
        item: the node of the values of a list or map.
        keys: the fields that identify an item of an associative list. Empty for other lists.
        defaults: the values of key fields that an item may omit.
        is_set: whether the scalar items of the list are unique.
        is_atomic: whether the value is replaced and owned as a whole.
        merge_key: the field that identifies an item in a strategic merge patch. Empty for lists that are replaced.
        strategies: the declared strategies of a strategic merge patch: `merge`, `replace`, `retainKeys`.
        primitive: the OpenAPI type of a scalar (`string`, `integer`, …) or `int-or-string`.
        name: the definition of the node (`io.k8s.api.core.v1.Container`). Empty for inner nodes.
        open: whether an object keeps undeclared fields.
        source: the OpenAPI schema.
        splits_status: for the root of a kind with a status subresource, whether spec and status have separate owners.
        kept_from_status: for such a root, the fields that a status write cannot change, as keys of field sets.
        steps: the cached results of `step`.
        blank: for a root, the object when no field is set.
    """

    type: str
    source: Mapping[str, Any]
    _resolve: Resolver | None = None
    _: KW_ONLY
    name: str = ""
    keys: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    is_set: bool = False
    is_atomic: bool = False
    merge_key: str = ""
    strategies: frozenset[str] = frozenset()
    primitive: str = ""
    open: bool = False
    splits_status: bool = False
    kept_from_status: tuple[str, ...] = ("f:spec",)
    blank: Mapping[str, Any] = field(default_factory=dict)
    steps: dict[str, tuple[str, Node]] = field(default_factory=dict)
    _fields: dict[str, Node] | None = None
    _item: Node | None = None

    def __repr__(self) -> str:
        return f"Node({self.type}, {self.name or list(self.source)[:4]})"

    @property
    def fields(self) -> Mapping[str, Node]:
        """The declared fields, created on first use because definitions are recursive."""
        if self._fields is None:
            properties = self.source.get("properties") or {}
            self._fields = {name: _make(schema, self._resolve) for name, schema in properties.items()}
        return self._fields

    @property
    def item(self) -> Node:
        """The node of the values of a list or map."""
        if self._item is None:
            schema = self.source.get("items") if self.type == "list" else self.source.get("additionalProperties")
            self._item = _make(schema, self._resolve) if isinstance(schema, Mapping) else ANY
        return self._item

    def step(self, name: str) -> tuple[str, Node]:
        """Return the key of a field in managedFields, and the node below it. An undeclared field has the type `any`."""
        found = self.steps.get(name)
        if found is None:
            found = (f"f:{name}", self.child(name) or ANY)
            if len(self.steps) < _STEPS_KEPT:
                self.steps[name] = found
        return found

    def child(self, name: str) -> Node | None:
        """Return the node of a field in an object or map. None when the field is not declared."""
        if self.type == "object":
            found = self.fields.get(name)
            if found is not None:
                return found
            if "additionalProperties" in self.source:
                return self.item
            return ANY if self.open else None
        return self.item if self.type == "map" else ANY if self.type == "any" else None


ANY: Final = Node("any", {})


def _reference(schema: Mapping[str, Any]) -> str:
    reference = schema.get("$ref")
    if reference is None and len(schema.get("allOf", ())) == 1:
        reference = schema["allOf"][0].get("$ref")
    return reference.rpartition("/")[2] if isinstance(reference, str) else ""


_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_FREE: Final = {
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
}


def _make(schema: Mapping[str, Any], resolve: Resolver | None, *, name: str = "") -> Node:
    if resolve is not None and (reference := _reference(schema)):
        target = resolve(reference)
        return _annotated(target, schema)
    node = Node(_type_of(schema, name), schema, resolve, name=name)
    node.is_atomic = name in _FREE
    if node.type == "scalar":
        node.primitive = _primitive_of(schema, name)
    _annotate(node, schema)
    return node


def _annotated(target: Node, schema: Mapping[str, Any]) -> Node:
    """Return `target` as seen from a field whose own extensions define how it merges."""
    if not any(key.startswith("x-kubernetes-") for key in schema):
        return target
    node = Node(target.type, target.source, target._resolve, name=target.name)  # same class
    node.primitive, node.open = target.primitive, target.open
    node.is_atomic = target.is_atomic
    _annotate(node, schema)
    return node


def _annotate(node: Node, schema: Mapping[str, Any]) -> None:
    list_type = schema.get("x-kubernetes-list-type")
    if node.type == "list":
        node.is_set = list_type == "set"
        if list_type == "map":
            node.keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
            items = node.item.fields if node.keys else {}
            node.defaults = {
                key: value
                for key in node.keys
                if key in items and (value := _key_default(items[key], key, node.item)) is not None
            }
        node.is_atomic = not (node.is_set or node.keys)
    elif schema.get("x-kubernetes-map-type") == "atomic":
        node.is_atomic = True
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        node.open = True
    node.merge_key = schema.get("x-kubernetes-patch-merge-key", node.merge_key)
    if strategy := schema.get("x-kubernetes-patch-strategy"):
        node.strategies = frozenset(strategy.split(","))


def _key_default(node: Node, key: str, holder: Node) -> Json:
    """Return the default of a field that is a key of list items."""
    if "default" in node.source:
        return node.source["default"]
    return "TCP" if key == "protocol" and holder.name.endswith("Port") else None


def _type_of(schema: Mapping[str, Any], name: str) -> str:
    if name in _FREE:
        return "any"
    declared = schema.get("type")
    if name in {_QUANTITY, _INT_OR_STRING} or schema.get("x-kubernetes-int-or-string"):
        return "scalar"
    if schema.get("properties"):
        return "object"
    match declared:
        case "array":
            return "list"
        case "object":
            if isinstance(schema.get("additionalProperties"), Mapping):
                return "map"
            return "object" if name or not schema.get("x-kubernetes-preserve-unknown-fields") else "any"
        case None:
            return "any"
        case _:
            return "scalar"


def _primitive_of(schema: Mapping[str, Any], name: str) -> str:
    if name == _QUANTITY:
        return "quantity"
    if name == _INT_OR_STRING or schema.get("x-kubernetes-int-or-string"):
        return "int-or-string"
    return str(schema.get("type", "string"))


@cache
def _definition(name: str) -> Node:
    return _make(builtin.definitions()[name], _definition, name=name)


_PACKAGES: Final = {
    "": "io.k8s.api.core",
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration.k8s.io": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
    "meta.k8s.io": "io.k8s.apimachinery.pkg.apis.meta",
}


def definition_name(group: str, version: str, kind: str) -> str:
    """Return the name of a built-in kind's definition: `io.k8s.api.apps.v1.Deployment`."""
    package = _PACKAGES.get(group) or f"io.k8s.api.{group.partition('.')[0]}"
    return f"{package}.{version}.{kind}"


@cache
def builtin_schema(group: str, version: str, kind: str) -> Node | None:
    """Return the schema of a built-in kind, or None. The group of core kinds is empty."""
    name = definition_name(group, version, kind)
    return _definition(name) if name in builtin.definitions() else None


def description_of(field: str) -> str:
    """Return the description of a field of a built-in definition, such as `io.k8s.api.core.v1.PodSpec.nodeName`."""
    name, _, own = field.rpartition(".")
    return str(builtin.definitions()[name]["properties"][own].get("description", ""))


def of_openapi(schema: Mapping[str, Any]) -> Node:
    """Return the root of a custom resource with the given `openAPIV3Schema`: its fields and the common fields of objects."""
    properties = dict(schema.get("properties") or {})
    root = {**schema, "type": "object", "properties": {"apiVersion": _TEXT, "kind": _TEXT, **properties}}
    node = _make(root, None, name="root")
    node.type = "object"
    node.fields  # noqa: B018  # created now, so that the metadata below replaces the schema's
    if node._fields is not None:  # same module
        node._fields["metadata"] = object_meta()
    return node


_TEXT: Final = {"type": "string"}


def object_meta() -> Node:
    """Return the schema of `metadata`."""
    return _definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")

"""Structural schemas of custom resources: pruning, defaulting and validation, compiled once for each version of a CRD."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import orjson

from pyroclast.rules.errors import ErrorType, FieldError, duplicate, invalid
from pyroclast_standalone.apiserver.documents.errors import Json, Object
from pyroclast_standalone.apiserver.documents.schema import Node, of_openapi
from pyroclast_standalone.apiserver.documents.schema_rules import Rules
from pyroclast_standalone.apiserver.documents.schema_validation import NO_OLD, Validator, compile_schema
from pyroclast_standalone.apiserver.documents.typed import codec_of


def check_lists(value: Json, schema: Mapping[str, Json], path: str = "") -> list[FieldError]:
    """Return an error for each duplicate in `value` where `schema` requires distinct items."""
    if isinstance(value, dict):
        return _check_fields(value, schema, path)
    if isinstance(value, list):
        errors: list[FieldError] = []
        match schema.get("x-kubernetes-list-type"):
            case "set":
                errors += [duplicate(f"{path}[{index}]", value[index]) for index in _repeated(value)]
            case "map":
                errors += _check_map(value, list(schema.get("x-kubernetes-list-map-keys") or ()), path)
        items = schema.get("items")
        if isinstance(items, Mapping) and _is_nested(items):
            for index, item in enumerate(value):
                errors += check_lists(item, items, f"{path}[{index}]")
        return errors
    return []


def _is_nested(schema: Mapping[str, Json]) -> bool:
    return bool(schema.get("properties") or schema.get("additionalProperties") or schema.get("items"))


def _check_fields(value: Object, schema: Mapping[str, Json], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    extra = schema.get("additionalProperties")
    properties = schema.get("properties") or {}
    for name, child in value.items():
        if child.__class__ is not dict and child.__class__ is not list:
            continue
        if name in properties:
            errors += check_lists(child, properties[name], f"{path}.{name}" if path else name)
        elif isinstance(extra, Mapping):
            errors += check_lists(child, extra, f"{path}[{name}]")
    return errors


def _repeated(values: list[Json]) -> list[int]:
    """Return the index of each second occurrence of a value."""
    if len(values) <= 1:
        return []
    seen: dict[str, int] = {}
    found: list[int] = []
    for index, value in enumerate(values):
        key = json.dumps(value, sort_keys=True)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2:
            found.append(index)
    return found


def _check_map(values: list[Json], keys: list[str], path: str) -> list[FieldError]:
    for index, value in enumerate(values):
        if value is not None and not isinstance(value, dict):
            return [invalid(f"{path}[{index}]", value, "must be an object for an array of list-type map")]
    known = [{key: value[key] for key in keys if key in value} if value is not None else {} for value in values]
    return [duplicate(f"{path}[{index}]", known[index]) for index in _repeated(list(known))]


_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_IDENTITY: Final = ("apiVersion", "kind", "metadata")
_BLOCKING: Final = {ErrorType.UNSUPPORTED, ErrorType.REQUIRED, ErrorType.TOO_LONG, ErrorType.TOO_MANY, ErrorType.TYPE_INVALID}
_UNCHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
)


@dataclass(slots=True)
class Verdict:
    """The result of a validation. `warnings` are violations that an update did not introduce, so that it is still accepted."""

    errors: list[FieldError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def _unknown_metadata(value: Object) -> list[str]:
    """Normalise the metadata of an object in place. Return messages about its unknown fields."""
    problems = codec_of(_META).decode(value["metadata"])
    return ["metadata." + problem.removeprefix('unknown field "').rstrip('"') for problem in problems]


class _Pruner:
    """Removes fields that a schema does not declare."""

    __slots__ = ("_is_embedded", "_item", "_keeps", "_others", "_properties", "_spared")

    def __init__(self, schema: Mapping[str, Json], *, is_root: bool = False) -> None:
        extra, items = schema.get("additionalProperties"), schema.get("items")
        self._properties = {name: _Pruner(inner) for name, inner in (schema.get("properties") or {}).items()}
        self._others = _Pruner(extra) if isinstance(extra, Mapping) else None
        self._item = _Pruner(items) if isinstance(items, Mapping) else None
        self._keeps = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or extra is True
        self._is_embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        self._spared = frozenset(_IDENTITY if is_root or self._is_embedded else ())

    def __call__(self, value: Json, path: str, dropped: list[str]) -> None:
        """Add the paths of removed fields to `dropped`.

        For metadata of embedded objects a NUL precedes the path: these sort last.
        """
        if value.__class__ is dict:
            self._prune_fields(value, path, dropped)
            if self._is_embedded and isinstance(value.get("metadata"), dict):
                dropped += [f"\0{path}.{field}" for field in _unknown_metadata(value)]
        elif value.__class__ is list and self._item is not None:
            for index, each in enumerate(value):
                if each.__class__ is dict or each.__class__ is list:
                    self._item(each, f"{path}[{index}]", dropped)

    def _prune_fields(self, value: Object, path: str, dropped: list[str]) -> None:
        gone: list[str] = []
        for name, child in value.items():
            if name in self._spared:
                continue
            inner = self._properties.get(name, self._others)
            if inner is None:
                if not self._keeps:
                    gone.append(name)
            elif child.__class__ is dict or child.__class__ is list:
                inner(child, f"{path}.{name}" if path else name, dropped)
        for name in gone:
            del value[name]
            dropped.append(f"{path}.{name}" if path else name)


class _Defaulter:
    """Sets the defaults of a schema.

    The null of a field that is not nullable becomes the default, or is removed. With `keeps` it stays.
    """

    is_needed: bool

    def __init__(self, schema: Mapping[str, Json], *, keeps: bool = False) -> None:
        properties: Mapping[str, Mapping[str, Json]] = schema.get("properties") or {}
        extra, items = schema.get("additionalProperties"), schema.get("items")
        self._inner = {name: inner for name, each in properties.items() if (inner := _Defaulter(each, keeps=keeps)).is_needed}
        self._defaults = {name: each["default"] for name, each in properties.items() if "default" in each}
        self._non_null = frozenset(name for name, each in properties.items() if not each.get("nullable"))
        self._extra: Mapping[str, Json] | None = extra if isinstance(extra, Mapping) else None
        self._others = _Defaulter(extra, keeps=keeps) if isinstance(extra, Mapping) else None
        self._extra_is_nullable = self._extra is None or bool(self._extra.get("nullable"))
        self._item = _Defaulter(items, keeps=keeps) if isinstance(items, Mapping) else None
        self._item_default = items.get("default") if isinstance(items, Mapping) and not items.get("nullable") else None
        has_item = self._item is not None and (self._item.is_needed or self._item_default is not None)
        self._keeps = keeps
        self.is_needed = bool(properties) or self._extra is not None or has_item

    def __call__(self, value: Json) -> None:
        """Modify `value` in place."""
        if value.__class__ is dict:
            self._default_fields(value)
        elif value.__class__ is list and self._item is not None:
            for index, each in enumerate(value):
                if each is None and self._item_default is not None:
                    value[index] = each = copy.deepcopy(self._item_default)
                self._item(each)

    def _default_fields(self, value: Object) -> None:
        for name, given in self._defaults.items():
            if name not in value or (value[name] is None and name in self._non_null):
                value[name] = copy.deepcopy(given)
        gone: list[str] = []
        for name, child in value.items():
            if child is None:
                if self._null_goes(value, name):
                    gone.append(name)
            elif name in self._inner:
                self._inner[name](child)
            elif self._others is not None and name not in self._non_null:
                self._others(child)
        for name in gone:
            del value[name]

    def _null_goes(self, value: Object, name: str) -> bool:
        if self._keeps or name in self._non_null:
            return not self._keeps
        if self._extra is None or self._extra_is_nullable:
            return False
        default = self._extra.get("default")
        if default is None:
            return True
        value[name] = copy.deepcopy(default)
        return False


@dataclass(frozen=True, slots=True)
class _Compiled:
    """The compiled pruning, defaulting and validation of a schema."""

    prune: _Pruner
    default: _Defaulter
    default_applied: _Defaulter
    validate: Validator
    validate_status: Validator | None
    rules: Rules


@lru_cache(maxsize=64)
def _compiled(schema: bytes) -> _Compiled:
    """Compile a schema in JSON, once for all definitions with an equal schema."""
    source: Mapping[str, Json] = orjson.loads(schema)
    properties: Mapping[str, Json] = source.get("properties") or {}
    root = {**source, "properties": {name: value for name, value in properties.items() if name not in _IDENTITY}}
    status = properties.get("status")
    return _Compiled(
        _Pruner(root, is_root=True),
        _Defaulter(root),
        _Defaulter(root, keeps=True),
        compile_schema(source),
        compile_schema(status) if status else None,
        Rules(source, is_root=True),
    )


class Structural:
    """A compiled `openAPIV3Schema` of one version. None represents a version that keeps all fields.

    Attributes:
        node: the same schema for patches and apply.
        source: the original schema.
    """

    def __init__(self, schema: Mapping[str, Json] | None) -> None:
        self.source: Mapping[str, Json] = schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        self._compiled = _compiled(orjson.dumps(self.source))
        self._node: Node | None = None

    @property
    def node(self) -> Node:
        """The schema as a tree of nodes, created on first use."""
        if self._node is None:
            self._node = of_openapi(self.source)
        return self._node

    def prune(self, document: Object) -> list[str]:
        """Remove unknown fields in place. Return their paths (`spec.foo`, `spec.list[0].bar`)."""
        dropped: list[str] = []
        self._compiled.prune(document, "", dropped)
        if document.get("metadata") is not None:
            dropped += _unknown_metadata(document)
        return [path.removeprefix("\0") for path in sorted(dropped, key=lambda path: (path[0] == "\0", path))]

    def default(self, document: Object, *, is_applied: bool = False) -> None:
        """Set the defaults in place, also for a null in a field that is not nullable; an applied null stays."""
        (self._compiled.default_applied if is_applied else self._compiled.default)(document)

    def validate(
        self, document: Object, old: Object | None = None, *, subresource: str = "", found: Sequence[FieldError] = ()
    ) -> Verdict:
        """Return all violations of the schema, of list types and of CEL rules, after those in `found`.

        With `old`, unchanged values may stay invalid.
        """
        verdict = Verdict([*found])
        if subresource == "status":
            self._check_status(document, old, verdict)
        else:
            self._compiled.validate(document, "", NO_OLD if old is None else old, verdict.errors)
        if old is None or not check_lists(old, self.source):
            verdict.errors += check_lists(document, self.source)
        if self._compiled.rules:
            if any(error.type in _BLOCKING for error in verdict.errors):
                verdict.errors.append(invalid("<nil>", None, _UNCHECKED))
            else:
                self._compiled.rules.check(document, old, verdict.errors, verdict.warnings)
        return verdict

    def _check_status(self, document: Object, old: Object | None, verdict: Verdict) -> None:
        """Validate the status alone. Messages have paths relative to the status, errors have paths from the root."""
        if "status" not in document or self._compiled.validate_status is None:
            return
        found: list[FieldError] = []
        before = (old or {}).get("status", NO_OLD)
        self._compiled.validate_status(document["status"], "", before, found)
        for error in found:
            path = error.path if error.path == "<nil>" else f"status.{error.path}" if error.path else "status"
            verdict.errors.append(FieldError(path, error.type, error.detail, error.value))

"""Field sets of managedFields (FieldsV1): computes them from documents and combines them.

A set is a trie of JSON objects: `f:name` for a field, `k:{"name":"c"}` for an item of an associative list, `v:"x"` for an item of
a set. An empty object is a member. A member with members below it has the key `.`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import orjson

from pyroclast_standalone.apiserver.documents.errors import Json
from pyroclast_standalone.apiserver.documents.schema import Node


class BadFieldPath(Exception):
    """The path has an unsupported form, or no such field exists."""


def find_field(path: str, schema: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the schema of the field at `path` below `schema`.

    Raises BadFieldPath: the path is invalid. The message is that of the API.
    """
    if not path.startswith(".") or "[" in path:
        raise BadFieldPath("fields are named by dots here" if "[" in path else f"expected [ or . but got: {path}")
    for name in path[1:].split("."):
        properties, extra = schema.get("properties"), schema.get("additionalProperties")
        inner = properties.get(name) if properties else extra
        if not isinstance(inner, Mapping):
            raise BadFieldPath("does not refer to a valid field")
        schema = inner
    return schema


FieldSet: TypeAlias = dict[str, Json]

_SELF: Final = "."
_SORTED: Final = orjson.OPT_SORT_KEYS


@dataclass(slots=True)
class Comparison:
    """The result of a comparison: the fields that were added, removed and modified."""

    added: FieldSet
    removed: FieldSet
    modified: FieldSet


def item_key(item: Json, node: Node) -> str | None:
    """Return the key of `item` in the list `node`, from its key fields or its value. None when it lacks a key field."""
    if node.keys:
        if not isinstance(item, dict):
            return None
        if len(node.keys) == 1:
            name = node.keys[0]
            value = item.get(name)
            if value.__class__ is str:
                return f'k:{{"{name}":{_text(value)}}}'
        known = {name: item.get(name, node.defaults.get(name)) for name in node.keys}
        known = {name: value for name, value in known.items() if value is not None}
        return "k:" + orjson.dumps(known, option=_SORTED).decode() if known else None
    return "v:" + orjson.dumps(item).decode()


def _text(value: str) -> str:
    return f'"{value}"' if value.isalnum() else orjson.dumps(value).decode()


def _items(values: list[Json], node: Node) -> dict[str, Json]:
    """Return the items of a list by key. Items with equal keys cannot be distinguished, so one entry has them all."""
    found: dict[str, Json] = {}
    for value in values:
        key = item_key(value, node)
        if key is None:
            continue
        if key in found:
            found[key] = _Several([*(found[key] if isinstance(found[key], _Several) else [found[key]]), value])
        else:
            found[key] = value
    return found


class _Several(list[Json]):
    """Items with equal keys."""


def _whole(value: Json, node: Node) -> FieldSet:
    """Return everything in `value`, including the value itself."""
    parts = _parts(value, node)
    return _with_members({_SELF: {}}, value, parts, node) if parts else {}


def _with_members(fields: FieldSet, value: Json, parts: Mapping[str, Json], node: Node) -> FieldSet:
    """Return `fields` extended by everything in the `parts` of `value`."""
    if value.__class__ is list:
        item = node.item
        for key, each in parts.items():
            fields[key] = _whole(each, item)
        return fields
    known = node.steps
    for name, child in parts.items():
        key, inner = known.get(name) or node.step(name)
        kind = child.__class__
        fields[key] = _whole(child, inner) if kind is dict or kind is list else {}
    return fields


def _parts(value: Json, node: Node) -> Mapping[str, Json] | None:
    """Return the separately owned parts of a value, by field or item key. None for a value that is owned as a whole."""
    if node.is_atomic or node.type == "scalar":
        return None
    if isinstance(value, dict):
        return value
    if isinstance(value, list) and node.type == "list":
        return _items(value, node)
    return {} if value is None else None


def _compare(old: Json, new: Json, node: Node) -> tuple[FieldSet, FieldSet, FieldSet] | None:
    """Return the added, removed and modified fields below a value. None when the value itself changed."""
    if not old and not new:
        return None
    before, after = _parts(old, node), _parts(new, node)
    if before is None or after is None:
        return None
    if not before:
        return _with_members({}, new, after, node), {}, {}
    added = _with_members({}, new, {name: child for name, child in after.items() if name not in before}, node)
    removed = _with_members({}, old, {name: child for name, child in before.items() if name not in after}, node)
    modified: FieldSet = {}
    for name, was in before.items():
        child = after.get(name, was)
        if was is child or was == child:
            continue
        key, inner = (name, node.item) if isinstance(new, list) else node.step(name)
        below = _compare(was, child, inner)
        if below is None:
            modified[key] = {}
            continue
        for target, part in zip((added, removed, modified), below, strict=True):
            if part:
                target[key] = part
    return added, removed, modified


def compare(old: Mapping[str, Json], new: Mapping[str, Json], schema: Node) -> Comparison:
    """Compare `old` and `new`, two objects of one kind."""
    below = _compare(old, new, schema)
    return Comparison(*below) if below is not None else Comparison({}, {}, {})


def of_document(value: Json, node: Node) -> FieldSet:
    """Return the fields that an applier of `value` owns: leaves, list items and empty values, but not the objects around them."""
    result: FieldSet = {}
    if isinstance(value, dict):
        for name, child in value.items():
            key, inner = node.step(name)
            if child == [] and inner.type == "list" and not inner.is_atomic:
                continue  # the list is empty, and no manager owns the list itself
            below = _below(child, inner)
            is_named = node.type != "object" or name not in node.fields
            if child and not below and not is_named and _is_split(child, inner):
                continue  # the value contains only empty lists
            is_member = not below or is_named
            result[key] = {_SELF: {}, **below} if is_member and below else below
    elif isinstance(value, list):
        item = node.item
        for key, each in _items(value, node).items():
            below = _below(each, item)
            result[key] = {_SELF: {}, **below} if below else {}
    return result


def _below(value: Json, node: Node) -> FieldSet:
    return of_document(value, node) if _is_split(value, node) else {}


def _is_split(value: Json, node: Node) -> bool:
    """Return whether the parts of `value` are owned separately."""
    if node.is_atomic or node.type == "scalar":
        return False
    return isinstance(value, dict) or (isinstance(value, list) and node.type == "list")


def _is_member(node: FieldSet) -> bool:
    return not node or _SELF in node


def _joined(is_member: bool, below: FieldSet) -> FieldSet | None:
    if is_member:
        return {_SELF: {}, **below} if below else {}
    return below or None


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the members of either set. The arguments are not modified. The result shares subtrees with them."""
    if not left or not right:
        return left or right
    result = dict(left)
    for key, theirs in right.items():
        if key == _SELF:
            continue
        mine = left.get(key)
        if mine is None:
            result[key] = theirs
        elif mine != theirs:
            below = union(_children(mine), _children(theirs))
            result[key] = _joined(_is_member(mine) or _is_member(theirs), below) or {}
    return result


def _children(node: FieldSet) -> FieldSet:
    if _SELF in node:
        return {key: child for key, child in node.items() if key != _SELF}
    return node


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the members of `left` that are not members of `right`."""
    if not right:
        return left
    result: FieldSet = {}
    for key, mine in left.items():
        if key == _SELF:
            continue
        theirs = right.get(key)
        if theirs is None:
            result[key] = mine
            continue
        kept = _joined(_is_member(mine) and not _is_member(theirs), difference(_children(mine), _children(theirs)))
        if kept is not None:
            result[key] = kept
    return result


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the members of both sets."""
    result: FieldSet = {}
    for key, mine in left.items():
        theirs = right.get(key)
        if theirs is None or key == _SELF:
            continue
        kept = _joined(_is_member(mine) and _is_member(theirs), intersection(_children(mine), _children(theirs)))
        if kept is not None:
            result[key] = kept
    return result


def members(fields: FieldSet, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all members in the order of the API's messages."""
    keys = sorted((key for key in fields if key != _SELF), key=_order)
    yield from ((*path, key) for key in keys if _is_member(fields[key]))
    for key in keys:
        yield from members(fields[key], (*path, key))


def _order(key: str) -> tuple[int, str]:
    return ("fkvi".find(key[0]), key)


def show_path(path: tuple[str, ...]) -> str:
    """Return a path for messages: `.spec.containers[name="c"].image`."""
    text = ""
    for key in path:
        kind, _, rest = key.partition(":")
        match kind:
            case "f":
                text += f".{rest}"
            case "k":
                keys = orjson.loads(rest)
                shown = ",".join(f"{name}={orjson.dumps(value).decode()}" for name, value in sorted(keys.items()))
                text += f"[{shown}]"
            case "v":
                text += f"[={rest}]"
            case _:
                text += f"[{rest}]"
    return text

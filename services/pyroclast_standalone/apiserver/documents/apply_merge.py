"""Merges a configuration into an object, and removes fields from an object."""

from __future__ import annotations

from collections.abc import Mapping

from pyroclast_standalone.apiserver.documents.field_sets import FieldSet, item_key
from pyroclast_standalone.apiserver.documents.schema import Node
from pyroclast_standalone.apiserver.documents.values import Json, Object


def merge_configuration(live: Object, applied: Object, schema: Node) -> Object:
    """Return `live` with the values of `applied`. The arguments are not modified. Unchanged values are shared with `live`."""
    return dict(_merged(live, applied, schema))


def _splits(node: Node) -> bool:
    return not node.is_atomic and node.type != "scalar"


def _merged(live: Json, applied: Json, node: Node) -> Json:
    if _splits(node) and isinstance(applied, dict) and isinstance(live, dict):
        result = dict(live)
        for name, value in applied.items():
            result[name] = _merged(live[name], value, node.step(name)[1]) if name in live else value
        return result
    if _splits(node) and node.type == "list" and isinstance(applied, list) and isinstance(live, list) and applied and live:
        return _merged_list(live, applied, node)
    if _splits(node) and _holds_parts(live, node) and (applied is None or applied == []):
        return live  # an empty list or map in the configuration does not change the parts of the live value
    return applied


def _holds_parts(value: Json, node: Node) -> bool:
    return bool(value) and (isinstance(value, dict) or (isinstance(value, list) and node.type == "list"))


def _merged_list(live: list[Json], applied: list[Json], node: Node) -> list[Json]:
    """Merge two lists: shared items in the order of `applied`, other items of `live` at their present position."""
    mine = [item_key(item, node) or "" for item in live]
    theirs = [item_key(item, node) or "" for item in applied]
    by_key = dict(zip(mine, live, strict=True))
    wanted = set(theirs)
    shared = [key for key in theirs if key in by_key]
    result: list[Json] = []
    done: set[str] = set()
    left = right = at = 0
    while left < len(mine) or right < len(theirs):
        if left < len(mine):
            key = mine[left]
            if key in wanted and right < len(theirs) and key != theirs[right] and at < len(shared) and shared[at] != key:
                left += 1  # the item moves to its position in `applied`
                continue
            if key not in wanted:
                result.append(live[left])
                left += 1
                continue
            if key in done:
                left += 1
                continue
        if right < len(theirs):
            key = theirs[right]
            done.add(key)
            if left < len(mine) and mine[left] == key:
                left += 1
            item = applied[right]
            result.append(_merged(by_key[key], item, node.item) if key in by_key else item)
            right += 1
            if at < len(shared) and shared[at] == key:
                at += 1
    return result


def remove(value: Json, fields: FieldSet, node: Node) -> Json:
    """Return `value` without the members of `fields`."""
    if not fields or not _splits(node) or not value:
        return value
    if isinstance(value, dict):
        result: Object = {}
        for name, child in value.items():
            key, inner = node.step(name)
            gone = fields.get(key)
            if gone is None:
                result[name] = child
            elif not gone or "." in gone:
                continue
            else:
                result[name] = remove(child, gone, inner)
        return result
    if isinstance(value, list) and node.type == "list":
        kept: list[Json] = []
        for item in value:
            gone = fields.get(item_key(item, node) or "")
            if gone is None:
                kept.append(item)
            elif gone and "." not in gone:
                kept.append(remove(item, gone, node.item))
        return kept
    return value


def with_named_fields(fields: FieldSet, node: Node) -> FieldSet:
    """Return `fields` with every declared field on the path to a member as a member too."""
    result: FieldSet = {}
    for key, child in fields.items():
        if key == ".":
            result[key] = child
            continue
        if not child:
            result[key] = child
            continue
        inner, is_declared = _below(key, node)
        below = with_named_fields(child, inner)
        result[key] = {".": {}, **below} if is_declared else below
    return result


def _below(key: str, node: Node) -> tuple[Node, bool]:
    if key.startswith("f:"):
        name = key[2:]
        declared: Mapping[str, Node] = node.fields if node.type == "object" else {}
        return node.step(name)[1], name in declared
    return node.item, False

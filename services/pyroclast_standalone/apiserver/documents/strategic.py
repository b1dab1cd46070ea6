"""Strategic merge patch: a merge patch in which the schema defines how each list merges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from pyroclast.resources.go_text import go_value
from pyroclast_standalone.apiserver.documents.errors import Json, MalformedPatch, Object, PatchFailure, Unprocessable
from pyroclast_standalone.apiserver.documents.json_patch import REFUSED
from pyroclast_standalone.apiserver.documents.schema import ANY, Node

_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE: Final = "$deleteFromPrimitiveList/"
_DIRECTIVES: Final = (_PATCH, _RETAIN, _ORDER, _DELETE)

_Identity: TypeAlias = Callable[[Json], Json]


def merge(target: Object, patch: Json, schema: Node) -> Object:
    """Return `target` with `patch` merged in by `schema`. The arguments are not modified.

    Unchanged values are shared with `target`.
    """
    if not isinstance(patch, dict):
        raise MalformedPatch("invalid JSON document")
    return _merge_map(target, patch, schema)


def _merge_map(target: Object, patch: Object, node: Node) -> Object:
    if _PATCH in patch:
        return _replaced(patch)
    result = dict(target)
    if _RETAIN in patch:
        _retain(result, patch)
    done: set[str] = set()
    for key, value in patch.items():
        if key.startswith(_ORDER):
            name = key.removeprefix(_ORDER)
            done.add(name)
            _ordered(result, patch, name, value, _child(node, name))
    for key, value in patch.items():
        if key == _RETAIN or key.startswith(_ORDER):
            continue
        if key.startswith(_DELETE):
            _delete_from(result, key.removeprefix(_DELETE), value)
        elif key not in done:
            _merge_field(result, key, value, _child(node, key))
    return result


def _replaced(patch: Object) -> Object:
    match patch[_PATCH]:
        case "replace":
            return {key: value for key, value in patch.items() if key != _PATCH}
        case "delete":
            return {}
        case unknown:
            raise PatchFailure(f"unknown patch type: {go_value(unknown)} in map: {go_value(patch)}")


def _child(node: Node, name: str) -> Node:
    return node.child(name) or ANY


def _retain(result: Object, patch: Object) -> None:
    keys = patch[_RETAIN]
    if not isinstance(keys, list):
        raise MalformedPatch("invalid patch format of retainKeys")
    for key, value in patch.items():
        if value is not None and not key.startswith("$") and key not in keys:
            raise Unprocessable(REFUSED)
    for key in list(result):
        if key not in keys:
            del result[key]


def _delete_from(result: Object, name: str, values: Json) -> None:
    if not isinstance(values, list):
        raise MalformedPatch("invalid patch format of primitive list")
    kept = [item for item in result.get(name) or () if item not in values]
    if kept:
        result[name] = kept
    elif name in result:
        result[name] = []


def _merge_field(result: Object, key: str, value: Json, node: Node) -> None:
    if value is None:
        result.pop(key, None)
        return
    current = result.get(key)
    if isinstance(value, dict) and isinstance(current, dict):
        result[key] = dict(_bare(value)) if "replace" in node.strategies else _merge_map(current, value, node)
    elif isinstance(value, list) and isinstance(current, list) and "merge" in node.strategies:
        result[key] = _merge_list(current, value, node)
    else:
        result[key] = _bare(value)


def _bare(value: Json) -> Json:
    """Return `value` without directives and, in objects, without nulls: the result of a patch on a missing value."""
    if isinstance(value, dict):
        if value.get(_PATCH) == "delete":
            return {}
        return {key: _bare(child) for key, child in value.items() if child is not None and not key.startswith(_DIRECTIVES)}
    if isinstance(value, list):
        return [
            _bare(item) for item in value if not (isinstance(item, dict) and item.get(_PATCH) in {"delete", "replace", "merge"})
        ]
    return value


def _identity(node: Node) -> _Identity:
    key = node.merge_key
    if not key:
        return lambda item: item

    def known(item: Json) -> Json:
        if not isinstance(item, dict):
            raise PatchFailure(f"expected a map[string]interface {{}}, but received a {type(item).__name__}")
        if key not in item:
            raise PatchFailure(f"map: {go_value(item)} does not contain declared merge key: {key}")
        return item[key]

    return known


def _merge_list(current: list[Json], patch: list[Json], node: Node) -> list[Json]:
    if not node.merge_key:
        merged = [*current, *(item for item in patch if item not in current)]
        return _in_order(_unique(merged), current, patch, lambda item: item)
    _check_items(current, patch)
    identity = _identity(node)
    plain: list[Json] = []
    replaces = False
    for item in patch:
        directive = item.get(_PATCH) if isinstance(item, dict) else None
        match directive:
            case None:
                plain.append(item)
            case "delete":
                gone = identity(item)
                current = [each for each in current if each.get(node.merge_key) != gone]
            case "replace":
                replaces = True
            case "merge":
                raise PatchFailure("merging lists cannot yet be specified in the patch")
            case _:
                raise PatchFailure(f"unknown patch type: {go_value(directive)} in map: {go_value(item)}")
    if replaces:
        return [_bare(item) for item in plain]
    merged = list(current)
    for item in plain:
        known = identity(item)
        at = next((index for index, each in enumerate(merged) if each.get(node.merge_key) == known), None)
        if at is None:
            merged.append(_bare(item))
        elif "replace" in node.strategies:
            merged[at] = _bare(item)
        else:
            merged[at] = _merge_map(merged[at], item, node.item)
    return _in_order(merged, current, plain, identity)


def _check_items(current: list[Json], patch: list[Json]) -> None:
    if current and not all(isinstance(item, dict) for item in patch):
        raise PatchFailure(f"list element types are not identical: {go_value([current, patch])}")


def _unique(items: list[Json]) -> list[Json]:
    result: list[Json] = []
    for item in items:
        if item not in result:
            result.append(item)
    return result


def _in_order(merged: list[Json], before: list[Json], wanted: list[Json], identity: _Identity) -> list[Json]:
    """Return `merged` with the items of `wanted` in that order, and all other items near their position in `before`.

    A new item comes before the existing items.
    """
    order = [identity(item) for item in wanted]
    was = [identity(item) for item in before]
    named = [item for item in merged if identity(item) in order]
    named.sort(key=lambda item: order.index(identity(item)))
    others = [item for item in merged if identity(item) not in order]
    result: list[Json] = []
    left = right = 0
    while left < len(others) or right < len(named):
        if left < len(others) and right < len(named):
            mine, theirs = identity(others[left]), identity(named[right])
            takes_other = mine in was and theirs in was and was.index(mine) < was.index(theirs)
        else:
            takes_other = left < len(others)
        if takes_other:
            result.append(others[left])
            left += 1
        else:
            result.append(named[right])
            right += 1
    return result


def _ordered(result: Object, patch: Object, name: str, order: Json, node: Node) -> None:
    """Sort a list into the order that the patch requires."""
    if not isinstance(order, list):
        raise MalformedPatch("invalid patch format of setElementOrder list")
    current, given = result.get(name), patch.get(name)
    if given is not None:
        _check_order(given, order, node)
    gone = patch.get(f"{_DELETE}{name}")
    if isinstance(gone, list) and isinstance(current, list):
        current = [item for item in current if item not in gone]
    if current is None and given is None:
        return
    if given is None:
        merged = list(current or ())
    elif current is None:
        merged = _bare(given)
    else:
        merged = _merge_list(current, given, node)
    result[name] = _in_order(merged, list(current or ()), order, _identity(node))


def _check_order(given: list[Json], order: list[Json], node: Node) -> None:
    """Reject items that are not in the required order. An empty order requires nothing."""
    identity = _identity(node)
    wanted = [item for item in given if not (isinstance(item, dict) and _PATCH in item)]
    named = iter(identity(item) for item in order)
    if order and not all(identity(item) in named for item in wanted):  # each search continues after the previous result
        raise PatchFailure(
            f"The order in patch list:\n{go_value(given)}\n doesn't match $setElementOrder list:\n{go_value(order)}\n"
        )

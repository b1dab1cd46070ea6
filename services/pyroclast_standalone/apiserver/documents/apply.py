"""Server-side apply: merges a configuration into an object, with ownership of fields and conflicts between owners.

Several managers each know a part of an object. A manager that leaves a field out of its next configuration wants the field
removed. A merge patch cannot tell "left out" from "never set". So `managedFields` has the set of fields that each manager
applied last. A field is removed when its only owner leaves it out, and stays while anybody else owns it. To change a field of
another owner is a conflict, unless the manager forces it.

An apply that changes nothing returns an object equal to the live one, so that repeated applies make no versions. The cost is
linear in the two documents, for each owner.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from pyroclast.resources.go_text import go_quote, go_value
from pyroclast_standalone.apiserver.documents import field_sets
from pyroclast_standalone.apiserver.documents.errors import ApplyConflict, Json, Object, PatchFailure, Undecodable
from pyroclast_standalone.apiserver.documents.field_sets import FieldSet, item_key, show_path
from pyroclast_standalone.apiserver.documents.managed_fields import (
    Owner,
    decode,
    encode,
    of_endpoint,
    owned,
    unmanaged,
    update_owners,
)
from pyroclast_standalone.apiserver.documents.schema import Node

_NUMBERS = {"integer", "number"}
_WANTED = {**dict.fromkeys(_NUMBERS, "numeric (int or float)"), "string": "string", "boolean": "boolean"}


def check_configuration(value: Json, schema: Node) -> list[str]:
    """Return the faults of `value`, each with its path (`.spec.replicas: expected numeric (int or float), got string`)."""
    problems: list[str] = []
    _check_value(value, schema, "", problems)
    return problems


def _check_value(value: Json, node: Node, path: str, problems: list[str]) -> None:
    if value is None or node.type == "any":
        return
    match node.type:
        case "scalar":
            if wrong := _scalar(value, node.primitive):
                problems.append(f"{path}: {wrong}")
        case "list":
            if not isinstance(value, list):
                problems.append(f"{path}: expected list, got {go_value(value)}")
            else:
                _check_items(value, node, path, problems)
        case _:
            if not isinstance(value, dict):
                problems.append(f"{path}: expected map, got {go_value(value)}")
                return
            for name, child in value.items():
                inner = node.child(name)
                own = f"{path}.{name}"
                if inner is None:
                    problems.append(f"{own}: field not declared in schema")
                    return
                _check_value(child, inner, own, problems)


def _check_items(values: list[Json], node: Node, path: str, problems: list[str]) -> None:
    associative = node.is_set or bool(node.keys)
    seen: set[str] = set()
    for index, item in enumerate(values):
        own = f"{path}[{index}]"
        if associative:
            key = item_key(item, node)
            if key is None:
                listed = " ".join(json.dumps(name) for name in node.keys)
                text = "associative list with keys has an element that omits all key fields"
                tail = "(and doesn't have default values for any key fields)"
                problems.append(f"{path}: element {index}: {text} [{listed}] {tail}")
                return
            own = path + show_path((key,))
            if key in seen:
                problems.append(f"{path}: duplicate entries for key {show_path((key,))}")
            seen.add(key)
        _check_value(item, node.item, own, problems)


def _scalar(value: Json, primitive: str) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    wanted = _WANTED.get(primitive, "any scalar")
    if isinstance(value, dict | list) or not {"string": isinstance(value, str), "boolean": isinstance(value, bool)}.get(
        primitive, is_number or primitive not in _NUMBERS
    ):
        return f"expected {wanted}, got {go_value(value)}"
    return ""


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
        if key == "." or not child:
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


_FORMER: Final = "before-first-apply"


def apply(
    live: Object | None,
    applied: Object,
    schema: Node,
    *,
    manager: str,
    api_version: str,
    now: str,
    force: bool = False,
    subresource: str = "",
) -> Object:
    """Return the object after `manager` applied `applied` to `live`, including managedFields. `live` is None for a new object.

    The arguments are not modified. The result shares values with both. An apply without changes returns an object equal to
    `live`.

    `api_version` and `subresource`: those of the endpoint. `now`: the time in RFC 3339, in whole seconds. `force`: whether
    `manager` takes over fields of other managers.
    """
    _check(applied, schema, api_version)
    before = unmanaged(live) if live is not None else _blank(applied, schema)
    owners = decode((live or {}).get("metadata", {}).get("managedFields"))
    if not owners and live is not None:
        former = Owner(_FORMER, "Update", api_version, {}, now, subresource)
        owners = update_owners([], {**schema.blank}, before, schema, former)
    applier = Owner(manager, "Apply", api_version, {}, now, subresource)
    after, result = _applied(before, applied, schema, owners, applier, force=force)
    metadata = dict(after.get("metadata") or {})
    entries = encode(result)
    if entries:
        metadata["managedFields"] = entries
    return {**after, "metadata": metadata}


def _check(applied: Object, schema: Node, api_version: str) -> None:
    given = applied.get("apiVersion", "")
    if given != api_version:
        raise Undecodable(
            f"Incorrect version specified in apply patch. Specified patch version: {given}, expected: {api_version}"
        )
    metadata = applied.get("metadata") or {}
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise Undecodable("metadata.managedFields must be nil")
    if problems := check_configuration(applied, schema):
        name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        group, _, version = given.rpartition("/")
        kind = f"{group}/{version}, Kind={applied.get('kind', '')}"
        text = problems[0] if len(problems) == 1 else "errors:\n" + "\n".join(f"  {problem}" for problem in problems)
        raise PatchFailure(f"failed to create typed patch object ({name}; {kind}): {text}")


def _blank(applied: Object, schema: Node) -> Object:
    blank = {name: value for name, value in schema.blank.items() if value is not None}
    return {**blank, "apiVersion": applied["apiVersion"], "kind": applied.get("kind")}


def _applied(
    before: Object, applied: Object, schema: Node, owners: list[Owner], applier: Owner, *, force: bool
) -> tuple[Object, list[Owner]]:
    """Return the merged and pruned object, and the owners of its fields."""
    by_identity = {owner.identity: owner for owner in owners}
    # 1. what the applier owned and what it wants to own
    last = by_identity.get(applier.identity)
    wanted = of_endpoint(field_sets.of_document(applied, schema), schema, applier.subresource)
    others = [owner for identity, owner in by_identity.items() if identity != applier.identity]
    # 2. the merged object, without what the applier left out and nobody else owns
    after = merge_configuration(before, applied, schema)
    if last is not None and last.fields:
        after = _pruned(after, schema, last.fields, [*(each.fields for each in others), wanted])
    # 3. conflicts: changed fields that others own
    change = field_sets.compare(before, after, schema)
    touched = field_sets.union(
        of_endpoint(change.added, schema, applier.subresource), of_endpoint(change.modified, schema, applier.subresource)
    )
    conflicts = [(owner, shared) for owner in others if (shared := field_sets.intersection(owner.fields, touched))]
    if conflicts and not force:
        raise _conflict(conflicts)
    # 4. the owners afterwards: others lose what was changed or removed
    kept = []
    for owner in others:
        fields = field_sets.difference(field_sets.difference(owner.fields, touched), change.removed)
        if fields:
            kept.append(owner.owning(fields))
    time = applier.time if before != after else last.time if last is not None else None
    return after, [*kept, msgspec.structs.replace(applier, fields=owned(wanted), time=time)]


def _pruned(merged: Object, schema: Node, last: FieldSet, owned_sets: Iterable[FieldSet]) -> Object:
    """Return `merged` without the fields that the applier set last time and that no manager sets now."""
    former = with_named_fields(last, schema)
    pruned = remove(merged, former, schema)
    everything = with_named_fields(field_sets.of_document(merged, schema), schema)
    kept = with_named_fields(field_sets.of_document(pruned, schema), schema)
    for each in owned_sets:
        kept = field_sets.union(kept, with_named_fields(each, schema))
    pruned = remove(merged, field_sets.difference(everything, kept), schema)
    left = with_named_fields(field_sets.of_document(pruned, schema), schema)
    gone = field_sets.intersection(field_sets.difference(everything, left), former)
    return dict(remove(merged, gone, schema))


def _shown(owner: Owner) -> str:
    text = go_quote(owner.manager)
    if owner.subresource:
        text += f" with subresource {go_quote(owner.subresource)}"
    if owner.operation == "Update":
        text += f" using {owner.api_version}"
    return text


def _conflict(conflicts: list[tuple[Owner, FieldSet]]) -> ApplyConflict:
    found: list[tuple[str, str]] = []
    for owner, shared in sorted(conflicts, key=lambda each: each[0].identity):
        found += [(_shown(owner), field_sets.show_path(path)) for path in field_sets.members(shared)]
    causes = [{"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path} for who, path in found]
    if len(found) == 1:
        who, path = found[0]
        return ApplyConflict(f"Apply failed with 1 conflict: conflict with {who}: {path}", causes=causes)
    lines: list[str] = []
    for who in dict.fromkeys(who for who, _ in found):
        lines.append(f"conflicts with {who}:")
        lines += [f"- {path}" for owner, path in found if owner == who]
    return ApplyConflict(f"Apply failed with {len(found)} conflicts: " + "\n".join(lines), causes=causes)

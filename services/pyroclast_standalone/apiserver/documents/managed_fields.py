"""Ownership of fields: `metadata.managedFields` after a create, an update or a patch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from pyroclast_standalone.apiserver.documents import field_sets
from pyroclast_standalone.apiserver.documents.errors import Json, Object
from pyroclast_standalone.apiserver.documents.field_sets import FieldSet
from pyroclast_standalone.apiserver.documents.schema import Node

_MEMBERS: Final = {"f:", "k:", "v:", "i:"}
_SYSTEM_METADATA: Final = frozenset(
    f"f:{name}"
    for name in (
        *("name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields"),
        "resourceVersion",
    )
)


class Owner(msgspec.Struct, frozen=True):
    """An entry of managedFields. `time` is in RFC 3339 or None."""

    manager: str
    operation: str
    api_version: str
    fields: FieldSet
    time: str | None = None
    subresource: str = ""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """The values by which entries of managedFields are distinguished. An applier has one entry for all API versions."""
        version = "" if self.operation == "Apply" else self.api_version
        return self.manager, self.operation, version, self.subresource

    def owning(self, fields: FieldSet) -> Owner:
        """Return the same entry of managedFields with `fields` as the owned fields."""
        return msgspec.structs.replace(self, fields=fields)

    def wire(self) -> Object:
        """Return this entry of managedFields as JSON."""
        entry: Object = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields,
        }
        if self.time is None:
            del entry["time"]
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


def decode(entries: Json) -> list[Owner]:
    """Return the owners in `metadata.managedFields`. Empty when an entry is invalid."""
    if not isinstance(entries, list) or not all(map(_is_readable, entries)):
        return []
    return _owners(entries)


def _owners(entries: list[Object]) -> list[Owner]:
    """Return the owners of valid entries."""
    return [
        Owner(
            entry.get("manager", ""),
            entry["operation"],
            entry.get("apiVersion", ""),
            entry["fieldsV1"],
            entry.get("time"),
            entry.get("subresource", ""),
        )
        for entry in entries
    ]


def _is_readable(entry: Json) -> bool:
    return (
        isinstance(entry, dict)
        and entry.get("operation") in {"Apply", "Update"}
        and entry.get("fieldsType") == "FieldsV1"
        and _is_field_set(entry.get("fieldsV1"))
    )


def _is_field_set(fields: Json) -> bool:
    return isinstance(fields, dict) and all(
        key == "." or (key[:2] in _MEMBERS and _is_field_set(below)) for key, below in fields.items()
    )


def encode(owners: Iterable[Owner]) -> list[Object]:
    """Return `metadata.managedFields` for `owners` in the API's order. Owners without fields are omitted."""
    kept = [owner for owner in owners if owner.fields]
    kept.sort(key=lambda each: (each.operation, each.time or "", each.manager, each.api_version, each.subresource))
    return [owner.wire() for owner in kept]


def owned(fields: FieldSet) -> FieldSet:
    """Return `fields` without the fields of the system, such as type, name and version."""
    result = {key: child for key, child in fields.items() if key not in {"f:apiVersion", "f:kind"}}
    metadata = result.get("f:metadata")
    if metadata is not None:
        kept = {key: child for key, child in metadata.items() if key != "." and key not in _SYSTEM_METADATA}
        if kept:
            result["f:metadata"] = kept
        else:
            del result["f:metadata"]
    return result


def _without(fields: FieldSet, paths: Iterable[str]) -> FieldSet:
    """Return `fields` without those at `paths` (`f:metadata/f:ownerReferences`)."""
    result = dict(fields)
    for path in paths:
        first, _, rest = path.partition("/")
        below = result.pop(first, {})
        if rest and (kept := _without(below, [rest])):
            result[first] = kept
    return result


def of_endpoint(fields: FieldSet, schema: Node, subresource: str) -> FieldSet:
    """Return `fields` without the fields that a write to this endpoint cannot change."""
    if not schema.splits_status:
        return fields
    if subresource == "status":
        return _without(fields, schema.kept_from_status)
    return {key: child for key, child in fields.items() if key != "f:status"} if "f:status" in fields else fields


def _given(new: Object, old: Object | None, subresource: str) -> list[Owner]:
    """Return the owners before the write: the stored ones, unless the request sets or clears them."""
    stored = old["metadata"].get("managedFields") or [] if old is not None else []
    asked = new["metadata"].get("managedFields")
    if subresource or asked == stored:
        return _owners(stored)
    if asked in ([], [{}]):
        return []
    return decode(asked) or _owners(stored)


def track_update(
    new: Object, old: Object | None, schema: Node, *, manager: str, api_version: str, now: str | None, subresource: str = ""
) -> None:
    """Set `new["metadata"]["managedFields"]` for a write by `manager` that changed `old` (None on create) to `new`.

    Other managers lose the changed and removed fields. `manager` gains the fields that it changed. `now` is the RFC 3339 time in
    whole seconds to record, or None. Only `metadata` of `new` is modified. Valid managedFields in the request replace the
    stored ones, except on a subresource. No entry, or one empty entry, clears the stored ones.
    """
    owners = _given(new, old, subresource)
    metadata = new["metadata"]
    metadata.pop("managedFields", None)
    if old is not None and not owners:
        return  # a cleared object has no owners until a client applies
    before = schema.blank if old is None else unmanaged(old)
    entries = encode(update_owners(owners, before, new, schema, Owner(manager, "Update", api_version, {}, now, subresource)))
    if entries:
        metadata["managedFields"] = entries


def unmanaged(document: Object) -> Object:
    """Return an object without its managedFields."""
    return {**document, "metadata": {name: each for name, each in document["metadata"].items() if name != "managedFields"}}


def update_owners(owners: list[Owner], before: Mapping[str, Json], after: Object, schema: Node, writer: Owner) -> list[Owner]:
    """Return the owners after `writer` changed `before` to `after`, both without managedFields."""
    change = field_sets.compare(before, after, schema)
    added, removed, modified = (
        of_endpoint(each, schema, writer.subresource) for each in (change.added, change.removed, change.modified)
    )
    touched = field_sets.union(added, modified)
    gained = owned(touched)
    if not owners:
        return [writer.owning(gained)] if gained else []
    result: dict[tuple[str, str, str, str], Owner] = {}
    for owner in owners:
        fields = owner.fields
        if touched:
            fields = field_sets.difference(fields, touched)
        if removed:
            fields = field_sets.difference(fields, removed)
        result[owner.identity] = owner if fields is owner.fields else owner.owning(fields)
    if gained:
        previous = result.get(writer.identity)
        fields = field_sets.union(previous.fields, gained) if previous is not None else gained
        result[writer.identity] = writer.owning(fields)
    return [owner for owner in result.values() if owner.fields]

"""Converts managedFields between an object and its Scale. As in kube-apiserver, a writer does not keep its own entry.

The entry of a plain writer is identified by the version that it writes. The Scale has another version, so that each scaling takes
over ownership from the object, even without a change. Of two entries of one writer, only the later one is used.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from pyroclast_standalone.apiserver.documents.field_sets import FieldSet
from pyroclast_standalone.apiserver.documents.managed_fields import Owner, decode, encode
from pyroclast_standalone.apiserver.documents.values import Json, Object

_SCALE: Final = "autoscaling/v1"
_REPLICAS: Final = ("f:spec", "f:replicas")


def of_scale(entries: Json, api_version: str, path: str) -> list[Object]:
    """Return `managedFields` of the Scale of an object whose replicas are at `path` (`.spec.replicas`)."""
    owned = [each for each in _distinct(entries).values() if each.api_version == api_version and _has(each.fields, _steps(path))]
    return encode(replace(each, api_version=_SCALE, fields=_only(_REPLICAS)) for each in owned)


def of_object(entries: Json, scale_entries: Json, api_version: str, path: str) -> list[Object]:
    """Return `managedFields` of the object after a write to its Scale, from its previous `entries` and the `scale_entries`."""
    before, scaled, steps = _distinct(entries), _distinct(scale_entries), _steps(path)
    result = []
    for identity, owner in before.items():
        is_apart = owner.api_version != api_version or not _has(owner.fields, steps)
        if is_apart or scaled.pop(identity, None) is not None:
            result.append(owner)
        elif kept := _without(owner.fields, steps):
            result.append(replace(owner, fields=kept))
    for identity, owner in scaled.items():
        if _has(owner.fields, _REPLICAS):
            time = before[identity].time if identity in before else None
            result.append(replace(owner, api_version=api_version, fields=_only(steps), time=time))
    return encode(result)


def _distinct(entries: Json) -> dict[tuple[str, str, str, str], Owner]:
    return {owner.identity: owner for owner in decode(entries)}


def _steps(path: str) -> tuple[str, ...]:
    return tuple(f"f:{step}" for step in path.strip(".").split("."))


def _only(steps: tuple[str, ...]) -> FieldSet:
    first, *rest = steps
    return {first: _only(tuple(rest)) if rest else {}}


def _has(fields: FieldSet, steps: tuple[str, ...]) -> bool:
    for step in steps:
        if step not in fields:
            return False
        fields = fields[step]
    return True


def _without(fields: FieldSet, steps: tuple[str, ...]) -> FieldSet:
    first, *rest = steps
    below = _without(fields[first], tuple(rest)) if rest else {}
    return {key: below if key == first else child for key, child in fields.items() if key != first or below}

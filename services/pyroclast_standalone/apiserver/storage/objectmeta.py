"""The metadata that only the server sets: UID, times, generated names, generation on deletion. Also detects empty changes."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from typing import Any, Final

from pyroclast_standalone import times

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"  # without vowels and look-alikes
_SUFFIX: Final = 5
_MAX_BASE: Final = 63 - _SUFFIX


def generate_name(base: str, rng: random.Random) -> str:
    """Return `base`, truncated if it is too long, with a random suffix."""
    return base[:_MAX_BASE] + "".join(rng.choices(_ALPHABET, k=_SUFFIX))


def complete(metadata: dict[str, Any], now: float) -> None:
    """Set the UID and the creation time in the metadata of a new object."""
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = times.rfc3339(now)
    metadata.pop("resourceVersion", None)


def drop_foreign(metadata: dict[str, Any]) -> None:
    """Remove the fields that no client may set in a posted object."""
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        metadata.pop(name, None)


_KEPT: Final = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def keep_system_fields(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    """Copy from `old` to `new` the metadata that an update cannot change. A wrong UID stays, so that validation rejects it."""
    for name in _KEPT:
        if name in old:
            new[name] = old[name]
    if "generation" in old:
        new["generation"] = old["generation"]
    else:
        new.pop("generation", None)
    if not new.get("uid"):
        new["uid"] = old["uid"]


def keep_items(metadata: dict[str, Any], field: str, items: list[Any]) -> None:
    """Set a list of the metadata, or remove the field if the list is empty."""
    if items:
        metadata[field] = items
    else:
        metadata.pop(field, None)


def mark_deleting(metadata: dict[str, Any], now: float) -> None:
    """Mark the object as deleted: it is removed when its finalizers are gone."""
    if metadata.get("deletionGracePeriodSeconds") is None and metadata.get("generation", 0) > 0:
        metadata["generation"] += 1
    if "deletionTimestamp" not in metadata or times.seconds_of(metadata["deletionTimestamp"]) > now:
        metadata["deletionTimestamp"] = times.rfc3339(now)
    metadata["deletionGracePeriodSeconds"] = 0


_ORDER: Final = (
    *("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"),
    *("deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers", "managedFields", "selfLink"),
)


def ordered(document: dict[str, Any], kind: str, api_version: str) -> dict[str, Any]:
    """Return `document` with its type first and its metadata in the usual order, as in the stored bytes."""
    metadata = document["metadata"]
    metadata.setdefault("resourceVersion", "")
    document["metadata"] = {name: metadata[name] for name in _ORDER if name in metadata}
    document.pop("kind", None)
    document.pop("apiVersion", None)
    return {"kind": kind, "apiVersion": api_version, **document}


def is_same(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Return whether `new` differs from `old` at most in the times of managedFields."""
    if new == old:
        return True
    left, right = new["metadata"], old["metadata"]
    if "managedFields" not in left or "managedFields" not in right:
        return False
    return _untimed(new) == _untimed(old)


def _untimed(document: Mapping[str, Any]) -> dict[str, Any]:
    metadata = dict(document["metadata"])
    metadata["managedFields"] = [
        {name: value for name, value in entry.items() if name != "time"} for entry in metadata["managedFields"]
    ]
    return {**document, "metadata": metadata}

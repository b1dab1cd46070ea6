"""Who submitted a Job, a JobFlow or a CronJob: written when it is created, by us, and not changed after.

What our own controllers make for an owner carries the owner's: they are the only ones who may say who somebody else was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.api import keys
from pyroclast.rules.errors import forbidden
from pyroclast.rules.values import mapping
from pyroclast.rules.verdicts import ALLOWED, Patch, Verdict, field_verdict

__all__ = ["is_ours", "restore", "stamp", "validate"]

PATH = f"metadata.annotations[{keys.SUBMITTED_BY}]"
POINTER = "/metadata/annotations/" + keys.SUBMITTED_BY.replace("/", "~1")


def is_ours(user: str, namespace: str) -> bool:
    """Whether a user is a program of ours: a ServiceAccount of the namespace that they run in."""
    return bool(namespace) and user.startswith(f"system:serviceaccount:{namespace}:")


def stamp(body: Mapping[str, Any], user: str, *, ours: bool) -> Patch:
    """Writes the user who creates `body`; what our own controllers say is left as it is."""
    if ours or not user:
        return []
    annotations = mapping(body.get("metadata")).get("annotations")
    if not isinstance(annotations, dict):
        return [{"op": "add", "path": "/metadata/annotations", "value": {keys.SUBMITTED_BY: user}}]
    return [] if annotations.get(keys.SUBMITTED_BY) == user else [{"op": "add", "path": POINTER, "value": user}]


def restore(body: Mapping[str, Any], old: Mapping[str, Any]) -> Patch:
    """Writes again who submitted `old`, where an update leaves that out: clients send their own manifest once more."""
    user = _said(old)
    return stamp(body, user, ours=False) if isinstance(user, str) and _said(body) is None else []


def validate(body: Mapping[str, Any], old: Mapping[str, Any] | None, user: str, *, ours: bool) -> Verdict:
    """Whether a request may leave behind what `body` says of who submitted it. `old` is None for a creation."""
    said = _said(body)
    allowed = said is None or said == user if old is None else said == _said(old)
    if ours or allowed:
        return ALLOWED
    why = "it tells who submitted this: it is written when that is created, and nobody may change it"
    return field_verdict([forbidden(PATH, why)])


def _said(body: Mapping[str, Any]) -> object:
    return mapping(mapping(body.get("metadata")).get("annotations")).get(keys.SUBMITTED_BY)

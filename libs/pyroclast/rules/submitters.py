"""Rules for the submitter, whom admission writes at the creation and nobody may change.

An object that a controller of Pyroclast creates for an owner has the submitter of the owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.api import keys
from pyroclast.rules.errors import forbidden
from pyroclast.rules.values import mapping
from pyroclast.rules.verdicts import ALLOWED, Patch, Verdict, field_verdict

PATH = f"metadata.annotations[{keys.SUBMITTED_BY}]"
POINTER = "/metadata/annotations/" + keys.SUBMITTED_BY.replace("/", "~1")


def is_ours(user: str, namespace: str) -> bool:
    """Whether a user is a program of Pyroclast: a ServiceAccount in the namespace of these programs."""
    return bool(namespace) and user.startswith(f"system:serviceaccount:{namespace}:")


def stamp(body: Mapping[str, Any], user: str, *, ours: bool) -> Patch:
    """Return the operations that write the user who creates `body`. A submitter written by Pyroclast's controllers stays."""
    if ours or not user:
        return []
    annotations = mapping(body.get("metadata")).get("annotations")
    if not isinstance(annotations, dict):
        return [{"op": "add", "path": "/metadata/annotations", "value": {keys.SUBMITTED_BY: user}}]
    return [] if annotations.get(keys.SUBMITTED_BY) == user else [{"op": "add", "path": POINTER, "value": user}]


def restore(body: Mapping[str, Any], old: Mapping[str, Any]) -> Patch:
    """Return the operations that write the submitter of `old` again when an update omits it, as applying a manifest does."""
    user = _said(old)
    return stamp(body, user, ours=False) if isinstance(user, str) and _said(body) is None else []


def validate(body: Mapping[str, Any], old: Mapping[str, Any] | None, user: str, *, ours: bool) -> Verdict:
    """Return the verdict on the submitter in `body`. `old` is None for a creation."""
    said = _said(body)
    allowed = said is None or said == user if old is None else said == _said(old)
    if ours or allowed:
        return ALLOWED
    why = "it tells who submitted this: it is written when that is created, and nobody may change it"
    return field_verdict([forbidden(PATH, why)])


def _said(body: Mapping[str, Any]) -> object:
    return mapping(mapping(body.get("metadata")).get("annotations")).get(keys.SUBMITTED_BY)

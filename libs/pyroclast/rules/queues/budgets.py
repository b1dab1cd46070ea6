"""Rules for the budget of a Queue, and for the annotations in which the recorder writes the queue's past use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.budgets import budget_faults
from pyroclast.rules.errors import FieldError, forbidden, invalid
from pyroclast.rules.values import mapping
from pyroclast.rules.verdicts import ALLOWED, Verdict, field_verdict

PATH: Final = f"metadata.annotations[{keys.QUEUE_BUDGET}]"
RECORDED: Final = (keys.QUEUE_BUDGET_SPENT, keys.QUEUE_PAST_USAGE)
"""Annotations that only the recorder may write."""

WRITTEN_BY_RECORDER: Final = "the recorder writes it; leave it as it is"
RECORDERS: Final = "-recorder"
"""The end of the names of the recorder's ServiceAccounts; the beginning is the name of the release."""


def check_budget(text: str | None) -> Iterator[FieldError]:
    """Yield the faults of the budget annotation, each with the path of the field inside the annotation."""
    for fault in budget_faults(text) if text is not None else ():
        yield invalid(f"{PATH}.{fault.path}" if fault.path else PATH, fault.value, fault.text)


def is_recorder(user: str, namespace: str) -> bool:
    """Whether a user is the recorder, which runs in `namespace`."""
    return bool(namespace) and user.startswith(f"system:serviceaccount:{namespace}:") and user.endswith(RECORDERS)


def path_of(key: str) -> str:
    """Return the path of an annotation."""
    return f"metadata.annotations[{key}]"


def validate_recorded(queue: Mapping[str, Any], old: Mapping[str, Any] | None, *, is_from_recorder: bool) -> Verdict:
    """Return the verdict on a request that writes the queue's past use. `old` is None for a creation."""
    if is_from_recorder:
        return ALLOWED
    now, before = _annotations(queue), _annotations(old or {})
    changed = [key for key in RECORDED if now.get(key) != before.get(key)]
    return field_verdict([forbidden(path_of(key), WRITTEN_BY_RECORDER) for key in changed]) if changed else ALLOWED


def _annotations(queue: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(queue.get("metadata")).get("annotations"))

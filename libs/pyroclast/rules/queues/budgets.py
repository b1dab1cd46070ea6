"""What can be said of the budget of a Queue, and who may write what was spent of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.budgets import budget_faults
from pyroclast.rules.errors import FieldError, forbidden, invalid
from pyroclast.rules.values import mapping
from pyroclast.rules.verdicts import ALLOWED, Verdict, field_verdict

__all__ = ["RECORDERS", "SPENT_PATH", "WRITTEN_BY_RECORDER", "check_budget", "is_recorder", "validate_spent"]

PATH: Final = f"metadata.annotations[{keys.QUEUE_BUDGET}]"
SPENT_PATH: Final = f"metadata.annotations[{keys.QUEUE_BUDGET_SPENT}]"
WRITTEN_BY_RECORDER: Final = "the recorder writes it; leave it as it is"
RECORDERS: Final = "-recorder"
"""How the names of the recorder's ServiceAccounts end; they begin with that of the release."""


def check_budget(text: str | None) -> Iterator[FieldError]:
    """What is wrong with the annotation, each with the field inside it."""
    for fault in budget_faults(text) if text is not None else ():
        yield invalid(f"{PATH}.{fault.path}" if fault.path else PATH, fault.value, fault.text)


def is_recorder(user: str, namespace: str) -> bool:
    """Whether a user is the recorder, which runs in `namespace`."""
    return bool(namespace) and user.startswith(f"system:serviceaccount:{namespace}:") and user.endswith(RECORDERS)


def validate_spent(queue: Mapping[str, Any], old: Mapping[str, Any] | None, *, is_from_recorder: bool) -> Verdict:
    """Whether a request may leave behind what `queue` says was spent. `old` is None for a creation."""
    if is_from_recorder or _said(queue) == (None if old is None else _said(old)):
        return ALLOWED
    return field_verdict([forbidden(SPENT_PATH, WRITTEN_BY_RECORDER)])


def _said(queue: Mapping[str, Any]) -> object:
    return mapping(mapping(queue.get("metadata")).get("annotations")).get(keys.QUEUE_BUDGET_SPENT)

"""Rules in CEL for the annotations in which the recorder writes a queue's past use: only the recorder may write them."""

from __future__ import annotations

from typing import Final

from pyroclast.rules.policies.model import Validation
from pyroclast.rules.policies.submitters import NAMESPACE
from pyroclast.rules.queues.budgets import RECORDED, RECORDERS, WRITTEN_BY_RECORDER, path_of

_USER: Final = "request.userInfo.username"
_RECORDER: Final = f"{_USER}.startsWith('system:serviceaccount:{NAMESPACE}:') && {_USER}.endsWith('{RECORDERS}')"


def _kept(key: str) -> Validation:
    new, old = (f"{each}.metadata.?annotations[?'{key}']" for each in ("object", "oldObject"))
    return Validation(
        f"only the recorder writes the annotation `{key.rpartition('/')[2]}`",
        f"({_RECORDER}) || (request.operation == 'UPDATE' ? {new} == {old} : !{new}.hasValue())",
        f"{path_of(key)}: Forbidden: {WRITTEN_BY_RECORDER}",
        operations=("CREATE", "UPDATE"),
    )


RECORDED_KEPT: Final = tuple(_kept(key) for key in RECORDED)

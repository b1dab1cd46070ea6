"""The rule about who writes what was spent of a budget, in CEL."""

from __future__ import annotations

from typing import Final

from pyroclast.api import keys
from pyroclast.rules.policies.model import Validation
from pyroclast.rules.policies.submitters import NAMESPACE
from pyroclast.rules.queues.budgets import RECORDERS, SPENT_PATH, WRITTEN_BY_RECORDER

__all__ = ["SPENT_KEPT"]

_USER: Final = "request.userInfo.username"
_RECORDER: Final = f"{_USER}.startsWith('system:serviceaccount:{NAMESPACE}:') && {_USER}.endsWith('{RECORDERS}')"
_NEW: Final = "object.metadata.?annotations[?'" + keys.QUEUE_BUDGET_SPENT + "']"
_OLD: Final = "oldObject.metadata.?annotations[?'" + keys.QUEUE_BUDGET_SPENT + "']"

SPENT_KEPT: Final = Validation(
    "what was spent of the budget is written by the recorder alone",
    f"({_RECORDER}) || (request.operation == 'UPDATE' ? {_NEW} == {_OLD} : !{_NEW}.hasValue())",
    f"{SPENT_PATH}: Forbidden: {WRITTEN_BY_RECORDER}",
    operations=("CREATE", "UPDATE"),
)

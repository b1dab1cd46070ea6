"""Which condition of a PodGroup tells why its Job waits."""

from __future__ import annotations

import msgspec
import pytest

from pyroclast.api.records import PodGroup
from pyroclast.lifecycle.job.waits import newest_condition

UNSCHEDULABLE = ("Unschedulable", "NotEnoughResources", "1/1 tasks in gang unschedulable")
SCHEDULED = ("Scheduled", "tasks in gang are ready to be scheduled", "")
CURRENT = ("Unschedulable", "NoNodeAllowed", "NoNodeAllowed: never: no node takes j-0")

CASES = {
    "nothing is said": ((), None),
    "what was said last": ([(UNSCHEDULABLE, 1)], UNSCHEDULABLE),
    "it is placed since": ([(UNSCHEDULABLE, 1), (SCHEDULED, 2)], None),
    "its pods ask for nothing, so it counts as scheduled": ([(SCHEDULED, 2), (CURRENT, 2)], CURRENT),
    "and it did before": ([(CURRENT, 1), (SCHEDULED, 2)], CURRENT),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_newest_condition_prefers_a_pending_reason_and_is_none_after_scheduling(
    case: tuple[list[tuple[tuple[str, str, str], int]], tuple[str, str, str] | None],
) -> None:
    said, want = case
    conditions = [
        {"type": kind, "status": "True", "reason": reason, "message": text, "lastTransitionTime": f"2026-01-01T00:00:0{at}Z"}
        for (kind, reason, text), at in said
    ]
    group = msgspec.convert({"metadata": {"name": "g"}, "status": {"conditions": conditions}}, PodGroup)
    assert newest_condition(group) == (None if want is None else (want[0], want[2]))

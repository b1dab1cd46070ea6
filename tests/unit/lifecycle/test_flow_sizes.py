"""The status of a flow of many Jobs stays small enough to be stored, and is none the less what decisions need."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyroclast.api.records import MOST_ROUNDS, FlowStatus
from pyroclast.lifecycle.flow.sizes import MOST_BYTES, fitted

AT = "2026-01-01T00:00:00Z"


def status(jobs: int, *, phases: int = 3, message: str = "") -> FlowStatus:
    names = [f"extract-and-transform-{number}" for number in range(jobs)]
    histories = [{"startTimestamp": AT, "endTimestamp": AT, "state": f"Phase{number}"} for number in range(phases)]
    condition = {"phase": "Failed", "createTime": AT, "completionTime": AT, "runningDuration": "1h0m5s", "message": message}
    body: dict[str, Any] = {
        "failedJobs": names,
        "conditions": {name: condition | {"taskStatusCount": {"t": {"phase": {"Failed": 3}}}} for name in names},
        "jobStatusList": [
            {
                "name": name,
                "state": "Failed",
                "startTimestamp": AT,
                "endTimestamp": AT,
                "retries": 2,
                "exitCode": 3,
                "podFailureRatio": "0.50",
                "pods": {"started": 4, "present": 4},
                "runningHistories": histories,
            }
            for name in names
        ],
    }
    return msgspec.convert(body, FlowStatus)


def test_what_fits_is_left_alone() -> None:
    of_500 = status(500)
    assert fitted(of_500) is of_500


@pytest.mark.parametrize(
    ("jobs", "phases", "message"), [(500, 50, ""), (500, 100, "x" * 5000), (MOST_ROUNDS, 10, ""), (MOST_ROUNDS, 10, "x" * 1000)]
)
def test_what_is_too_large_tells_less(jobs: int, phases: int, message: str) -> None:
    full = status(jobs, phases=phases, message=message)
    assert len(msgspec.json.encode(full)) > MOST_BYTES
    small = fitted(full)
    assert len(msgspec.json.encode(small)) <= MOST_BYTES
    assert fitted(small) == small
    assert small.failed_jobs == full.failed_jobs
    for one, other in zip(full.job_status_list, small.job_status_list, strict=True):
        assert one.running_histories[-1:] == other.running_histories[-1:]
        assert msgspec.structs.replace(one, running_histories=()) == msgspec.structs.replace(other, running_histories=())
    for name, condition in full.conditions.items():
        assert small.conditions[name].message[:49] == condition.message[:49]
        assert (small.conditions[name].phase, small.conditions[name].completion_time) == ("Failed", AT)

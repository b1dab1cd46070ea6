"""The status of a flow of many Jobs stays small enough to be stored, and is none the less what decisions need."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyroclast.api.records import MOST_ROUNDS, FlowJobCondition, FlowStatus
from pyroclast.lifecycle.flow.sizes import MOST_BYTES, fitted
from pyroclast.rules.jobflows import validate_create

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


def test_flow_status_within_the_size_limit_is_not_shortened() -> None:
    of_500 = status(500)
    assert fitted(of_500) is of_500


@pytest.mark.parametrize(
    ("jobs", "phases", "message"), [(500, 50, ""), (500, 100, "x" * 5000), (MOST_ROUNDS, 10, ""), (MOST_ROUNDS, 10, "x" * 1000)]
)
def test_oversized_flow_status_is_shortened_to_the_limit_and_keeps_the_last_phase_of_each_job(
    jobs: int, phases: int, message: str
) -> None:
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


@pytest.mark.parametrize("message", ["", "x" * 1000])
def test_a_flow_of_5000_entries_can_be_stored(message: str) -> None:
    names = [f"step-{number}" for number in range(5000)]
    entries = [
        {"name": name, "dependsOn": {"targets": names[at - 1 : at]}} if at else {"name": name} for at, name in enumerate(names)
    ]
    spec = {"flows": entries, "jobRetainPolicy": "retain"}
    assert validate_create({"metadata": {"name": "f", "namespace": "n"}, "spec": spec}).allowed
    full = status(5000, message=message)
    small = fitted(full)
    assert len(msgspec.json.encode(small)) + len(msgspec.json.encode(spec)) < 1_500_000
    assert fitted(small) == small
    for one, other in zip(full.job_status_list, small.job_status_list, strict=True):
        assert (one.name, one.state, one.end_timestamp, one.retries, one.exit_code, one.pods) == (
            other.name, other.state, other.end_timestamp, other.retries, other.exit_code, other.pods
        )  # fmt: skip


def test_shortest_flow_status_keeps_skipped_conditions_and_start_times_of_running_jobs() -> None:
    full = status(6000)
    running = msgspec.structs.replace(full.job_status_list[0], state="Running", end_timestamp=None)
    said = msgspec.convert({"s": {"phase": "Skipped", "reason": "ConditionFalse"}, "w": {"phase": "Waiting"}}, dict[str, Any])
    conditions = full.conditions | msgspec.convert(said, type=dict[str, FlowJobCondition])
    small = fitted(
        msgspec.structs.replace(
            full, conditions=conditions, job_status_list=(running, *full.job_status_list[1:]), next_jobs=("w",)
        )
    )
    assert {name: each.reason for name, each in small.conditions.items()} == {"s": "ConditionFalse"}
    assert small.job_status_list[0].start_timestamp == AT
    assert (small.failed_jobs, small.next_jobs) == ((), ())

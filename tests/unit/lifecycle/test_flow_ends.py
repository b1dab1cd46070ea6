"""What a flow knows of Jobs that are gone: whether their end is told, and how many of their pods failed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.api import keys
from pyroclast.api.records import MOST_ROUNDS, FlowJobCondition, FlowJobPods, FlowJobStatus, FlowStatus, Job, JobFlow
from pyroclast.lifecycle.flow.jobs import controlling_flow
from pyroclast.lifecycle.flow.sizes import MOST_BYTES, fitted
from pyroclast.lifecycle.flow.status import followed
from pyroclast.rules.jobflows import validate_create
from pyroclast_job_controller.job.expiry import end_is_recorded
from tests.unit.lifecycle.builders import NOW, decode
from tests.unit.lifecycle.test_flow_decisions import decided, entry, flow, job

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


DONE = {"jobStatusList": [{"name": "f-a", "state": "Completed"}]}


def of_try(number: int, phase: str, *, uid: str = "", created: str = "", **status: Any) -> Job:
    made = job("f-a", phase, uid=uid, **status)
    annotations = {keys.FLOW_RETRY: str(number)} if number else {}
    meta = msgspec.structs.replace(made.metadata, annotations=annotations)
    if created:
        meta = msgspec.structs.replace(meta, creation_timestamp=created)
    return msgspec.structs.replace(made, metadata=meta)


ENDS: dict[str, tuple[JobFlow | None, Job, bool]] = {
    "the status tells the end": (flow(entry("a"), phase="Running", status=DONE), of_try(0, "Completed"), True),
    "the status tells of a phase before": (
        flow(entry("a"), phase="Running", status={"jobStatusList": [{"name": "f-a", "state": "Running"}]}),
        of_try(0, "Completed"),
        False,
    ),
    "the status tells nothing": (flow(entry("a"), phase="Pending"), of_try(0, "Completed"), False),
    "the status tells of another Job": (
        flow(entry("a"), phase="Running", status={"jobStatusList": [{"name": "f-b", "state": "Completed"}]}),
        of_try(0, "Completed"),
        False,
    ),
    "the status tells of the try before": (
        flow(entry("a"), phase="Running", status={"jobStatusList": [{"name": "f-a", "state": "Failed"}]}),
        of_try(1, "Failed"),
        False,
    ),
    "the status tells of this try": (
        flow(entry("a"), phase="Running", status={"jobStatusList": [{"name": "f-a", "state": "Failed", "retries": 1}]}),
        of_try(1, "Failed"),
        True,
    ),
    "the flow has succeeded": (flow(entry("a"), phase="Succeed"), of_try(0, "Completed"), True),
    "the flow has failed": (flow(entry("a"), phase="Failed"), of_try(0, "Completed"), True),
    "the flow is being deleted": (
        flow(entry("a"), phase="Running", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        of_try(0, "Completed"),
        True,
    ),
    "the flow was made anew": (flow(entry("a"), phase="Running", metadata={"uid": "v"}), of_try(0, "Completed"), True),
    "the flow is gone": (None, of_try(0, "Completed"), True),
}


@pytest.mark.parametrize(("of", "ended", "want"), ENDS.values(), ids=ENDS.keys())
def test_job_end_is_recorded_if_the_flow_status_has_it_or_the_flow_no_longer_needs_it(
    of: JobFlow | None, ended: Job, want: bool
) -> None:
    assert end_is_recorded(of, ended) is want


def test_flow_of_a_job_is_its_controller_owner_and_not_its_label() -> None:
    assert str(controlling_flow(job("f-a", "Completed"))) == "n/f"
    labelled = decode({"metadata": {"name": "j", "namespace": "n", "labels": {keys.CREATED_BY_JOB_FLOW: "n.f"}}}, Job)
    assert controlling_flow(labelled) is None


def test_flow_status_written_after_a_job_finished_records_its_end() -> None:
    ended = job("f-a", "Completed")
    status = decided(flow(entry("a"), entry("b", "a"), phase="Running"), {"a": ended}).status
    assert status is not None
    assert end_is_recorded(msgspec.structs.replace(flow(entry("a"), entry("b", "a")), status=status), ended)


Look = tuple[Job, str, FlowJobPods | None]

LOOKS: dict[str, list[Look]] = {
    "no pod has started": [(of_try(0, "Pending"), "", None)],
    "pods start and fail": [
        (of_try(0, "Running", running=3), "0.00", FlowJobPods(started=3, present=3)),
        (of_try(0, "Running", running=2, failed=1), "0.33", FlowJobPods(started=3, failed=1, present=3, present_failed=1)),
    ],
    "a restart of the Job counts all its pods again": [
        (of_try(0, "Running", running=1, failed=1), "0.50", FlowJobPods(started=2, failed=1, present=2, present_failed=1)),
        (of_try(0, "Restarting", terminating=2), "0.50", FlowJobPods(started=2, failed=1)),
        (of_try(0, "Running", running=2), "0.25", FlowJobPods(started=4, failed=1, present=2)),
        (of_try(0, "Completed", succeeded=2), "0.25", FlowJobPods(started=4, failed=1, present=2)),
    ],
    "a pod that replaces a failed one has started, though its start was not seen": [
        (of_try(0, "Running", running=2, failed=1), "0.33", FlowJobPods(started=3, failed=1, present=3, present_failed=1)),
        (of_try(0, "Running", running=3), "0.25", FlowJobPods(started=4, failed=1, present=3)),
    ],
    "a Job that drops its counters with its end keeps what was counted": [
        (of_try(0, "Running", running=1, failed=1), "0.50", FlowJobPods(started=2, failed=1, present=2, present_failed=1)),
        (of_try(0, "Failed"), "0.50", FlowJobPods(started=2, failed=1)),
    ],
    "a retry is another Job": [
        (of_try(0, "Failed", failed=2), "1.00", FlowJobPods(started=2, failed=2, present=2, present_failed=2)),
        (of_try(1, "Running", running=2), "0.50", FlowJobPods(started=4, failed=2, present=2)),
        (of_try(1, "Failed", failed=1, succeeded=1), "0.75", FlowJobPods(started=4, failed=3, present=2, present_failed=1)),
    ],
    "a Job that was deleted by hand and made again is another Job": [
        (of_try(0, "Running", running=2), "0.00", FlowJobPods(started=2, present=2)),
        (
            of_try(0, "Running", created="2026-01-01T00:00:01Z", running=1, failed=1),
            "0.25",
            FlowJobPods(started=4, failed=1, present=2, present_failed=1),
        ),
    ],
    "a pod whose state is unknown has started once": [
        (of_try(0, "Running", running=2), "0.00", FlowJobPods(started=2, present=2)),
        (of_try(0, "Running", running=1, unknown=1), "0.00", FlowJobPods(started=2, present=2)),
        (of_try(0, "Running", running=2), "0.00", FlowJobPods(started=2, present=2)),
    ],
}


@pytest.mark.parametrize("looks", LOOKS.values(), ids=LOOKS.keys())
def test_pod_failure_ratio_counts_the_pods_of_all_retries_and_restarts(looks: list[Look]) -> None:
    told: FlowJobStatus | None = None
    for seen, ratio, pods in looks:
        told = followed(seen, told, NOW, {})
        assert (told.pod_failure_ratio, told.pods) == (ratio, pods)


_COUNTS = st.fixed_dictionaries({name: st.integers(0, 5) for name in ("running", "succeeded", "failed", "unknown")})


@given(st.lists(st.tuples(st.integers(0, 3), _COUNTS), max_size=8))
def test_repeated_observation_counts_no_pod_twice_and_pod_totals_never_decrease(looks: list[tuple[int, dict[str, int]]]) -> None:
    told: FlowJobStatus | None = None
    before = FlowJobPods()
    tries = 0
    for more, counts in looks:
        tries = max(tries, more)
        seen = of_try(tries, "Running", **counts)
        told = followed(seen, told, NOW, {})
        assert followed(seen, told, NOW, {}) == told
        pods = told.pods or FlowJobPods()
        assert pods.started >= max(before.started, sum(counts.values()))
        assert pods.started >= pods.failed >= before.failed
        before = pods

"""What a flow knows of Jobs that are gone: whether their end is told, and how many of their pods failed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.api import keys
from pyroclast.api.records import FlowJobPods, FlowJobStatus, Job, JobFlow
from pyroclast.lifecycle.flow.jobs import controlling_flow
from pyroclast.lifecycle.flow.status import followed
from pyroclast_job_controller.job.expiry import end_is_recorded
from tests.unit.lifecycle.builders import NOW, decode
from tests.unit.lifecycle.test_flow_decisions import decided, entry, flow, job

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

"""The words in which `pyroclast run` shows the progress of a Job."""

from __future__ import annotations

import msgspec
import pytest

from pyroclast.api.records import HyperJob, Job, Pod, PodGroup
from pyroclast_standalone.following import Progress, hyper_job_progress, pod_progress, progress


def job(phase: str = "", *, message: str = "", reason: str = "") -> Job:
    raw = {
        "metadata": {"name": "j", "namespace": "n"},
        "spec": {"queue": "q"},
        "status": {"state": {"phase": phase, "message": message, "reason": reason}},
    }
    return msgspec.convert(raw, Job)


def group(phase: str, *reasons: str) -> PodGroup:
    conditions = [{"type": "Unschedulable", "status": "True", "message": reason} for reason in reasons]
    return msgspec.convert({"metadata": {"name": "g"}, "status": {"phase": phase, "conditions": conditions}}, PodGroup)


def pod(task: str, phase: str, node: str = "") -> Pod:
    raw = {
        "metadata": {"name": "p", "annotations": {"volcano.sh/task-spec": task}},
        "spec": {"nodeName": node},
        "status": {"phase": phase},
    }
    return msgspec.convert(raw, Pod)


CASES = {
    "nothing yet": (job(), None, [], Progress("Pending", "waits for its PodGroup")),
    "not taken in": (job("Pending"), group("Pending"), [], Progress("Pending", "waits for queue q to take it in")),
    "not taken in, and why": (
        job("Pending"),
        group("Pending", "quota used up"),
        [],
        Progress("Pending", "waits for queue q to take it in: quota used up"),
    ),
    "no pods yet": (job("Pending"), group("Inqueue"), [], Progress("Pending", "its pods are being created")),
    "a claim is missing": (
        job("Pending", message="pvc c is not found", reason="VolumeClaimNotFound"),
        None,
        [],
        Progress("Pending", "waits for its PodGroup: pvc c is not found"),
    ),
    "pods are refused": (
        job("Pending", message="waits: no PriorityClass x", reason="NotEnoughPods"),
        group("Inqueue", "PodsMissing: its gang is not complete yet: 0 pods of at least 1 are there"),
        [],
        Progress("Pending", "its pods are being created: no PriorityClass x"),
    ),
    "the PodGroup is sooner": (
        job("Pending", message="waits: NodesFull: not now: 1 cpu", reason="NotEnoughPods"),
        group("Inqueue", "1/1 tasks in gang unschedulable NodesFull: not now: 2 cpu"),
        [pod("w", "Pending")],
        Progress("Pending", "1 of 1 pods wait for nodes: NodesFull: not now: 2 cpu"),
    ),
    "no room": (
        job("Pending"),
        group("Inqueue", "2/2 tasks in gang unschedulable"),
        [pod("w", "Pending"), pod("w", "Pending")],
        Progress("Pending", "2 of 2 pods wait for nodes: 2/2 tasks in gang unschedulable"),
    ),
    "bound": (
        job("Pending"),
        group("Running"),
        [pod("w", "Pending", "n1"), pod("l", "Running", "n1")],
        Progress("Pending", "pods are starting: l 1 Running, w 1 Pending"),
    ),
    "runs": (
        job("Running"),
        group("Running"),
        [pod("w", "Succeeded", "n1"), pod("w", "Running", "n1")],
        Progress("Running", "w 1 Running 1 Succeeded"),
    ),
    "failed, and why": (
        job("Failed", message="task w: pod j-w-0 ended with exit code 3"),
        group("Running"),
        [pod("w", "Failed", "n1")],
        Progress("Failed", "task w: pod j-w-0 ended with exit code 3 · w 1 Failed"),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_job_progress_shows_the_phase_and_why_the_job_waits_or_failed(
    case: tuple[Job, PodGroup | None, list[Pod], Progress],
) -> None:
    found_job, found_group, pods, want = case
    assert progress(found_job, found_group, pods) == want


@pytest.mark.parametrize(("phase", "want"), [("Completed", True), ("Failed", True), ("Terminated", True), ("Running", False)])
def test_progress_is_finished_only_in_a_terminal_phase(phase: str, *, want: bool) -> None:
    assert Progress(phase, "").is_finished is want


@pytest.mark.parametrize(("phase", "want"), [("Completed", True), ("Succeed", True), ("Succeeded", True), ("Aborted", False)])
def test_progress_is_successful_only_in_a_completed_phase(phase: str, *, want: bool) -> None:
    assert Progress(phase, "").is_successful is want


PODS = {
    "waits": ({"phase": "Pending", "conditions": [{"status": "False", "message": "no room"}]}, Progress("Pending", "no room")),
    "image": (
        {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
        Progress("Pending", "ImagePullBackOff"),
    ),
    "failed": (
        {"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 4}}}]},
        Progress("Failed", "container c ended with exit code 4"),
    ),
    "evicted": ({"phase": "Failed", "message": "the node was low on memory"}, Progress("Failed", "the node was low on memory")),
}


@pytest.mark.parametrize("case", PODS.values(), ids=PODS.keys())
def test_pod_progress_shows_why_the_pod_waits_or_failed(case: tuple[dict[str, object], Progress]) -> None:
    status, want = case
    assert pod_progress(msgspec.convert({"status": status}, Pod)) == want


HYPER_JOBS = {
    "not placed": ({"Placed": "False"}, {}, "Pending"),
    "runs": ({"Placed": "True", "Available": "True"}, {"a": "Running", "b": "Running"}, "Running"),
    "done": ({"Completed": "True"}, {"a": "Completed", "b": "Completed"}, "Completed"),
    "failed": ({"Completed": "False", "Failed": "True"}, {"a": "Failed", "b": "Running"}, "Failed"),
    "ended with enough": ({"Available": "True", "Failed": "False"}, {"a": "Completed", "b": "Failed"}, "Completed"),
    "ended with too few": ({"Available": "False", "Failed": "False"}, {"a": "Completed", "b": "Aborted"}, "Failed"),
}


@pytest.mark.parametrize("case", HYPER_JOBS.values(), ids=HYPER_JOBS.keys())
def test_hyper_job_progress_derives_its_phase_from_conditions_and_jobs(case: tuple[dict[str, str], dict[str, str], str]) -> None:
    conditions, jobs, want = case
    raw = {
        "spec": {"replicatedJobs": [{"name": "r", "replicas": 2}]},
        "status": {
            "conditions": [{"type": type_, "status": status} for type_, status in conditions.items()],
            "replicatedJobsStatus": [{"name": "r", "jobStates": {name: {"phase": phase} for name, phase in jobs.items()}}],
        },
    }
    found = hyper_job_progress(msgspec.convert(raw, HyperJob))
    assert found.phase == want
    assert found.branches == tuple((name, Progress(phase, "")) for name, phase in jobs.items())

"""The words in which `pyroclast run` shows the progress of a Job."""

from __future__ import annotations

import msgspec
import pytest

from pyroclast.api.records import Job, Pod, PodGroup
from pyroclast_standalone.following import Progress, progress


def job(phase: str = "", *, message: str = "") -> Job:
    raw = {
        "metadata": {"name": "j", "namespace": "n"},
        "spec": {"queue": "q"},
        "status": {"state": {"phase": phase, "message": message}},
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
def test_progress(case: tuple[Job, PodGroup | None, list[Pod], Progress]) -> None:
    found_job, found_group, pods, want = case
    assert progress(found_job, found_group, pods) == want


@pytest.mark.parametrize(("phase", "want"), [("Completed", True), ("Failed", True), ("Terminated", True), ("Running", False)])
def test_finished(phase: str, *, want: bool) -> None:
    assert Progress(phase, "").is_finished is want

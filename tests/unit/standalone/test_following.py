"""The words in which `pyroclast run` shows the progress of a Job, and the tree of a flow."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest

from pyroclast.api.records import HyperJob, Job, JobFlow, Pod, PodGroup
from pyroclast_standalone.following import (
    MOST_LEVELS,
    Display,
    Progress,
    flow_progress,
    hyper_job_progress,
    pod_progress,
    progress,
    tree_lines,
)


def flow(*entries: dict[str, Any], phase: str = "Running", **conditions: tuple[str, str]) -> JobFlow:
    told = {f"f-{name}": {"phase": phase, "message": message} for name, (phase, message) in conditions.items()}
    raw = {"metadata": {"name": "f"}, "spec": {"flows": list(entries)}, "status": {"state": {"phase": phase}, "conditions": told}}
    return msgspec.convert(raw, JobFlow)


def entry(name: str, *targets: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "dependsOn": {"targets": list(targets)}, **more}


def test_flow_tree_shows_entries_below_their_dependencies() -> None:
    found = flow(
        entry("a"),
        entry("b", "a"),
        entry("d", "a", "c"),
        entry("c", "b"),
        entry("chosen"),
        entry("e", switch={"on": "a", "cases": [{"exitCode": 1, "entries": ["chosen"]}]}),
        a=("Completed", ""),
        b=("Waiting", "waits for a to complete"),
        chosen=("Skipped", "not chosen"),
    )
    assert tree_lines(flow_progress(found, {})) == [
        "          └─ a             Completed",
        "             ├─ b          Waiting     waits for a to complete",
        "             │  └─ c       Waiting",
        "             │     └─ d    Waiting",
        "             └─ e          Waiting",
        "                └─ chosen  Skipped     not chosen",
    ]
    assert str(flow_progress(found, {})) == "Running     1 of 6 entries completed, 1 skipped"


def test_flow_progress_shows_the_jobs_of_entries_and_loop_rounds() -> None:
    found = flow(entry("a"), entry("a-1"), entry("loop", **{"for": {"count": 2}}), a=("Running", ""), loop=("Running", "1 of 2"))
    jobs = {
        "f-a": Progress("Running", "t 1 Running"),
        "f-a-1": Progress("Pending", "waits"),
        "f-loop-1": Progress("Pending", "new"),
        "f-loop-0": Progress("Completed", ""),
    }
    assert flow_progress(found, jobs).branches == (
        ("a", Progress("Running", "t 1 Running")),
        ("a-1", Progress("Pending", "waits")),
        ("loop", Progress("Running", "1 of 2", (("round 0", jobs["f-loop-0"]), ("round 1", jobs["f-loop-1"])))),
    )


def test_retried_flow_entry_is_shown_as_retrying() -> None:
    found = flow(entry("a"), a=("Retrying", "again in 10 s"))
    assert flow_progress(found, {"f-a": Progress("Failed", "")}).branches == (("a", Progress("Retrying", "again in 10 s")),)


def test_flow_with_a_dependency_cycle_shows_all_entries() -> None:
    assert [name for name, _ in flow_progress(flow(entry("a", "b"), entry("b", "a")), {}).branches] == ["a", "b"]


def test_display_prints_only_changed_branches_and_all_branches_at_the_end() -> None:
    out, now = io.StringIO(), [0.0]
    display = Display(out, clock=lambda: now[0])
    waits, runs, done = (Progress(phase, "") for phase in ("Waiting", "Running", "Completed"))
    steps = [(0.0, runs, waits), (2.0, done, waits), (2.1, done, Progress("Waiting", "for it")), (4.0, done, runs)]
    shown = [display.show("n/f", Progress("Running", "", (("a", a), ("b", b)))) for now[0], a, b in steps]
    assert shown == [True, True, False, True]
    now[0] = 5.0
    display.show("n/f", Progress("Succeed", "", (("a", done), ("b", done))))
    assert out.getvalue().splitlines() == [
        "   0.0 s  n/f  Running",
        "          ├─ a  Running",
        "          └─ b  Waiting",
        "   2.0 s  n/f  Running",
        "          ├─ a  Completed",
        "   4.0 s  n/f  Running",
        "          └─ b  Running",
        "   5.0 s  n/f  Succeed",
        "          ├─ a  Completed",
        "          └─ b  Completed",
    ]


def test_flow_tree_of_a_long_chain_has_a_limited_depth() -> None:
    lines = tree_lines(flow_progress(flow(entry("e0"), *(entry(f"e{at}", f"e{at - 1}") for at in range(1, 1000))), {}))
    indents = [line.index("─ e") for line in lines]
    assert len(lines) == 1000
    assert indents == [indents[0] + 3 * min(at, MOST_LEVELS - 1) for at in range(1000)]


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

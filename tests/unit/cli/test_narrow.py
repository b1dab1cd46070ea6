"""Lists on a narrow terminal, Jobs in every state, and queues as a table of need."""

from __future__ import annotations

import pytest

from pyroclast.views.jobs import waiter_of
from pyroclast.views.queues import need_rows
from pyroclast.views.rows import job_rows
from pyroclast_cli.views.output import Column, fitting
from pyroclast_cli.views.waiting import JOBS_COLUMNS, RUNNING_COLUMNS, WAITING_COLUMNS

AT = "2026-01-01T00:00:00Z"
NOW = 1767229200.0  # an hour later
WAITS = {
    "position": 12,
    "namespace": "team-of-speech",
    "name": "train-llm-of-speech",
    "queue": "research",
    "priority": "urgent",
    "pods": 64,
    "asks": {"nvidia.com/gpu": "64", "cpu": "384", "memory": "2Ti"},
    "waitedSeconds": 7200,
    "code": "NoNodeBigEnough",
    "start": ["2026-01-01T14:20:00Z", AT, "2026-01-01T18:40:00Z"],
}


def width(columns: list[Column], row: dict) -> int:
    return sum(max(len(each.header), len(each.cell(row))) + 3 for each in columns) - 3


@pytest.mark.parametrize(
    ("columns", "keeps"), [(80, {"NAME", "CODE", "START"}), (120, {"NAME", "CODE", "START", "QUEUE", "WAITED"})]
)
def test_waiting_fits_a_terminal_and_keeps_code_and_start(columns: int, keeps: set[str]) -> None:
    shown = [each for each in WAITING_COLUMNS if not each.is_wide]
    kept, left = fitting(shown, [WAITS], columns)
    assert width(kept, WAITS) <= columns
    assert keeps <= {each.header for each in kept}
    assert [each for each in shown if each in kept or each in left] == shown
    assert fitting(shown, [WAITS], 1000) == (shown, [])


def test_names_and_states_are_never_left_out() -> None:
    for columns in (WAITING_COLUMNS, RUNNING_COLUMNS, JOBS_COLUMNS):
        kept, _ = fitting(columns, [WAITS], 1)
        assert "NAME" in {each.header for each in kept}
        assert {"CODE", "HEALTH", "WHY"} & {each.header for each in kept}


def job(name: str, phase: str, message: str = "", **spec: object) -> dict:
    meta = {"namespace": "t", "name": name, "uid": name, "creationTimestamp": AT}
    meta["annotations"] = {"pyroclast.dev/submitted-by": "ann"}
    state = {"phase": phase, "message": message, "lastTransitionTime": AT}
    return {"metadata": meta, "spec": {"tasks": [{"replicas": 2}], **spec}, "status": {"state": state, "running": 1}}


def test_jobs_in_every_state_say_where_they_stand() -> None:
    given = [
        job("bad", "Failed", "pod bad-0 failed with exit code 3"),
        job("late", "Pending", "waits: QueueFull: not now: it is full"),
        job("runs", "Running", runningEstimate="2h"),
        job("sick", "Running", "x; waits: Crashing: 2 pods restart"),
    ]
    rows = {row["name"]: row for row in job_rows((waiter_of(each, None, None) for each in given), NOW)}
    assert list(rows) == ["runs", "sick", "late", "bad"], "those that run, those that wait, those that ended"
    assert rows["runs"]["note"].startswith("ends ~")
    assert rows["sick"]["note"] == "Crashing: 2 pods restart"
    assert rows["late"]["note"] == "QueueFull: not now: it is full"
    assert "exit code 3" in rows["bad"]["note"]
    assert (rows["bad"]["user"], rows["bad"]["sinceSeconds"]) == ("ann", 3600)


def queue(name: str, parent: str = "root", allocated: int = 0, deserved: int | None = None) -> dict:
    spec = {"parent": parent, **({"deserved": {"cpu": str(deserved)}} if deserved is not None else {})}
    return {"metadata": {"name": name}, "spec": spec, "status": {"state": "Open", "allocated": {"cpu": str(allocated)}}}


def group(of: str, phase: str) -> dict:
    return {"metadata": {"creationTimestamp": AT}, "spec": {"queue": of}, "status": {"phase": phase}}


def test_starved_queues_are_first_and_parents_count_the_queues_below_them() -> None:
    queues = [
        queue("root", parent=""),
        queue("dept", allocated=6, deserved=4),
        queue("hungry", parent="dept", allocated=2, deserved=8),
        queue("fed", parent="dept", allocated=4, deserved=4),
        queue("idle", deserved=4),
    ]
    groups = [group("hungry", "Pending"), group("hungry", "Inqueue"), group("fed", "Running"), group("hungry", "Running")]
    rows = {row["name"]: row for row in need_rows(queues, groups, NOW)}
    assert list(rows) == ["hungry", "dept", "root", "fed", "idle"]
    assert [row["need"] for row in rows.values()] == ["starved", "waits", "waits", "served", "idle"]
    assert (rows["dept"]["waiting"], rows["dept"]["running"], rows["dept"]["oldestSeconds"]) == (2, 2, 3600)
    assert (rows["hungry"]["share"], rows["idle"]["share"]) == (0.25, 0.0)
    circle = [queue("a", parent="b"), queue("b", parent="a")]
    assert {row["name"] for row in need_rows(circle, [], NOW)} == {"a", "b"}

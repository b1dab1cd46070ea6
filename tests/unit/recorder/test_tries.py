"""The tries of a Job: each has its own wait, run and end."""

from __future__ import annotations

from typing import Any

import pytest

from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import job_phases, jobs, pods
from pyroclast_recorder.reading.outcomes import tries_of
from pyroclast_recorder.reading.queries import history, tries
from pyroclast_recorder.reading.questions import history_question

from .conftest import ON_SQLITE, write

T0 = 1_795_521_600
JOB = {"uid": "u", "namespace": "team", "name": "train", "queue": "red", "submitted_by": "ann", "created": T0, "gang_size": 1}


def phases(text: str) -> list[dict[str, Any]]:
    """Phases as `SECONDS NAME, …`."""
    parts = (each.split() for each in text.split(", ") if each)
    return [{"at": T0 + int(at), "name": name, "message": None} for at, name in parts]


@pytest.mark.parametrize(
    ("columns", "of_job", "want"),
    [
        ({}, "", [(0, 900, None, "now")]),
        ({"started": T0 + 5, "ended": T0 + 50}, "", [(0, 5, 45, "now")]),
        ({"ended": T0 + 50}, "0 Pending, 5 Running, 50 Completed", [(0, 5, 45, "now")]),
        ({"removed": T0 + 50}, "0 Pending", [(0, 50, None, "now")]),
        (
            {},
            "0 Pending, 1 Running, 60 Restarting, 62 Pending, 300 Running, 400 Restarting, 400 Pending",
            [(0, 1, 59, "Restarted"), (60, 240, 100, "Restarted"), (400, 500, None, "now")],
        ),
        (
            {"ended": T0 + 700},
            "0 Pending, 10 Running, 60 Aborting, 61 Aborted, 500 Restarting, 501 Pending, 600 Running, 700 Failed",
            [(0, 10, 51, "Aborted"), (500, 100, 100, "now")],
        ),
        ({}, "0 Pending, 5 Restarting, 6 Running", [(0, 5, None, "Restarted"), (5, 1, 894, "now")]),
    ],
    ids=["waits", "no phases", "one try", "removed while it waited", "restarts", "suspended and resumed", "restart of a wait"],
)
def test_each_try_has_its_own_wait_and_run(columns: dict[str, Any], of_job: str, want: list[tuple[Any, ...]]) -> None:
    job = {"started": None, "ended": None, "removed": None, **JOB, **columns}
    now = T0 + 900
    found = tries_of(job, phases(of_job), "now")
    assert [(each.since - T0, each.waited(now), each.ran(now), each.state) for each in found] == want


@ON_SQLITE
async def test_a_job_with_three_restarts_adds_up_its_waits_and_runs_and_keeps_why_each_try_ended(database: Database) -> None:
    """Each event of the Job has one condition for each phase, so an event alone knows only the last try."""
    rows: list[Any] = [(jobs, 9, {**JOB, "phase": "Completed", "retries": 3, "started": T0 + 1, "ended": T0 + 3660})]
    for number in range(4):
        at = T0 + 1000 * number
        for later, name in enumerate(("Pending", "Running")):
            rows.append((job_phases, 3 * number + later, {"job": "u", "at": at + later * (60 * number + 1), "name": name}))
        if number < 3:
            why = {"job": "u", "at": at + 1000, "name": "Restarting"}
            rows += [(job_phases, 3 * number + 2, {**why, "message": "PodFailed: w-0"}), (job_phases, 3 * number + 3, why)]
        rows.append((pods, 1, {"uid": f"p{number}", "job": "u", "namespace": "team", "name": "w-0", "node": f"n{number}",
                               "job_version": number, "created": at, "requests": "{}", "evicted_for": "x",
                               "released_high": at + 999}))  # fmt: skip
    rows.append((job_phases, 9, {"job": "u", "at": T0 + 3660, "name": "Completed"}))
    await write(database, rows, T0 + 4000)
    async with database.reading() as connection:
        (found,) = await tries(connection, database.cluster, "team", "train", T0 + 4000)
        (listed,), _ = await history(connection, database.cluster, history_question({}, T0 + 4000), ["team"], T0 + 4000)
    waits, runs = [1, 61, 121, 181], [999, 939, 879, 479]
    assert [(each["waitedSeconds"], each["ranSeconds"]) for each in found["tries"]] == list(zip(waits, runs, strict=True))
    assert [(each["state"], each["message"]) for each in found["tries"]] == [("Restarted", "PodFailed: w-0")] * 3 + [
        ("Completed", None)
    ]
    assert [each["pods"] for each in found["tries"]] == [1, 1, 1, 1]
    assert [each["try"] for each in found["evictions"]] == [1, 2, 3, 4]
    assert (listed["waitedSeconds"], listed["elapsedSeconds"]) == (sum(waits), sum(runs)), "the list says the same"

"""CompositePodGroups: how long all that is below one ran, which is told by the keys that the scheduler asks for."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from sqlalchemy import Table

from pyroclast.api.records.native_groups import CompositePodGroup, NativeCondition, NativePodGroup
from pyroclast.api.run_lengths import digest
from pyroclast.api.types import BATCH_JOBS
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import composites, job_alikes, jobs, pods
from pyroclast_recorder.facts.native_groups import Tree, composite_facts, tree_run
from pyroclast_recorder.facts.pods import pod_facts
from pyroclast_recorder.following.sinks import composite_rows, native_rows
from pyroclast_recorder.reading.queries import estimates
from pyroclast_scheduler.explaining.lengths import keys_of
from tests.unit.scheduler import natives

from .conftest import NewDatabase, write
from .test_native_groups import ADMITTED, CREATED, HAS_PLACES, NOW, T0, member, read, says

Rows = list[tuple[Table, int, dict[str, Any]]]
Outcome = tuple[list[tuple[dict[str, Any], dict[str, Any]]], tuple[str, int | None]]
"""PodGroups with their only pod; phase and end of the whole."""

STARTED = [ADMITTED, {**HAS_PLACES, "type": "CompositePodGroupInitiallyScheduled"}]


def composite(name: str = "c", minimum: int = 2, parent: str = "", **given: Any) -> CompositePodGroup:
    spec = {"spec": {"parentCompositePodGroupName": parent}} if parent else {}
    return natives.composite(name, minimum, **{"conditions": STARTED, **spec, **given})


def part(name: str, minimum: int, parent: str = "c") -> NativePodGroup:
    conditions = msgspec.convert([ADMITTED, HAS_PLACES], tuple[NativeCondition, ...])
    made = natives.gang(name, minimum, spec={"parentCompositePodGroupName": parent})
    meta = msgspec.structs.replace(made.metadata, creation_timestamp=CREATED)
    return msgspec.structs.replace(made, metadata=meta, status=msgspec.structs.replace(made.status, conditions=conditions))


def rows_of(*records: CompositePodGroup | NativePodGroup) -> Rows:
    found: Rows = []
    for each in records:
        seen = composite_rows if isinstance(each, CompositePodGroup) else native_rows
        found += ((table, 1, dict(row)) for table, _, row in seen(each, NOW, is_deleted=False))  # type: ignore[arg-type]
    return found


def pod_row(name: str, group: str, end: int | None = None, phase: str = "Succeeded") -> tuple[Table, int, dict[str, Any]]:
    row = member(name, end=end, phase=phase if end else "Running", pod_group=group, namespace="t")
    return pods, 2, {**row, "created": T0, "estimate": None}


def test_compositepodgroup_without_conditions_has_no_row() -> None:
    assert composite_facts(composite(conditions=[]), NOW, is_deleted=False) is None


def test_compositepodgroup_row_holds_parent_queue_owner_min_groups_and_start() -> None:
    owner = (BATCH_JOBS.api_version, "Job", "j")
    given = composite("d", 3, "c", owner=owner, labels={"scheduling.volcano.sh/queue-name": "red"})
    row = composite_facts(given, NOW, is_deleted=True)
    assert row is not None
    said = {"name": "d", "parent": "c", "queue": "red", "owner_name": "job", "min_groups": 3, "started": T0 + 60, "removed": NOW}
    assert said.items() <= row.items()
    waits = composite_facts(composite(conditions=[{**ADMITTED, "status": "True", "reason": "NodesFull"}]), NOW, is_deleted=False)
    assert waits is not None
    assert (waits["parent"], waits["started"], waits["removed"]) == (None, None, None)


@pytest.mark.parametrize(("minimum", "members"), [(1, 2), (2, 5)], ids=["the smallest group is enough", "both are needed"])
async def test_compositepodgroup_run_is_stored_under_the_keys_the_scheduler_looks_up(
    database: Database, minimum: int, members: int
) -> None:
    cache = natives.world({"n": 9})
    root, parts = composite("train-7", minimum), [part("g", 2, "train-7"), part("h", 3, "train-7")]
    cache.natives.composite_changed(None, root)
    for each in parts:
        cache.natives.group_changed(None, each)
    rows = rows_of(root, *parts)
    for at, (name, group) in enumerate([("g-0", "g"), ("g-1", "g"), ("h-0", "h"), ("h-1", "h"), ("h-2", "h")]):
        declared = {"annotations": {"scheduling.volcano.sh/running-estimate": f"{at + 1}m"}}
        made = natives.pod(name, group, node="n", age=30 - at, cpu=at + 1, **declared)
        cache.pod_changed(None, made)
        rows.append((pods, 1, pod_facts(made, NOW, is_deleted=False)))
    await write(database, rows, NOW)
    (run,) = await database.runs(0, 9)
    (facts,) = cache.snapshot().all_jobs.values()
    assert keys_of(facts) == ["name/t/train", f"shape/default/{members}/cpu=1000"]
    assert run["alike"].split(",") == [digest(key) for key in keys_of(facts)]
    assert (run["owner"], run["estimate"], facts.running_estimate) == (digest("t"), "1m", "1m")
    assert (run["phase"], run["ended"]) == ("Running", None)
    assert await read(database, job_alikes, "job") == [], "no part of it is told alone"


SEEN: list[Rows] = [
    rows_of(composite("c", 2)),
    rows_of(composite("d", 1, "c")),
    [
        *rows_of(part("g", 1, "c"), part("h", 2, "d")),
        *(pod_row("g-0", "g", 100), pod_row("h-0", "h"), pod_row("h-1", "h", 110)),
        (pods, 3, pod_row("h-0", "h", 130)[2]),
    ],
]


async def test_compositepodgroup_run_ends_with_its_last_pod_whatever_the_order_of_rows(new_database: NewDatabase) -> None:
    for order in itertools.permutations(SEEN):
        async with new_database() as database:
            for rows in order:
                await write(database, rows, NOW)
            assert await read(database, composites, "uid", "parent_uid") == [("uid-c", None), ("uid-d", "uid-c")]
            assert await read(database, jobs, "uid", "parent_uid") == [("uid-g", "uid-c"), ("uid-h", "uid-d")]
            (run,) = await database.runs(0, 9)
            assert (run["phase"], run["started"], run["ended"]) == ("Completed", T0 + 60, T0 + 130)
            assert run["alike"] == ",".join(digest(key) for key in ("name/t/c", "shape/red/3/cpu=1000"))


async def test_runs_of_compositepodgroups_and_jobs_are_merged_newest_first(database: Database) -> None:
    for rows in SEEN:
        await write(database, rows, NOW)
    for name, end in (("x", 120), ("y", 140)):
        await write(database, [(jobs, 1, {"uid": name, "phase": "Failed", "started": T0, "ended": T0 + end})], NOW)
        await write(database, [(job_alikes, 1, {"job": name, "alike": name, "owner": "o", "at": T0})], NOW)
    assert [row["ended"] - T0 for row in await database.runs(0, 9)] == [140, 130, 120]
    assert [row["ended"] - T0 for row in await database.runs(0, 2)] == [140, 130]


async def test_predicted_start_of_a_compositepodgroup_is_compared_with_its_actual_start(database: Database) -> None:
    await write(database, rows_of(composite(conditions=[{**ADMITTED, "status": "True"}, says()])), NOW)
    for rows in SEEN:
        await write(database, [(table, 2, row) for table, _, row in rows], NOW)
    async with database.reading() as connection:
        (row,) = await estimates(connection, database.cluster, T0, T0 + 90, ["t"])
        assert await estimates(connection, database.cluster, T0, T0 + 90, ["other"]) == []
    counts = {"queue": "red", "predictions": 1, "held": 1, "early": 0, "late": 0}
    assert row == {**counts, "p50WidthSeconds": 60, "p50ErrorSeconds": 0, "basis": {"history": 2}}


async def test_podgroup_belongs_to_the_compositepodgroup_that_existed_at_its_creation(database: Database) -> None:
    await write(database, rows_of(composite(uid="uid-before"), part("g", 1)), NOW)
    removed = T0 - 10**6
    await write(database, [(composites, 0, {"uid": "uid-before", "removed": removed})], NOW)
    await write(database, rows_of(part("h", 1)), NOW)
    await write(database, rows_of(composite(uid="uid-after")), NOW)
    assert await read(database, jobs, "uid", "parent_uid") == [("uid-g", "uid-before"), ("uid-h", "uid-after")]


def leaf(uid: str, phase: str, ended: int | None) -> dict[str, Any]:
    return {"uid": uid, "phase": phase, "ended": ended, "gang_size": 1}


HELD, WAITS = member("p", end=9), member("w", bound=None)
GONE = member("w", bound=None, end=9)
OUTCOMES: dict[str, Outcome] = {
    "one has failed": ([(leaf("g", "Completed", 9), HELD), (leaf("h", "Failed", 7), HELD)], ("Failed", 9)),
    "one was deleted": ([(leaf("g", "Completed", 9), HELD), (leaf("h", "Running", 7), HELD)], ("Running", 9)),
    "one runs": ([(leaf("g", "Failed", 9), HELD), (leaf("h", "Running", None), HELD)], ("Running", None)),
    "one waits for its turn": ([(leaf("g", "Completed", 9), HELD), (leaf("h", "Pending", None), WAITS)], ("Running", None)),
    "one never had a place": ([(leaf("g", "Completed", 9), HELD), (leaf("h", "Pending", None), GONE)], ("Completed", 9)),
    "none has begun": ([(leaf("g", "Pending", None), GONE)], ("Running", None)),
}


@pytest.mark.parametrize("case", OUTCOMES.values(), ids=OUTCOMES.keys())
def test_compositepodgroup_outcome_follows_its_podgroups_and_pods(case: Outcome) -> None:
    below, want = case
    root = {"uid": "c", "namespace": "t", "name": "c", "owner_name": None, "queue": None, "min_groups": 1}
    members = {each["uid"]: [{"created": 1, "estimate": None, **pod}] for each, pod in below}
    run = tree_run(Tree(root, {}, {"c": [each for each, _ in below]}, members))
    assert (run["phase"], run["ended"]) == want

"""PodGroups of Kubernetes itself: their rows among those of Jobs, and what their pods add to them."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import Table, select

from pyroclast.api.records import batch
from pyroclast.api.records.groups import PodGroup
from pyroclast.api.records.native_groups import NativeCondition, NativePodGroup
from pyroclast.api.run_lengths import digest
from pyroclast.api.types import BATCH_JOBS, CRDS, JOBS, NATIVE_POD_GROUPS, NODES, PODS, Key
from pyroclast.kube.http.client import PatchKind
from pyroclast.runtime.metrics import render
from pyroclast_cli import programs
from pyroclast_recorder.app import RecorderMetrics
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import (
    Row,
    job_alikes,
    job_causes,
    jobs,
    node_states,
    owners,
    pods,
    predictions,
    usage_hours,
)
from pyroclast_recorder.facts.native_groups import KIND, GroupEnd, native_facts, native_outcome
from pyroclast_recorder.facts.pods import pod_facts
from pyroclast_recorder.following import stream
from pyroclast_recorder.following.kinds import followed_kinds
from pyroclast_recorder.following.sinks import group_rows, native_rows
from pyroclast_recorder.reading.queries import tries
from pyroclast_scheduler.explaining.lengths import keys_of
from pyroclast_standalone.apiserver.kinds import pod_defaults
from tests.unit.logs import captured
from tests.unit.scheduler import natives
from tests.unit.scheduler.shell.test_native_service import definition

from .conftest import ON_SQLITE, NewDatabase, write
from .laboratory import Laboratory, pod
from .test_reading import url

__all__ = ["url"]

CREATED, PLACED, DELETED = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"
T0 = 1_767_225_600
"""The first of them in seconds."""

NOW = T0 + 3600
SINCE = "--since 2025-12-31T00:00:00Z"
NOWHERE = "http://127.0.0.1:1"
WAITS = {"type": "pyroclast.dev/Queued", "status": "True", "reason": "NodesFull", "message": "no", "lastTransitionTime": CREATED}
ADMITTED = {**WAITS, "status": "False", "reason": "Admitted", "message": "", "lastTransitionTime": PLACED}
HAS_PLACES = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled", "lastTransitionTime": PLACED}
STARTED = (ADMITTED, HAS_PLACES)


def manifest(*conditions: dict[str, Any], minimum: int = 2, **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": NATIVE_POD_GROUPS.api_version,
        "kind": NATIVE_POD_GROUPS.kind,
        "metadata": {"uid": "g", "name": "gang", "namespace": "default", "creationTimestamp": CREATED, **meta},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}},
        "status": {"conditions": list(conditions)},
    }


def group(*conditions: dict[str, Any], **given: Any) -> NativePodGroup:
    return msgspec.convert(manifest(*conditions, **given), NativePodGroup)


def owned_by(api_version: str) -> list[dict[str, Any]]:
    return [{"apiVersion": api_version, "kind": "Job", "name": "train", "uid": "j", "controller": True}]


def test_waiting_native_podgroup_has_a_pending_row_with_the_reason() -> None:
    row = native_facts(group(WAITS, labels={"scheduling.volcano.sh/queue-name": "red"}), NOW, is_deleted=False)
    assert row is not None
    said = {"kind": KIND, "name": "gang", "queue": "red", "phase": "Pending", "reason": "NodesFull", "message": "no"}
    assert said.items() <= row.items()
    assert (row["created"], row["placed"], row["removed"], row["gang_size"]) == (T0, None, None, 2)


def test_scheduled_native_podgroup_has_a_running_row_and_is_removed_on_deletion() -> None:
    batch_job = group(*STARTED, ownerReferences=owned_by(BATCH_JOBS.api_version))
    row = native_facts(batch_job, NOW, is_deleted=False)
    assert row is not None
    assert (row["phase"], row["reason"], row["owner_kind"], row["owner_name"]) == ("Running", None, "Job", "train")
    assert (row["let_in"], row["placed"], row["started"]) == (T0 + 60,) * 3
    gone = native_facts(batch_job, NOW, is_deleted=True)
    asked = native_facts(group(*STARTED, deletionTimestamp=DELETED), NOW, is_deleted=True)
    assert gone is not None
    assert asked is not None
    assert (gone["removed"], asked["removed"]) == (NOW, T0 + 120)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(group(), id="nobody has looked at it"),
        pytest.param(group(HAS_PLACES), id="kube-scheduler placed it"),
        pytest.param(group(*STARTED, ownerReferences=owned_by(JOBS.api_version)), id="it shows a Job"),
    ],
)
def test_native_podgroup_unexamined_or_of_kube_scheduler_or_of_a_vcjob_has_no_row(other: NativePodGroup) -> None:
    assert list(native_rows(other, NOW, is_deleted=False)) == []


def test_volcano_podgroup_of_a_batch_job_makes_no_job_row() -> None:
    body = {"metadata": {"name": "podgroup-1", "uid": "v", "ownerReferences": owned_by(BATCH_JOBS.api_version)}}
    ours = msgspec.convert({**body, "status": {"phase": "Running"}}, PodGroup)
    assert list(group_rows(ours, NOW, is_deleted=False)) == []


def member(uid: str, *, end: int | None = None, phase: str = "Running", **columns: Any) -> dict[str, Any]:
    """A pod that was bound after a minute and ended after so many seconds."""
    row = {"uid": uid, "job": None, "pod_group": "gang", "namespace": "default", "name": uid, "queue": "red", "phase": phase}
    row |= {"requests": '{"cpu":1000}', "bound": T0 + 60, "released_low": None, "task_index": None}
    return {**row, "finished": end and T0 + end, "released_high": end and T0 + end, **columns}


DONE = [member("a", end=100, phase="Succeeded"), member("b", end=120, phase="Succeeded")]
FAILED = member("c", end=110, phase="Failed")
INDEXED = [{**each, "task_index": index} for index, each in enumerate(DONE)]
LOST = {**FAILED, "task_index": 2}
"""The only pod of an index, which failed before the others ended."""

OUTCOMES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], tuple[str, int | None]]] = {
    "without pods it waits": ({"placed": None}, [], ("Pending", None)),
    "it waits again for places": ({"reason": "NodesFull"}, [member("a")], ("Pending", None)),
    "it runs": ({}, [member("a"), DONE[1]], ("Running", None)),
    "a pod that waits belongs to it": ({}, [*DONE, member("d", bound=None)], ("Running", None)),
    "enough succeeded": ({}, DONE, ("Completed", 120)),
    "a pod that failed was replaced": ({}, [*DONE, FAILED], ("Completed", 120)),
    "too few succeeded": ({}, [DONE[1], FAILED], ("Failed", 120)),
    "a pod failed at last": ({}, [*DONE, member("c", end=130, phase="Failed")], ("Failed", 130)),
    "it was deleted while it ran": ({"removed": T0 + 105}, [member("a", end=110, phase="Failed")], ("Running", 110)),
    "it had completed when it was deleted": ({"removed": T0 + 120}, DONE, ("Completed", 120)),
    "its pods were deleted": ({}, [member("a", end=110)], ("Running", 110)),
    "an index has failed before the last one succeeded": ({}, [*INDEXED, LOST], ("Failed", 120)),
    "an index has failed and was done again": ({}, [*INDEXED, {**LOST, "task_index": 0}], ("Completed", 120)),
}


@pytest.mark.parametrize("case", OUTCOMES.values(), ids=OUTCOMES.keys())
def test_native_podgroup_phase_and_end_follow_its_pods(
    case: tuple[dict[str, Any], list[dict[str, Any]], tuple[str, int | None]],
) -> None:
    columns, members, (phase, end) = case
    row = {"queue": None, "reason": None, "placed": T0 + 60, "removed": None, "gang_size": 2, **columns}
    queue = "red" if any(each["bound"] is not None for each in members) else None
    outcome = native_outcome(row, members)
    there = sum(each["released_high"] is None for each in members)
    assert outcome.pop("requests") == (f'{{"cpu":{1000 * there}}}' if there else None)
    assert outcome == {"queue": queue, "phase": phase, "ended": end and T0 + end}


def job_row(phase: str | None = None, removed: int | None = None) -> dict[str, Any]:
    return {"phase": phase, "removed": removed}


JOBS_SAY: dict[str, tuple[dict[str, Any], list[dict[str, Any]], tuple[str, bool]]] = {
    "indexes have failed, and the last one succeeded": (job_row("Failed"), [*DONE, FAILED], ("Failed", True)),
    "enough have succeeded, and the last one was not needed": (job_row("Complete"), [*INDEXED, LOST], ("Completed", True)),
    "it will make another pod": (job_row(), [DONE[1], FAILED], ("Running", False)),
    "it is suspended": (job_row("Suspended"), [member("a", end=110)], ("Running", True)),
    "it ends while a pod is left": (job_row("Failed"), [FAILED, member("a")], ("Running", False)),
    "it was deleted after it had ended": (job_row("Failed", T0 + 200), [*DONE, FAILED], ("Failed", True)),
    "it was deleted before anybody saw how it ended": (job_row(None, T0 + 200), DONE, ("Completed", True)),
}


@pytest.mark.parametrize("case", JOBS_SAY.values(), ids=JOBS_SAY.keys())
def test_native_podgroup_outcome_follows_its_batch_job(
    case: tuple[dict[str, Any], list[dict[str, Any]], tuple[str, bool]],
) -> None:
    job, members, (phase, has_ended) = case
    row = {"queue": None, "reason": None, "placed": T0 + 60, "removed": None, "gang_size": 2}
    outcome = native_outcome(row, members, job)
    assert (outcome["phase"], outcome["ended"] is not None) == (phase, has_ended)


async def test_native_podgroup_ends_as_its_batch_job_whatever_the_order_of_rows(new_database: NewDatabase) -> None:
    made = {"uid": "j", "kind": "Job", "namespace": "default", "name": "train"}
    seen: list[list[tuple[Table, int, dict[str, Any]]]] = [
        rows_of(group(*STARTED, ownerReferences=owned_by(BATCH_JOBS.api_version))),
        [(pods, 3, FAILED), (pods, 4, DONE[0]), (pods, 4, DONE[1])],
        [(owners, 2, made), (owners, 5, {**made, "phase": "Failed", "ended": T0 + 125})],
        [(owners, 0, {"uid": "j", "removed": T0 + 300})],
    ]
    for order in itertools.permutations(seen):
        async with new_database() as database:
            ends = [end for rows in order for end in await write(database, rows, NOW)]
            assert await read(database, jobs, "uid", "phase", "ended") == [("g", "Failed", T0 + 120)]
            assert [(end.queue, end.at, end.seconds) for end in ends] == [("red", T0 + 120, 60)], "it is told once"


async def test_native_podgroup_end_is_reported_once_when_its_batch_job_ends(database: Database) -> None:
    made = {"uid": "j", "kind": "Job", "namespace": "default", "name": "train"}
    rows = rows_of(group(*STARTED, ownerReferences=owned_by(BATCH_JOBS.api_version)))
    for seen in ([(owners, 1, made)], rows, [(pods, 3, FAILED), (pods, 4, DONE[0])], [(pods, 4, DONE[1])]):
        assert await write(database, seen, NOW) == []
    over = (owners, 5, {**made, "phase": "Failed", "ended": T0 + 125})
    assert await write(database, [over], NOW) == [GroupEnd("red", "Failed", T0 + 120, 60)]
    removed = rows_of(*[group(*STARTED, ownerReferences=owned_by(BATCH_JOBS.api_version), deletionTimestamp=DELETED)] * 2)
    for seen in (removed, [(jobs, 0, {"uid": "g", "removed": NOW})], [(pods, 6, DONE[1])], [over]):
        assert await write(database, seen, NOW) == []


async def test_run_seconds_of_a_native_podgroup_whose_start_was_not_seen_begin_with_its_first_pod(database: Database) -> None:
    members = [(pods, 2, {**each, "bound": bound}) for each, bound in zip(DONE, (T0 + 75, T0 + 70), strict=True)]
    ends = await write(database, [*rows_of(group(ADMITTED)), *members], NOW)
    assert ends == [GroupEnd("red", "Completed", T0 + 120, 50)]


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([(pods, 2, member("a", end=110))], id="its pods were deleted"),
        pytest.param([(pods, 2, DONE[0]), (pods, 2, member("b"))], id="a pod of it runs"),
    ],
)
async def test_native_podgroup_with_deleted_or_running_pods_reports_no_end(
    database: Database, rows: list[tuple[Table, int, dict[str, Any]]]
) -> None:
    assert await write(database, [*rows_of(group(*STARTED)), *rows], NOW) == []


def test_end_metrics_count_per_queue_since_process_start_and_vanish_with_the_queue() -> None:
    registry = CollectorRegistry()
    metrics = RecorderMetrics(registry, since=T0)
    ends = [GroupEnd("red", "Failed", T0 + 120, 60), GroupEnd("red", "Completed", T0 - 1, 5)]
    metrics.ended([*ends, GroupEnd("blue", "Completed", T0, 7)])
    text = render(registry).decode()
    assert 'pyroclast_run_seconds_sum{queue="red"} 60.0' in text
    assert 'pyroclast_job_ends_total{queue="red",state="Failed"} 1.0' in text
    assert 'pyroclast_job_ends_total{queue="blue",state="Completed"} 1.0' in text
    assert 'pyroclast_run_seconds_sum{queue="blue"} 7.0' in text
    assert 'pyroclast_job_ends_total{queue="red",state="Completed"}' not in text
    metrics.queue_gone("red")
    assert 'queue="red"' not in render(registry).decode()


SAYS = {"code": "NodesFull", "ahead": 1, "queue": "blue", "since": CREATED, "seen": CREATED, "start": [PLACED, PLACED, DELETED]}


def says(**more: Any) -> dict[str, Any]:
    """The condition in which the scheduler tells of a wait."""
    message = json.dumps({**SAYS, "basis": "2 from history", **more})
    return {**WAITS, "type": "pyroclast.dev/Waiting", "message": message}


def test_waiting_condition_gives_a_native_podgroup_its_queue_and_predicted_start() -> None:
    waits = group(WAITS, says())
    row = native_facts(waits, NOW, is_deleted=False)
    assert row is not None
    assert row["queue"] == "blue"
    foretold = {"job": "g", "at": T0, "p10": T0 + 60, "p50": T0 + 60, "p90": T0 + 120, "basis": "2 from history"}
    assert [row for table, _, row in native_rows(waits, NOW, is_deleted=False) if table is predictions] == [foretold]
    for other in (group(WAITS), group(WAITS, says(start=None))):
        assert all(table is not predictions for table, _, _ in native_rows(other, NOW, is_deleted=False))


async def test_native_podgroup_requests_count_in_the_open_jobs_of_its_queue(database: Database) -> None:
    await write(database, rows_of(group(WAITS, says())), NOW)
    assert await database.open_jobs() == []
    waiting = [member(uid, bound=None, queue=None) for uid in ("a", "b")]
    await write(database, [(pods, 2, each) for each in waiting], NOW)
    assert await database.open_jobs() == [("blue", "Pending", '{"cpu":2000}', 1)]
    await write(database, [*rows_of(group(), group(*STARTED)), (pods, 3, member("a")), (pods, 3, DONE[1])], NOW)
    assert await database.open_jobs() == [("red", "Running", '{"cpu":1000}', 1)]
    await write(database, [(pods, 4, DONE[0])], NOW)
    assert await database.open_jobs() == []


async def test_native_podgroup_run_is_stored_under_the_keys_the_scheduler_looks_up(database: Database) -> None:
    cache = natives.world({"n": 9})
    owner = {"owner": (BATCH_JOBS.api_version, "Job", "j")}
    given = natives.gang("gang", 2, started=True, **owner)
    queued = msgspec.convert(ADMITTED, NativeCondition)
    given = msgspec.structs.replace(
        given, status=msgspec.structs.replace(given.status, conditions=(*given.status.conditions, queued))
    )
    cache.natives.group_changed(None, given)
    rows = [
        (table, 1, {**row, "started": T0} if table is jobs else row)
        for table, _, row in native_rows(given, NOW, is_deleted=False)
    ]
    for name, age in (("p-0", 30), ("p-1", 20)):
        container = {"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1G", "example.com/gpu": "1"}}}
        each = natives.pod(name, "gang", node="n", age=age, spec={"containers": [container]})
        cache.pod_changed(None, each)
        rows.append((pods, 1, pod_facts(each, NOW, is_deleted=False)))
    await write(database, rows, NOW)
    (run,) = await database.runs(0, 9)
    (facts,) = cache.snapshot().all_jobs.values()
    assert run["alike"].split(",") == [digest(key) for key in keys_of(facts)]
    assert keys_of(facts) == ["name/t/job", "shape/default/2/cpu=500,example.com/gpu=1000,memory=954"]
    assert run["owner"] == digest("t")
    await write(database, [(jobs, 2, {"uid": "uid-gang", "kind": KIND, "namespace": "t", "name": "gang", "gang_size": 2})], NOW)
    (other,) = await read(database, job_alikes, "alike")
    assert other == (",".join(digest(key) for key in keys_of(facts)),), "the garbage collector takes no name away"


@pytest.mark.parametrize(
    ("own", "want"), [("", "90m"), ("2h", "2h")], ids=["the oldest pod speaks for it", "the PodGroup itself comes first"]
)
async def test_native_podgroup_estimate_falls_back_to_the_annotation_of_its_oldest_pod(
    new_database: NewDatabase, own: str, want: str
) -> None:
    name = "scheduling.volcano.sh/running-estimate"
    members = [
        natives.pod(f"p-{age}", "gang", node="n", age=age, annotations={name: text}) for age, text in ((30, "90m"), (20, "5m"))
    ]
    rows = rows_of(group(*STARTED, namespace="t", annotations={name: own} if own else {}))
    seen = [rows, *([(pods, 2, pod_facts(each, NOW, is_deleted=False))] for each in members)]
    for order in itertools.permutations(seen):
        async with new_database() as database:
            for each in order:
                await write(database, each, NOW)
            (run,) = await database.runs(0, 9)
            assert run["estimate"] == want
            (shown, *_) = await tries_of(database)
            assert shown["estimate"] == want


async def tries_of(database: Database) -> list[dict[str, Any]]:
    async with database.reading() as connection:
        return await tries(connection, database.cluster, "t", "gang", NOW)


def rows_of(*groups: NativePodGroup) -> list[tuple[Table, int, dict[str, Any]]]:
    return [
        (table, version, dict(row))
        for version, each in enumerate(groups, 1)
        for table, _, row in native_rows(each, NOW, is_deleted=False)
    ]


async def read(database: Database, table: Table, *names: str) -> list[tuple[Any, ...]]:
    async with database.reading() as connection:
        found = await connection.execute(select(table).where(table.c.cluster == database.cluster))
        return sorted(tuple(row[name] for name in names) for row in found.mappings())


async def test_pods_are_assigned_to_their_native_podgroup_whatever_the_order_of_rows(new_database: NewDatabase) -> None:
    seen = [
        rows_of(group(WAITS), group(*STARTED)),
        [(pods, 3, member("a"))],
        [(pods, 4, DONE[0]), (pods, 4, DONE[1])],
        [(pods, 0, {"uid": "a", "released_low": T0 + 90})],
    ]
    for order in itertools.permutations(seen):
        async with new_database() as database:
            for rows in order:
                await write(database, rows, NOW)
            assert await read(database, pods, "uid", "job") == [("a", "g"), ("b", "g")]
            said = await read(database, jobs, "uid", "queue", "phase", "started", "ended")
            assert said == [("g", "red", "Completed", T0 + 60, T0 + 120)]
            assert await read(database, job_causes, "name", "message") == [("NodesFull", "no")]


async def test_pods_are_assigned_to_the_right_native_podgroup_when_its_name_is_reused(database: Database) -> None:
    await write(database, rows_of(group(*STARTED)), NOW)
    await write(database, [(pods, 2, each) for each in DONE], NOW)
    again = group(*STARTED, uid="h", creationTimestamp=DELETED)
    await write(database, [*rows_of(again), (pods, 5, member("d", bound=T0 + 130))], NOW)
    await write(database, [(pods, 6, DONE[0])], NOW)
    assert await read(database, pods, "uid", "job") == [("a", "g"), ("b", "g"), ("d", "h")]
    assert await read(database, jobs, "uid", "phase") == [("g", "Completed"), ("h", "Running")]


async def test_pod_usage_is_unchanged_when_the_native_podgroup_is_recorded_later(database: Database) -> None:
    async def usage(database: Database) -> list[tuple[Any, ...]]:
        await database.settle(NOW)
        return await read(database, usage_hours, "queue", "submitted_by", "resource", "asked")

    await write(database, [(pods, 1, each) for each in DONE], NOW)
    alone = await usage(database)
    assert alone == [("red", "unknown", "cpu", (40 + 60) * 1000)]
    await write(database, rows_of(group(*STARTED, labels={"scheduling.volcano.sh/queue-name": "blue"})), NOW)
    assert await usage(database) == alone
    await write(database, [(pods, 2, {**each, "node": "n"}) for each in DONE], NOW)
    assert await usage(database) == alone


async def test_native_podgroup_row_keeps_its_owner_after_the_owner_reference_is_removed(database: Database) -> None:
    await write(database, rows_of(group(*STARTED, ownerReferences=owned_by(BATCH_JOBS.api_version)), group(*STARTED)), NOW)
    assert await read(database, jobs, "owner_kind", "owner_name", "owner_uid") == [("Job", "train", "j")]


async def test_pods_are_pruned_only_after_their_native_podgroup_is_removed(database: Database) -> None:
    await write(database, [*rows_of(group(*STARTED)), *((pods, 2, each) for each in DONE)], NOW)
    await database.settle(NOW)
    assert await database.prune(pods, NOW, 10) == 0
    await write(database, rows_of(group(*STARTED), group(*STARTED)), NOW)
    assert await read(database, jobs, "phase", "ended") == [("Completed", T0 + 120)]
    await write(database, [(jobs, 0, {"uid": "g", "removed": NOW})], NOW)
    await database.settle(NOW + 3600)  # whole hours are closed
    assert await database.prune(pods, NOW + 3600, 10) == 2
    assert await read(database, jobs, "phase", "ended") == [("Completed", T0 + 120)]


def batch_job(name: str, scheduler: str) -> dict[str, Any]:
    spec = {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    body = {"apiVersion": BATCH_JOBS.api_version, "kind": BATCH_JOBS.kind, "metadata": {"name": name, "namespace": "default"}}
    return {**body, "spec": {"template": {"spec": spec}}}


class Rows(list[dict[str, Any]]):
    """Takes rows."""

    async def add(self, _table: Table, _version: int, row: Row) -> None:
        self.append(dict(row))


@ON_SQLITE
@pytest.mark.parametrize(
    ("scheduler", "more", "is_kept"),
    [
        ("volcano", {}, True),
        ("default-scheduler", {"scheduling": {"schedulingPolicy": {"gang": {}}}}, True),
        ("default-scheduler", {}, False),
    ],
    ids=["for our scheduler", "a gang of which the namespace may name the scheduler", "any other"],
)
async def test_batch_job_row_is_kept_only_if_the_job_may_own_a_gang_of_our_scheduler(
    database: Database, scheduler: str, more: dict[str, Any], is_kept: bool
) -> None:
    body = batch_job("train", scheduler)
    job = msgspec.convert({**body, "spec": {**body["spec"], **more}}, batch.Job)
    rows = Rows()
    ours = frozenset({"volcano"})
    kinds = followed_kinds(database, ours, lambda *_: None, lambda _: rows, None, are_natives_followed=True)  # type: ignore[arg-type,return-value]
    await kinds[BATCH_JOBS].sink.take(job, 1, NOW, is_deleted=False)
    assert [row["name"] for row in rows] == (["train"] if is_kept else [])


@ON_SQLITE
async def test_native_podgroups_are_followed_as_soon_as_the_api_server_serves_them(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_defaults, "OFF", ())
    monkeypatch.setattr(stream, "LOOK_SECONDS", 0.1)
    logs = captured(monkeypatch, stream)
    client, key = laboratory.client, Key("default", "gang")

    async def is_followed() -> bool:
        return KIND in await laboratory.database.cursors()

    await client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    laboratory.start()
    await laboratory.until(lambda rows: "n1" in rows, node_states)
    await asyncio.sleep(0.5)
    assert not await is_followed()
    assert logs == []
    await client.create(CRDS, definition("v1beta1"))
    async with asyncio.timeout(60):
        while not await is_followed():
            await asyncio.sleep(0.05)
    for name, scheduler in (("train", "volcano"), ("other", "default-scheduler")):
        await client.create(BATCH_JOBS, batch_job(name, scheduler))
    ends = {"status": {"conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": DELETED}]}}
    await client.patch(BATCH_JOBS, Key("default", "train"), ends, PatchKind.MERGE, subresource="status")
    await laboratory.until(lambda rows: "train" in rows and rows["train"]["phase"] == "Failed", owners)
    await client.create(NATIVE_POD_GROUPS, manifest(labels={"scheduling.volcano.sh/queue-name": "red"}))
    body = pod("a")
    body["spec"]["schedulingGroup"] = {"podGroupName": "gang"}
    await laboratory.put(body)
    await client.patch(NATIVE_POD_GROUPS, key, {"status": {"conditions": list(STARTED)}}, PatchKind.MERGE, subresource="status")
    rows = await laboratory.until(lambda rows: "gang" in rows and rows["gang"]["phase"] == "Running", jobs)
    members = await laboratory.until(lambda rows: "a" in rows and rows["a"]["job"] is not None)
    assert members["a"]["job"] == rows["gang"]["uid"]
    await laboratory.stop()
    await client.delete(PODS, Key("default", "a"))
    await client.delete(NATIVE_POD_GROUPS, key)
    await client.delete(BATCH_JOBS, Key("default", "train"))
    laboratory.start()
    rows = await laboratory.until(lambda rows: rows["gang"]["removed"] is not None, jobs)
    assert rows["gang"]["queue"] == "red"
    made = await laboratory.until(lambda rows: rows["train"]["removed"] is not None, owners)
    assert (made.keys(), made["train"]["kind"], made["train"]["ended"]) == ({"train"}, "Job", T0 + 120)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (f"history -n default {SINCE}", ["KIND", "default gang red unknown Completed 0", "2 0.03 - podgroups.scheduling.k8s.io"]),
        (f"history -n default {SINCE} -q red --state completed", ["default gang red"]),
        ("history -n default gang", ["PodGroup default/gang, uid g", "to queue red", "Made by: Job/train", "-: 2 pods, 0"]),
        ("history -n default gang -o name", ["podgroups.scheduling.k8s.io/gang"]),
        ("efficiency -n default gang", ["Completed, exit code 0; ran 60s, waited 60s", "- cpu 0.03 -"]),
        (f"report usage -n default {SINCE} --by namespace --no-headers", ["default cpu 0.03 - - - 1 0"]),
        (f"report waits {SINCE} --no-headers", ["red 2-8 4"]),
    ],
)
@ON_SQLITE
async def test_vcctl_history_efficiency_and_reports_include_native_podgroups(
    database: Database, url: str, command: str, shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    await write(database, rows_of(group(*STARTED, ownerReferences=owned_by(BATCH_JOBS.api_version))), NOW)
    await write(database, [(pods, 2, {**each, "node": "n1", "task": None}) for each in DONE], NOW)
    assert await asyncio.to_thread(programs.vcctl, [*command.split(), "--recorder", url, "--master", NOWHERE]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert all(text in printed for text in shown), printed


@ON_SQLITE
async def test_vcctl_history_with_output_name_lists_only_vcjobs(
    database: Database, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await write(database, rows_of(group(*STARTED)), NOW)
    whole = [*f"history -A -o name {SINCE}".split(), "--recorder", url, "--master", NOWHERE]
    assert await asyncio.to_thread(programs.vcctl, whole) == 0
    names = capsys.readouterr().out.split()
    assert names
    assert all(name.startswith("vcjob.batch.volcano.sh/") for name in names)


@ON_SQLITE
async def test_pods_belong_to_the_group_of_their_name_and_their_time_for_any_order(new_database: NewDatabase) -> None:
    """A PodGroup is deleted, and another gets its name. A pod of the second may be recorded before its PodGroup is."""

    def named(uid: str, created: int, **more: Any) -> dict[str, Any]:
        return {
            "uid": uid,
            "kind": KIND,
            "namespace": "default",
            "name": "g",
            "created": created,
            "placed": created,
            "gang_size": 1,
            **more,
        }

    def member(uid: str, created: int) -> dict[str, Any]:
        row = {"uid": uid, "namespace": "default", "name": uid, "pod_group": "g", "requests": "{}", "phase": "Succeeded"}
        return {**row, "created": created, "bound": created, "finished": created + 60, "released_high": created + 60}

    rows = [
        (jobs, 1, named("old", T0)),
        (jobs, 2, named("old", T0, removed=T0 + 100)),
        (jobs, 3, named("new", T0 + 200)),
        (pods, 4, member("of-old", T0 + 5)),
        (pods, 5, member("of-new", T0 + 205)),
        (pods, 6, member("early", T0 + 190)),
    ]
    for order in itertools.islice(itertools.permutations(rows), 0, None, 7):
        if order.index(rows[0]) > order.index(rows[1]) or order.index(rows[3]) > order.index(rows[4]):
            continue
        async with new_database() as database:
            for row in order:
                await write(database, [row], NOW)
            found = sorted(await read(database, pods, "uid", "job"))
            ends = sorted(await read(database, jobs, "uid", "ended"))
        assert found == [("early", "new"), ("of-new", "new"), ("of-old", "old")], [row[2]["uid"] for row in order]
        assert ends == [("new", T0 + 265), ("old", T0 + 65)]

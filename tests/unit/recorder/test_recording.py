"""The recorder against an API server and both databases: what it keeps, and what it does when things go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import select, text

from pyroclast.api.keys import CREATED_ON_NODE, SUBMITTED_BY, WAITING
from pyroclast.api.records.groups import PodGroup
from pyroclast.api.records.jobs import Job
from pyroclast.api.records.pods import Pod
from pyroclast.api.types import JOBS, NODES, PODS, Key
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.lifecycle.times import parse_time
from pyroclast.runtime.errors import StartFailure
from pyroclast_recorder.app import Recorder, RecorderMetrics
from pyroclast_recorder.database.connections import DatabaseUnavailable
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import gaps, jobs, node_states, pods
from pyroclast_recorder.facts.jobs import job_facts, phase_facts, prediction_facts
from pyroclast_recorder.facts.native_groups import GroupEnd
from pyroclast_recorder.facts.pods import pod_facts
from pyroclast_recorder.hourly_usage import held
from pyroclast_recorder.settings import RecorderSettings
from tests.unit.running import running_server

from .conftest import ON_SQLITE
from .laboratory import LONG_AGO, Laboratory, define, ended, pod


async def test_pod_changes_during_recorder_downtime_are_recorded_after_restart_without_a_gap(laboratory: Laboratory) -> None:
    await laboratory.put(pod("a"))
    laboratory.start()
    await laboratory.until(lambda rows: "a" in rows and rows["a"]["phase"] == "Running")
    await laboratory.stop()
    await laboratory.end("a", **ended("2026-01-01T00:10:00Z"))
    await laboratory.client.delete(PODS, Key("default", "a"))
    await laboratory.put(pod("b"))
    laboratory.start()
    rows = await laboratory.until(lambda rows: "b" in rows and rows["a"]["finished"])
    assert rows["a"]["finished"] - rows["a"]["bound"] == 600
    assert (rows["a"]["phase"], rows["a"]["exit_code"], rows["b"]["released_high"]) == ("Succeeded", 0, None)
    assert await laboratory.rows(gaps) == {}


@pytest.mark.parametrize(
    ("phase", "init", "main", "want"),
    [
        ("Failed", 3, None, 3),
        ("Failed", 143, 7, 7),
        ("Failed", None, None, None),
        ("Succeeded", 143, 0, 0),
        ("Running", 0, None, None),
    ],
)
def test_recorded_exit_code_is_that_of_the_container_that_failed(
    phase: str, init: int | None, main: int | None, want: int | None
) -> None:
    states = {"initContainerStatuses": init, "containerStatuses": main}
    status = {
        name: [] if code is None else ended("2026-01-01T00:10:00Z", code)["containerStatuses"] for name, code in states.items()
    }
    found = msgspec.convert({**pod("a", phase), "status": {"phase": phase, **status}}, Pod)
    assert pod_facts(found, 0, is_deleted=False)["exit_code"] == want


@pytest.mark.parametrize(
    ("annotations", "bound"),
    [pytest.param({}, LONG_AGO, id="bound"), pytest.param({CREATED_ON_NODE: "true"}, "2025-12-31T23:59:58Z", id="created")],
)
def test_pod_holds_its_node_from_its_binding_or_from_its_creation_there(annotations: dict[str, str], bound: str) -> None:
    body = pod("p")
    body["metadata"] |= {"creationTimestamp": "2025-12-31T23:59:58Z", "annotations": annotations}
    assert pod_facts(msgspec.convert(body, Pod), 0, is_deleted=False)["bound"] == parse_time(bound)


async def test_gap_is_recorded_when_the_api_server_compacted_the_missed_history(laboratory: Laboratory) -> None:
    for name in ("stays", "goes"):
        await laboratory.put(pod(name))
    laboratory.start()
    await laboratory.until(lambda rows: len(rows) == 2 and all(row["phase"] == "Running" for row in rows.values()))
    await laboratory.stop()
    await asyncio.sleep(2.1)
    await laboratory.client.delete(PODS, Key("default", "goes"))
    ended = int(laboratory.client.now())
    laboratory.server.compact()
    laboratory.start()
    rows = await laboratory.until(lambda rows: rows["goes"]["released_high"] is not None)
    time = held(rows["goes"])
    assert time is not None
    assert time.end is not None
    assert abs(time.end - ended) <= time.doubt != 0, "the true end is within what is printed as ±"
    assert rows["stays"]["released_high"] is None
    found = await laboratory.until(lambda rows: "pods" in rows, gaps)
    assert "forgotten" in found["pods"]["why"]


async def test_restored_api_server_with_lower_resource_versions_is_recorded_as_a_gap(laboratory: Laboratory) -> None:
    """Its history ends before what is in the database: nothing is lost, and what it says now is later than that."""
    for name in ("a", "c", "d", "e"):
        await laboratory.put(pod(name))
    laboratory.start()
    await laboratory.until(lambda rows: "e" in rows and rows["e"]["phase"] == "Running")
    await laboratory.stop()
    before = (await laboratory.rows(pods))["a"]
    async with running_server() as restored, Client(load_config(str(restored.kubeconfig))) as client:
        await define(client)
        await restored.settle()
        other = Laboratory(restored, client, laboratory.database)
        await other.put(pod("b"))
        numbers = {kind: int(cursor.resource_version) for kind, cursor in (await laboratory.database.cursors()).items()}
        latest = int((await client.list(PODS))[1])
        if latest >= numbers["pods"]:  # both count from their beginning: the old one had more to tell
            pytest.fail("the restored server should be behind")
        other.start()
        rows = await other.until(lambda rows: rows["a"]["released_high"] is not None and "b" in rows)
        await other.stop()
    assert rows["a"]["bound"] == before["bound"]
    assert rows["b"]["version"] > before["version"]
    assert "went back" in (await laboratory.rows(gaps))["pods"]["why"]


@ON_SQLITE
async def test_dropped_watches_and_errors_lose_nothing(laboratory: Laboratory) -> None:
    laboratory.start()
    for number in range(12):
        await laboratory.put(pod(f"p{number}"))
        if number % 4 == 0:
            laboratory.server.fail_next("watch", "pods", (429, 500, 503)[number // 4])
            laboratory.server.drop_watches()
    await laboratory.until(lambda rows: len(rows) == 12 and all(row["phase"] == "Running" for row in rows.values()))
    assert await laboratory.rows(gaps) == {}


class Moody(Database):
    """A database that is away for some writes."""

    refused = 0

    async def write(self, batch: Any, now: int) -> list[GroupEnd]:
        if self.refused < 3:
            self.refused += 1
            raise DatabaseUnavailable("the disk is full")
        return await super().write(batch, now)


@ON_SQLITE
async def test_recorder_complains_while_database_writes_fail_and_writes_all_rows_afterwards(laboratory: Laboratory) -> None:
    laboratory.database.__class__ = Moody
    recorder = laboratory.start()
    for number in range(5):
        await laboratory.put(pod(f"p{number}"))
    complaints: list[str | None] = []

    async def listen() -> None:
        while True:
            complaints.append(recorder.complaint())
            await asyncio.sleep(0.01)

    listening = asyncio.create_task(listen())
    await laboratory.until(lambda rows: len(rows) == 5)
    listening.cancel()
    assert "the database takes no rows: the disk is full" in complaints
    async with asyncio.timeout(60):  # the rows can be read a moment before the writer knows that they are there
        while recorder.complaint() is not None:
            await asyncio.sleep(0.01)


@ON_SQLITE
async def test_a_database_of_a_later_version_is_refused_in_one_sentence(laboratory: Laboratory) -> None:
    async with laboratory.database.transaction() as connection:
        ours = await connection.scalar(text("SELECT version_num FROM alembic_version"))
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    recorder = Recorder(laboratory.client, laboratory.database, RecorderSettings(), RecorderMetrics(CollectorRegistry()))
    with pytest.raises(StartFailure, match="--database-url: the database has schema 9999, which this version does not"):
        await recorder.record(0)
    async with laboratory.database.transaction() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = :ours"), {"ours": ours})
    laboratory.start()


HOSTILE: list[Callable[[Laboratory], Awaitable[object]]] = [
    lambda lab: lab.put({**pod("x"), "metadata": {"name": "x", "namespace": "default", "labels": {"a": "b" * 63}}}),
    lambda lab: lab.put({**pod("x"), "metadata": {"name": "x", "namespace": "default", "annotations": {"k": "z" * 64 * 1024}}}),
    lambda lab: lab.put(pod("x", message="line\nline \u2028 <script>" * 500)),
    lambda lab: lab.put(pod("x", containerStatuses=ended("0001-01-01T00:00:00Z")["containerStatuses"])),
    lambda lab: lab.put(pod("x", startTime="9999-12-31T23:59:59Z")),
]


@pytest.mark.parametrize("hostile", HOSTILE, ids=["label", "annotation", "message", "no time", "far away"])
@ON_SQLITE
async def test_pod_with_extreme_values_does_not_stop_the_recording_of_later_pods(laboratory: Laboratory, hostile: Any) -> None:
    laboratory.start()
    try:
        await hostile(laboratory)
    except KubeError:
        pytest.fail("the server should take it")
    await laboratory.put(pod("after"))
    await laboratory.until(lambda rows: "after" in rows and rows["after"]["phase"] == "Running")


@ON_SQLITE
async def test_job_row_holds_queue_submitter_shape_image_and_labels_and_its_removal(laboratory: Laboratory) -> None:
    laboratory.start()
    container = {"name": "c", "image": "train:1", "resources": {"requests": {"cpu": "500m"}}}
    task = {"name": "worker", "replicas": 2, "template": {"spec": {"containers": [container]}}}
    metadata = {
        "name": "j",
        "namespace": "default",
        "labels": {"team": "a"},
        "annotations": {"pyroclast.dev/submitted-by": "ann"},
    }
    body = {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": metadata, "spec": {"queue": "red", "tasks": [task]}}
    await laboratory.client.create(JOBS, body)
    row = (await laboratory.until(lambda rows: "j" in rows, jobs))["j"]
    shown = {name: row[name] for name in ("queue", "submitted_by", "shape", "image", "labels", "phase", "gang_size", "requests")}
    assert shown == {
        "queue": "red",
        "submitted_by": "ann",
        "shape": "2×worker (cpu=500m)",
        "image": "train:1",
        "labels": '{"team":"a"}',
        "phase": "Pending",
        "gang_size": 2,
        "requests": '{"cpu":1000}',
    }
    await laboratory.client.delete(JOBS, Key("default", "j"))
    await laboratory.until(lambda rows: rows["j"]["removed"] is not None, jobs)


@ON_SQLITE
async def test_nodes_make_a_row_only_when_they_change(laboratory: Laboratory) -> None:
    async def write(name: str, ready: str, cpu: str, beat: int) -> None:
        condition = {"type": "Ready", "status": ready, "lastHeartbeatTime": f"2026-01-01T00:00:{beat:02}Z"}
        body = {"status": {"allocatable": {"cpu": cpu, "pods": "110"}, "conditions": [condition]}}
        await laboratory.client.patch(NODES, Key("", name), body, PatchKind.MERGE, subresource="status")

    async def states() -> list[tuple[str, str, int]]:
        async with laboratory.database.reading() as connection:
            found = await connection.execute(
                select(node_states).order_by(node_states.c.name, node_states.c.at, node_states.c.version)
            )
            return [(row.name, row.allocatable, row.is_down) for row in found]

    async def until(wanted: list[tuple[str, str, int]]) -> None:
        async with asyncio.timeout(60):
            while await states() != wanted:
                await asyncio.sleep(0.05)

    for name in ("n1", "n2"):
        await laboratory.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        await write(name, "True", "4", 0)
    laboratory.start()
    there = [("n1", '{"cpu":4000}', 0), ("n2", '{"cpu":4000}', 0)]
    await until(there)
    for beat in range(3):
        await write("n1", "True", "4", beat)
    await asyncio.sleep(1.1)  # a row per node and second
    await write("n1", "False", "4", 9)
    await until([there[0], ("n1", '{"cpu":4000}', 1), there[1]])
    await laboratory.stop()
    await laboratory.client.delete(NODES, Key("", "n2"))
    await asyncio.sleep(1.1)
    laboratory.start()
    await until([there[0], ("n1", '{"cpu":4000}', 1), there[1], ("n2", "{}", 0)])


def test_history_keeps_what_a_job_of_a_flow_put_out_with_the_phase_in_which_it_ended() -> None:
    conditions = [{"status": phase, "lastTransitionTime": LONG_AGO} for phase in ("Running", "Completed")]
    outputs = [{"task": "t", "index": 0, "message": '{"score": 0.9}'}]
    status = {"state": {"phase": "Completed"}, "conditions": conditions, "outputs": outputs}
    job = msgspec.convert({"spec": {"tasks": [{"name": "t", "replicas": 1}]}, "status": status}, Job)
    assert [(row["name"], row["message"]) for row in phase_facts(job)] == [("Running", None), ("Completed", '{"score":0.9}')]


def test_labels_and_names_of_64_kib_are_cut_to_what_the_tables_keep() -> None:
    """No API server takes such a label; who writes past it must not stop the recorder."""
    huge = "x" * 64 * 1024
    labels = {"a": "short", "b": huge, huge: "c", **{f"n{number:03}": "v" * 63 for number in range(100)}}
    meta = {"name": "j", "namespace": "default", "uid": "u", "labels": labels, "annotations": {SUBMITTED_BY: huge}}
    body = {"metadata": meta, "spec": {"queue": huge}, "status": {"state": {"phase": "Failed", "reason": huge, "message": huge}}}
    row = job_facts(msgspec.convert(body, Job), 9, is_deleted=False)
    assert len(row["labels"]) <= 2048
    assert msgspec.json.decode(row["labels"])["a"] == "short"
    assert {name: len(row[name]) for name in ("queue", "submitted_by", "reason", "message")} == {
        "queue": 253,
        "submitted_by": 253,
        "reason": 128,
        "message": 512,
    }


STARTS = '"start":["2026-01-01T01:00:00Z","2026-01-01T02:00:00Z","2026-01-01T03:00:00Z"]'


@pytest.mark.parametrize(
    ("text", "row"),
    [
        (f'{{"code":"QueueFull","seen":"{LONG_AGO}",{STARTS},"basis":"1 declared run time"}}', (3600, 7200, 10_800)),
        (f'{{"code":"QueueFull","seen":"{LONG_AGO}"}}', None),
        (f'{{"code":"QueueFull","seen":"soon",{STARTS}}}', None),
        (f'{{"code":"QueueFull","seen":"{LONG_AGO}","start":["x","y","z"]}}', None),
        (f'{{"code":"QueueFull","seen":"{LONG_AGO}",{STARTS.replace("T01", "T09")}}}', None),
        ("{", None),
        ("", None),
    ],
)
def test_prediction_row_is_made_only_from_a_valid_predicted_start_of_an_owned_podgroup(
    text: str, row: tuple[int, ...] | None
) -> None:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "u1", "controller": True}
    meta = {"name": "g", "namespace": "default", "ownerReferences": [owner], "annotations": {WAITING: text} if text else {}}
    found = prediction_facts(msgspec.convert({"metadata": meta}, PodGroup))
    if row is None:
        assert found is None
    else:
        assert found is not None
        assert tuple(found[name] - found["at"] for name in ("p10", "p50", "p90")) == row
        assert (found["job"], found["basis"]) == ("u1", "1 declared run time")
    free = msgspec.convert({"metadata": {**meta, "ownerReferences": []}}, PodGroup)
    assert prediction_facts(free) is None

"""What is kept of PodGroups, of what makes Jobs, and of the HyperNodes that pods run in."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from pyroclast.api.keys import HYPER_JOB, HYPER_JOB_UID, RESERVATION, SUBMITTED_BY
from pyroclast.api.records import HyperNode
from pyroclast.api.records.groups import PodGroup
from pyroclast.api.records.jobs import Job
from pyroclast.api.types import CRON_JOBS, HYPER_JOBS, HYPER_NODES, JOB_FLOWS, NODES, POD_GROUPS, Key, ResourceType
from pyroclast.kube.http.client import PatchKind
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import jobs, owners, reservations
from pyroclast_recorder.facts.jobs import job_facts
from pyroclast_recorder.following.node_sink import Domains
from pyroclast_recorder.following.sinks import KindSink, group_rows, job_rows, kept_nodes
from pyroclast_recorder.following.writer import Writer

from .conftest import ON_SQLITE
from .laboratory import Laboratory, pod

LATER = "2026-01-01T00:20:00Z"


@ON_SQLITE
async def test_reservation_row_is_written_only_when_the_reserved_nodes_change(laboratory: Laboratory) -> None:
    async def keep(name: str, *nodes: str) -> None:
        text = json.dumps({"locks": [{"node": node, "since": 1.5} for node in nodes]}) if nodes else None
        body = {"metadata": {"annotations": {RESERVATION: text, "other": str(time.monotonic())}}}
        await laboratory.client.patch(POD_GROUPS, Key("default", name), body, PatchKind.MERGE)

    async def until(wanted: list[str]) -> None:
        async with asyncio.timeout(60):
            while await kept() != wanted:
                await asyncio.sleep(0.05)
        await asyncio.sleep(1.1)  # a row per PodGroup and second

    async def kept() -> list[str]:
        async with laboratory.database.reading() as connection:
            found = await connection.execute(select(reservations).order_by(reservations.c.at, reservations.c.nodes))
            return [row.nodes for row in found]

    for name in ("a", "b", "c"):
        meta = {"name": name, "namespace": "default"}
        await laboratory.client.create(POD_GROUPS, {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": meta})
    await keep("a", "n2", "n1")
    laboratory.start()
    seen = ['["n1","n2"]']
    await until(seen)
    await keep("a", "n1", "n2")
    await keep("b", "n3")
    seen += ['["n3"]']
    await until(seen)
    await keep("b")
    seen += ["[]"]
    await until(seen)
    await laboratory.stop()
    await laboratory.client.delete(POD_GROUPS, Key("default", "a"))
    laboratory.start()
    await until([*seen, "[]"])


TASK = {"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
OWNERS: list[tuple[ResourceType, dict[str, Any], dict[str, Any]]] = [
    (JOB_FLOWS, {"flows": []}, {"state": {"phase": "Succeed"}, "completionTime": LATER}),
    (CRON_JOBS, {"schedule": "0 0 * * *", "suspend": True, "jobTemplate": {"spec": {"tasks": [TASK]}}}, {}),
    (
        HYPER_JOBS,
        {"replicatedJobs": [{"name": "r", "templateSpec": {"tasks": [TASK]}}]},
        {"conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": LATER, "reason": "R", "message": "m"}]},
    ),
]


@ON_SQLITE
async def test_owner_row_of_jobs_is_kept_after_the_owner_is_deleted(laboratory: Laboratory) -> None:
    client = laboratory.client
    for kind, spec, status in OWNERS:
        meta = {"name": kind.plural, "namespace": "default", "annotations": {SUBMITTED_BY: "ann"}}
        await client.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec})
        if status:
            key = Key("default", kind.plural)
            await client.patch(kind, key, {"status": status}, PatchKind.MERGE, subresource="status")
    laboratory.start()
    rows = await laboratory.until(lambda rows: len(rows) == len(OWNERS), owners)
    told = {row["kind"]: (row["phase"], row["ended"] is not None, row["submitted_by"]) for row in rows.values()}
    assert told == {
        "JobFlow": ("Succeed", True, "ann"),
        "CronJob": ("Suspended", False, "ann"),
        "HyperJob": ("Failed", True, "ann"),
    }
    await client.delete(JOB_FLOWS, Key("default", "jobflows"))
    await laboratory.until(lambda rows: rows["jobflows"]["removed"], owners)
    await laboratory.stop()
    await client.delete(CRON_JOBS, Key("default", "cronjobs"))
    await asyncio.sleep(2.1)
    laboratory.server.compact()
    laboratory.start()
    rows = await laboratory.until(lambda rows: rows["cronjobs"]["removed"], owners)
    assert rows["cronjobs"]["phase"] == "Suspended", "the list of those that are there says nothing of how it was"
    assert rows["hyperjobs"]["removed"] is None


@pytest.mark.parametrize(
    ("meta", "owner"),
    [
        ({}, (None, None, None)),
        ({"labels": {HYPER_JOB_UID: "h"}, "annotations": {HYPER_JOB: "far/away"}}, ("HyperJob", "away", "h")),
        ({"labels": {HYPER_JOB_UID: "h"}}, ("HyperJob", "", "h")),
        ({"ownerReferences": [{"kind": "CronJob", "name": "c", "uid": "u"}]}, ("CronJob", "c", "u")),
    ],
)
def test_job_row_names_its_owner_from_hyperjob_labels_or_owner_references(
    meta: dict[str, Any], owner: tuple[str | None, ...]
) -> None:
    row = job_facts(msgspec.convert({"metadata": {"name": "j", "uid": "j", **meta}}, Job), 9, is_deleted=False)
    assert (row["owner_kind"], row["owner_name"], row["owner_uid"]) == owner


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ('{"locks":[{"node":"b","since":1},{"node":"a","since":2}]}', '["a","b"]'),
        ('{"locks":[]}', "[]"),
        ('{"locks":[{"node":7}]}', "[]"),
        ("[" * 5000, "[]"),
        ("", "[]"),
    ],
)
def test_reserved_nodes_are_read_from_the_annotation_and_empty_if_invalid_or_deleted(text: str, nodes: str) -> None:
    group = msgspec.convert({"metadata": {"name": "g", "annotations": {RESERVATION: text}}}, PodGroup)
    assert kept_nodes(group, is_deleted=False) == nodes
    assert kept_nodes(group, is_deleted=True) == "[]"


def hyper_node(name: str, tier: int, **selector: Any) -> dict[str, Any]:
    spec = {"tier": tier, "members": [{"type": "Node", "selector": selector}]}
    return {"apiVersion": HYPER_NODES.api_version, "kind": "HyperNode", "metadata": {"name": name}, "spec": spec}


@ON_SQLITE
async def test_a_pod_is_in_the_lowest_hypernode_of_its_node(laboratory: Laboratory) -> None:
    for body in (
        hyper_node("zone", 2, regexMatch={"pattern": "^n"}),
        hyper_node("rack", 1, labelMatch={"matchLabels": {"rack": "r7"}}),
    ):
        await laboratory.client.create(HYPER_NODES, body)
    meta = {"name": "n1", "labels": {"rack": "r7"}}
    await laboratory.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": meta})
    laboratory.start()
    async with asyncio.timeout(60):
        while "nodes" not in await laboratory.database.cursors():
            await asyncio.sleep(0.05)
    await laboratory.put(pod("a"))
    rows = await laboratory.until(lambda rows: "a" in rows and rows["a"]["phase"] == "Running")
    assert rows["a"]["domain"] == "rack"
    await laboratory.client.delete(HYPER_NODES, Key("", "rack"))
    await asyncio.sleep(0.5)
    await laboratory.put(pod("b"))
    rows = await laboratory.until(lambda rows: "b" in rows and rows["b"]["phase"] == "Running")
    assert (rows["a"]["domain"], rows["b"]["domain"]) == ("rack", "zone")


async def test_domain_of_a_node_follows_its_labels_and_the_listed_hypernodes() -> None:
    domains = Domains()
    assert domains.of("n1") is None
    for number, body in enumerate(
        (
            hyper_node("exact", 1, exactMatch={"name": "n1"}),
            hyper_node("red", 1, labelMatch={"matchLabels": {"rack": "red"}}),
            hyper_node("all", 9, regexMatch={"pattern": "n[0-9]"}),
        )
    ):
        body["metadata"]["uid"] = f"u{number}"
        await domains.take(msgspec.json.decode(json.dumps(body), type=HyperNode), 1, 1, is_deleted=False)
    assert [domains.of(node) for node in ("n1", "n2", "x", None)] == ["exact", "all", None, None]
    domains.note("n2", {"rack": "red"})
    assert domains.of("n2") == "red"
    await domains.take_list({"u2"}, None, 1, 1)
    assert [domains.of("n1"), domains.of("n2")] == ["all", "all"]


@ON_SQLITE
async def test_a_job_that_is_created_while_jobs_are_listed_is_not_removed(database: Database) -> None:
    """Its PodGroup is seen after the list has begun, and before the watch tells of the Job."""
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "new", "uid": "new", "controller": True}
    group = msgspec.convert({"metadata": {"name": "new", "namespace": "a", "ownerReferences": [owner]}}, PodGroup)
    writer = Writer(database, lambda: 9000.0, lambda *_: None)
    running = asyncio.create_task(writer.run())
    sink: KindSink[Job] = KindSink(database, writer, job_rows, jobs, lambda *_: None)
    for uid in ("stays", "goes"):
        await sink.take(
            msgspec.convert({"metadata": {"name": uid, "namespace": "a", "uid": uid}}, Job), 90, 9000, is_deleted=False
        )
    for table, version, row in group_rows(group, 9000, is_deleted=False):
        await writer.add(table, version or 0, row)
    await sink.take_list({"stays"}, None, 9000, 9000)
    await sink.take(
        msgspec.convert({"metadata": {"name": "new", "namespace": "a", "uid": "new"}}, Job), 103, 9001, is_deleted=False
    )
    await writer.flushed()
    running.cancel()
    assert sorted(await database.still_there(jobs)) == ["new", "stays"]

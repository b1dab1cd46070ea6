"""Who did what: Jobs, Commands and queues, with the user where somebody could know it."""

from __future__ import annotations

from typing import Any

import pytest

from pyroclast.api import keys
from pyroclast.api.records.groups import Guarantee, Queue, QueueSpec
from pyroclast.api.records.jobs import Command
from pyroclast.api.records.meta import Meta, OwnerReference
from pyroclast_recorder.database.batches import Batch
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import Row, commands, jobs
from pyroclast_recorder.facts.jobs import command_facts
from pyroclast_recorder.following.queue_sink import QueueSink
from pyroclast_recorder.reading.actions import actions
from pyroclast_recorder.reading.questions import history_question

from .conftest import ON_SQLITE, write

NOON = 1_795_521_600


class Taker:
    """Writes each row at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, table: Any, version: int, row: Row) -> None:
        batch = Batch(self._database.cluster)
        batch.add(table, version, row)
        await self._database.write(batch, NOON)

    def move(self, cursor: Any) -> None: ...

    async def flushed(self) -> None: ...


def command(action: str, **annotations: str) -> Command:
    said = {{"user": keys.SUBMITTED_BY, "mark": keys.AUTHORIZED_FOR}[name]: value for name, value in annotations.items()}
    meta = Meta(name="c", namespace="team", uid=f"c-{action}", creation_timestamp="2026-11-24T12:10:00Z", annotations=said)
    return Command(metadata=meta, action=action, target=OwnerReference(kind="Job", name="train", uid="u"), message="lunch")


def queue(deserved: int, budget: str = "") -> Queue:
    said = {keys.QUEUE_BUDGET: budget} if budget else {}
    spec = QueueSpec(parent="root", deserved={"cpu": deserved}, guarantee=Guarantee())
    return Queue(metadata=Meta(name="red", uid="q", creation_timestamp="2026-11-24T11:59:00Z", annotations=said), spec=spec)


@pytest.fixture
async def recorded(database: Database) -> Database:
    job = {"uid": "u", "namespace": "team", "name": "train", "submitted_by": "ann", "created": NOON}
    flow = {"submitted_by": "unknown", "owner_kind": "JobFlow", "owner_name": "etl"}
    given = command("AbortJob", user="bob", mark="u/AbortJob"), command("ResumeJob", user="mallory")
    rows = [(jobs, 9, {**job, "removed": NOON + 900}), (jobs, 1, {**job, **flow, "uid": "f", "name": "step"})]
    await write(database, [*rows, *((commands, 1, command_facts(each)) for each in given)], NOON)
    for at, version, each in ((NOON + 60, 1, queue(8)), (NOON + 120, 2, queue(8)), (NOON + 180, 3, queue(16, budget="cpu=9h"))):
        sink = QueueSink(database, Taker(database), lambda: float(NOON))  # also after a restart, a change is written once
        await sink.take(each, version, at, is_deleted=False)
    await sink.take_list(set(), None, NOON + 240, NOON + 240, 5)
    return database


async def asked(database: Database, visible: list[str], **query: str) -> list[tuple[str, str | None, str, str, str | None]]:
    async with database.reading() as connection:
        question = history_question(query, NOON + 3600)
        items, _ = await actions(connection, database.cluster, question, visible)
    return [(each["at"][11:19], each["user"], each["verb"], each["name"], each["message"]) for each in items]


@ON_SQLITE
async def test_actions_name_the_user_only_where_admission_wrote_it(recorded: Database) -> None:
    text = f"deserved.cpu: 8 → 16; {keys.QUEUE_BUDGET}: none → cpu=9h"
    assert await asked(recorded, ["team"]) == [
        ("12:15:00", None, "Deleted", "train", None),
        ("12:10:00", "bob", "AbortJob", "train", "lunch"),
        ("12:10:00", None, "ResumeJob", "train", "lunch"),
        ("12:04:00", None, "Deleted", "red", None),
        ("12:03:00", None, "Changed", "red", text),
        ("12:00:00", None, "Submitted", "step", "by JobFlow/etl"),
        ("12:00:00", "ann", "Submitted", "train", None),
        ("11:59:00", None, "Created", "red", None),
    ], "without the mark of admission, a user could have written the name of another"


@ON_SQLITE
async def test_actions_are_filtered_and_those_of_other_namespaces_are_not_told(recorded: Database) -> None:
    assert [each[2] for each in await asked(recorded, [])] == ["Deleted", "Changed", "Created"], "queues belong to no namespace"
    assert [each[2] for each in await asked(recorded, ["team"], user="bob")] == ["AbortJob"]
    assert [each[3] for each in await asked(recorded, ["team"], name="step")] == ["step"]
    assert [each[2] for each in await asked(recorded, ["team"], limit="2")] == ["Deleted", "AbortJob"]
    of_red = {"since": "2026-11-24T12:02:00Z", "namespace": "team", "name": "red"}
    assert [each[3] for each in await asked(recorded, ["team"], **of_red)] == ["red", "red"]

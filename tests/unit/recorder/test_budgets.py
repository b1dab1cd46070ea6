"""What queues have spent: whose use counts, when it is written, and that it is what a report of usage says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyroclast.api import crds
from pyroclast.api.budgets import Spent, period_at, read_budget, read_spent, written_spent
from pyroclast.api.keys import QUEUE_BUDGET, QUEUE_BUDGET_SPENT
from pyroclast.api.types import CRDS, QUEUES, Key
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast_recorder.budgets.deciding import Slot, budgeted, crossed, hours_in, is_worth_a_write, spent_by
from pyroclast_recorder.budgets.keeper import BudgetKeeper, settled_at, use_since
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import jobs, pods
from pyroclast_recorder.reading.queries import usage
from pyroclast_recorder.reading.questions import UsageQuestion
from tests.unit.running import running_server

from .conftest import ON_SQLITE, write

HOUR = 3600
GPU = "nvidia.com/gpu"
NOON = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp())


def queue(
    name: str, parent: str = "", budget: str = "", spent: str = "", created: str = "2026-02-01T00:00:00Z"
) -> dict[str, Any]:
    annotations = {key: text for key, text in ((QUEUE_BUDGET, budget), (QUEUE_BUDGET_SPENT, spent)) if text}
    metadata = {"name": name, "uid": name, "creationTimestamp": created, "annotations": annotations}
    return {"metadata": metadata, "spec": {"parent": parent} if parent else {}}


def text_of(limit: str = "100h", **fields: Any) -> str:
    return json.dumps({"period": "month", "limits": {GPU: limit}, **fields})


# -- whose use counts --------------------------------------------------------------------------------------------------


def test_queue_budget_includes_the_usage_of_descendant_queues() -> None:
    listed = [
        queue("root", budget=text_of()),
        queue("a", budget=text_of()),
        queue("b", "a", budget=text_of()),
        queue("c", "b"),
        queue("d"),
    ]
    use = {Slot(name, "", GPU): (1000 * HOUR, 0) for name in ("a", "b", "c", "d", "gone")}
    found = {each.name: spent_by(each, use, NOON).amounts[GPU] for each in budgeted(listed, NOON)}
    assert found == {"root": 5.0, "a": 3.0, "b": 2.0}, (
        "without recorded ancestors, a queue that is gone counts for the root alone"
    )


@pytest.mark.parametrize(
    "others", [[queue("a-1", "a")], [], [queue("a-1", "b"), queue("b")]], ids=["stays", "is deleted", "moves away"]
)
def test_past_usage_of_a_queue_counts_for_the_budget_that_it_was_below(others: list[dict[str, Any]]) -> None:
    use = {Slot("a-1", "root/a", GPU): (99_000 * HOUR, 0), Slot("a-1", "root/b", GPU): (1000 * HOUR, 0)}
    found = {
        each.name: spent_by(each, use, NOON).amounts[GPU] for each in budgeted([queue("a", budget=text_of()), *others], NOON)
    }
    assert found == {"a": 99.0}


def test_budget_of_a_queue_in_a_parent_cycle_covers_the_queues_of_the_cycle() -> None:
    listed = [queue("a", "b", budget=text_of()), queue("b", "a")]
    assert [each.members for each in budgeted(listed, NOON)] == [frozenset("ab")]


def test_queue_with_an_invalid_budget_is_ignored() -> None:
    assert budgeted([queue("a", budget="{"), queue("b", budget=text_of())], NOON)[0].name == "b"


def test_spent_hours_are_in_cores_bytes_and_devices() -> None:
    assert hours_in("cpu", 500 * HOUR) == 0.5
    assert hours_in("memory", 3 * HOUR) == 3 * 2**20
    assert hours_in(GPU, 2000 * HOUR) == 2.0


def test_a_budget_without_period_counts_since_its_queue_was_made() -> None:
    (found,) = budgeted([queue("a", budget=text_of(period="none"))], NOON)
    assert found.span.begin == int(datetime(2026, 2, 1, tzinfo=UTC).timestamp())


# -- when it is written ------------------------------------------------------------------------------------------------


def worth(old: float | None, new: float, age: float = 60, *, limit: str = "100h", since: int = 0, doubt: float = 0.0) -> bool:
    begin = period_at(read_budget(text_of()).period, "UTC", NOON).begin
    said = "" if old is None else written_spent(Spent(int(NOON - age), begin - since, {GPU: old}, {}))
    (found,) = budgeted([queue("a", budget=text_of(limit), spent=said)], NOON)
    return is_worth_a_write(found, Spent(NOON, begin, {GPU: new}, {GPU: doubt}), 60, 300)


WRITES = {
    "the first amount": (worth(None, 0), True),
    "a change of 0.1 %": (worth(10, 10.1), True),
    "less than that": (worth(10, 10.09), False),
    "less than before": (worth(10, 9.5), True),
    "within a minute": (worth(10, 20, age=30), False),
    "the same for a while": (worth(10, 10, age=299), False),
    "the same for so long that nobody would believe it soon": (worth(10, 10, age=300), True),
    "a new period": (worth(10, 0, age=1, since=86_400), True),
    "more doubt": (worth(10, 10, doubt=1.0), True),
    "anything of nothing": (worth(0, 0.1, limit="0h"), True),
    "nothing of nothing": (worth(0, 0, limit="0h"), False),
    "an annotation from the future": (worth(10, 10, age=-1000), True),
}


@pytest.mark.parametrize(("is_worth", "expected"), WRITES.values(), ids=WRITES)
def test_spent_amount_is_written_only_when_changed_enough_or_too_old(is_worth: bool, expected: bool) -> None:
    assert is_worth is expected


def test_added_budget_limit_makes_the_spent_amount_worth_a_write() -> None:
    begin = period_at(read_budget(text_of()).period, "UTC", NOON).begin
    said = written_spent(Spent(NOON - 1, begin, {GPU: 1.0}, {}))
    (found,) = budgeted([queue("a", budget='{"period":"month","limits":{"cpu":"1h","nvidia.com/gpu":"9h"}}', spent=said)], NOON)
    assert is_worth_a_write(found, Spent(NOON, begin, {GPU: 1.0, "cpu": 0.0}, {}), 60, 300)


@given(st.lists(st.floats(0, 0.5), min_size=1, max_size=200))
@example([*[0.5] * 15, 0.4996, 0.1])
def test_each_crossed_budget_share_is_reported_once_for_any_steps(steps: list[float]) -> None:
    begin = period_at(read_budget(text_of()).period, "UTC", NOON).begin
    said, total, told = "", 0.0, []
    for step in steps:
        total += step
        (found,) = budgeted([queue("a", budget=text_of("10h"), spent=said)], NOON)
        new = Spent(NOON, begin, {GPU: total}, {})
        told += [each.share for each in crossed(found, new)]
        said = written_spent(new)
    assert told == [share for share in (0.8, 0.95) if float(f"{total:.3f}") >= share * 10]


def test_jump_over_both_budget_shares_reports_only_the_higher() -> None:
    (found,) = budgeted([queue("a", budget=text_of("10h"))], NOON)
    begin = found.span.begin
    assert [each.share for each in crossed(found, Spent(NOON, begin, {GPU: 20.0}, {}))] == [0.95]


# -- what is read ------------------------------------------------------------------------------------------------------


def pod_row(name: str, bound: int, end: int | None = None, *, queue: str = "red", gpus: int = 1, **more: int) -> dict[str, Any]:
    requests = json.dumps({GPU: gpus * 1000, "cpu": 1000})
    row = {"uid": name, "namespace": "ns", "name": name, "queue": queue, "requests": requests, "bound": bound, **more}
    return row if end is None else {**row, "released_high": end, "finished": end}


async def recorded(database: Database, rows: list[dict[str, Any]], now: int = NOON) -> None:
    job = {"uid": "j", "namespace": "ns", "name": "j", "queue": "blue", "created": 1}
    await write(database, [(jobs, 1, job), *((pods, 1, row) for row in rows)], now)
    await database.settle(now)


ROWS = [
    pod_row("over", NOON - 20 * HOUR, NOON - 15 * HOUR),
    pod_row("runs", NOON - 2 * HOUR - 600, gpus=2),
    {**pod_row("of-a-job", NOON - 5 * HOUR, NOON - 4 * HOUR), "job": "j"},
    pod_row("unseen", NOON - 9 * HOUR, queue="blue", released_low=NOON - 8 * HOUR, released_high=NOON - 7 * HOUR),
]


@pytest.mark.parametrize("since", [NOON - 24 * HOUR, NOON - 16 * HOUR, NOON - 5 * HOUR, NOON - HOUR])
async def test_budget_usage_equals_the_usage_report(database: Database, since: int) -> None:
    await recorded(database, ROWS)
    async with database.reading() as connection:
        found = await use_since(connection, database.cluster, since, NOON, [GPU])
        question = UsageQuestion(since, NOON, ("queue", "resource"), "all")
        report = await usage(connection, database.cluster, question, ["ns"])
        assert await settled_at(connection, database.cluster) == NOON
    assert found == {
        Slot(each["queue"], "", GPU): (each["asked"], each["doubtful"])
        for each in report
        if each["resource"] == GPU and (each["asked"] or each["doubtful"])
    }


@pytest.mark.parametrize("minutes", [15, 30, 45])
async def test_budget_usage_is_exact_when_the_period_begins_within_an_hour(database: Database, minutes: int) -> None:
    """As those of India and Nepal do."""
    since = NOON - 20 * HOUR + minutes * 60
    await recorded(database, ROWS)
    async with database.reading() as connection:
        found = await use_since(connection, database.cluster, since, NOON, [GPU])
    assert found[Slot("red", "", GPU)][0] == 1000 * (5 * HOUR - minutes * 60) + 2000 * (2 * HOUR + 600)


async def test_budget_usage_is_exact_for_a_period_shorter_than_an_hour(database: Database) -> None:
    await recorded(database, ROWS)
    async with database.reading() as connection:
        found = await use_since(connection, database.cluster, NOON - 30 * 60 - 10, NOON, [GPU])
    assert found == {Slot("red", "", GPU): (2000 * (30 * 60 + 10), 0)}


# -- writing it --------------------------------------------------------------------------------------------------------


@dataclass
class Events:
    said: list[str] = field(default_factory=list)

    def event(self, about: Any, kind: str, reason: str, message: str) -> None:
        self.said.append(f"{about.name} {kind} {reason} {message}")


@dataclass
class Laboratory:
    client: Client
    database: Database
    events: Events
    keeper: BudgetKeeper

    async def make(self, name: str, budget: str = "") -> None:
        body = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": {}}
        if budget:
            body["metadata"]["annotations"] = {QUEUE_BUDGET: budget}  # type: ignore[index]
        await self.client.create(QUEUES, body)

    async def annotations(self, name: str) -> dict[str, str]:
        return dict((await self.client.get(QUEUES, Key("", name)))["metadata"].get("annotations") or {})


@pytest.fixture
async def laboratory(database: Database) -> AsyncIterator[Laboratory]:
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        for crd in crds.custom_resource_definitions():
            if crd["metadata"]["name"] == QUEUES.qualified:
                await client.create(CRDS, crd)
        await server.settle()
        events = Events()

        async def settle() -> None:
            await database.settle(int(client.now()))

        yield Laboratory(client, database, events, BudgetKeeper(client, database, settle, 60.0, events))  # type: ignore[arg-type]


@ON_SQLITE
async def test_spent_annotation_is_written_and_a_warning_event_names_the_crossed_share(laboratory: Laboratory) -> None:
    now = int(laboratory.client.now())
    await recorded(laboratory.database, [pod_row("runs", now - 9 * HOUR)], now)
    for name, budget in (("red", text_of("0.5h", period="year")), ("blue", ""), ("bad", "{")):
        await laboratory.make(name, budget)
    await laboratory.keeper.write()
    spent = read_spent((await laboratory.annotations("red"))[QUEUE_BUDGET_SPENT])
    assert spent is not None
    assert now <= spent.as_of <= laboratory.client.now()
    begin = max(now - 9 * HOUR, spent.since)
    assert spent.amounts[GPU] == pytest.approx((spent.as_of - begin) / HOUR, abs=0.002)
    (said,) = laboratory.events.said
    assert said.startswith("red Warning BudgetNearlySpent 95% of the budget for this year is reached: ")
    assert said.endswith(f"h of 0.5h of {GPU} are spent")
    for name in ("blue", "bad"):
        assert QUEUE_BUDGET_SPENT not in await laboratory.annotations(name)


@ON_SQLITE
async def test_spent_annotation_is_not_rewritten_while_usage_is_unchanged(laboratory: Laboratory) -> None:
    await recorded(laboratory.database, [], int(laboratory.client.now()))
    await laboratory.make("red", text_of())
    await laboratory.keeper.write()
    first = await laboratory.annotations("red")
    assert QUEUE_BUDGET_SPENT in first
    await asyncio.sleep(1.1)
    await laboratory.keeper.write()
    assert await laboratory.annotations("red") == first

"""What a PodGroup of Kubernetes says of its wait: place, what it asks for, and when it is likely to start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from pyroclast.api import records
from pyroclast.api.run_lengths import RunLengths, digest
from pyroclast.api.types import NATIVE_POD_GROUPS
from pyroclast.api.waiting import Waiting, read_waiting, written_waiting
from pyroclast_recorder.following.run_lengths import run_lengths
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.explaining.annotations import Start, said_of
from pyroclast_scheduler.explaining.book import WaitingBook, measured
from pyroclast_scheduler.explaining.estimates import Estimator, PassInput, begin
from pyroclast_scheduler.explaining.lengths import Lengths, keys_of
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.tasks import native_key
from pyroclast_scheduler.shell.estimates import WaitingText
from pyroclast_scheduler.shell.explainer import Explainer
from pyroclast_scheduler.shell.native_conditions import conditions_patch
from pyroclast_scheduler.shell.object_metrics import WaitingSeries
from pyroclast_scheduler.shell.writer import Writer
from tests.scenarios import objects
from tests.unit.ending import ended
from tests.unit.scheduler import natives
from tests.unit.scheduler.deciding import decided
from tests.unit.scheduler.shell.test_native_conditions import (
    FULL,
    JOB,
    NOW,
    BothServer,
    Server,
    Silent,
    group,
    our_group,
    our_pod,
)
from tests.unit.scheduler.shell.test_native_conditions import P as PHASE

KEY = native_key("t", "w")
CONDITION = "pyroclast.dev/Waiting"
OWNER = ("batch/v1", "Job", "uid-job")


class Estimates:
    """Says when each of them starts: `start`, or that nobody knows."""

    def __init__(self) -> None:
        self.found: Start | str = "nobody knows"

    def start(self, _key: str) -> Start | str:
        return self.found


def submit(cache: Cache, name: str, size: int, *, node: str = "", **given: Any) -> None:
    cache.natives.group_changed(None, natives.gang(name, size, **given))
    for i in range(size):
        cache.pod_changed(None, natives.pod(f"{name}-{i}", name, node=node))


def full() -> Cache:
    """A cluster whose one node is taken by a gang, for which another one waits in a queue that it does not name itself."""
    cache = natives.world({"n": 2}, ["q"])
    cache.natives.namespace_changed(None, natives.namespace("q"))
    submit(cache, "r", 2, node="n", owner=OWNER)
    submit(cache, "w", 2)
    return cache


def book_of(cache: Cache) -> WaitingBook:
    outcome, _ = decided(cache, natives.SETTINGS)
    book = WaitingBook()
    book.take(outcome.records, outcome.seen, objects.NOW, since={})
    return book


def test_waiting_text_of_a_kubernetes_podgroup_names_queue_jobs_ahead_and_requests():
    cache = full()
    book, current = book_of(cache), cache.groups.current(KEY)
    assert current is not None
    said = read_waiting(WaitingText(book, None).of(current))
    assert said is not None
    assert (said.queue, said.ahead, said.requests, said.start) == ("q", 0, {"cpu": "2", "pods": "2"}, None)


def test_waiting_metrics_count_a_kubernetes_podgroup():
    cache = full()
    book = book_of(cache)
    found = measured(dict(book.counts), list(book), cache.jobs.all_facts(), objects.NOW)
    ((queue, _),) = found.jobs
    assert (queue, found.resources["q", "cpu"], found.oldest["q",]) == ("q", 2.0, 60.0)


@pytest.mark.parametrize("recorded", [True, False], ids=["by the recorder", "by this process"])
def test_a_start_is_estimated_from_run_times_of_earlier_jobs_with_the_same_name(recorded: bool):
    cache = full()
    facts = cache.snapshot().all_jobs[native_key("t", "r")]
    assert keys_of(facts)[0] == "name/t/job"
    estimator, other = Estimator(), Lengths()
    assert estimator.lengths.of(facts)[1].kind == "unknown"
    for seconds in range(100, 140):
        (other if recorded else estimator.lengths).ended(facts, seconds)
    if recorded:
        estimator.lengths.recorded = recorded_of(other, facts)
    made = begin(estimator, PassInput(book_of(cache), cache.view(), {}, objects.NOW))
    while not made.is_done:
        made.step()
    estimator.take(made)
    start = estimator.start(KEY, objects.NOW)
    assert isinstance(start, Start)
    assert objects.NOW < start.earliest <= start.latest < objects.NOW + 300
    assert start.basis == "1 from history (n=40 at least); not yet measured in queue q"


def recorded_of(lengths: Lengths, facts: JobFacts) -> RunLengths:
    """What the recorder tells of the same ends."""
    alike = ",".join(map(digest, keys_of(facts)))
    row = {"phase": "Completed", "started": 0, "removed": None, "estimate": None, "alike": alike, "owner": ""}
    return run_lengths([{**row, "ended": int(seconds)} for seconds in lengths._ended[keys_of(facts)[0]]], 1000)


def test_a_podgroup_takes_the_run_time_declared_on_its_pod():
    cache = natives.world({"n": 2})
    cache.natives.group_changed(None, natives.gang("r", 1))
    cache.pod_changed(None, natives.pod("p", "r", node="n", annotations={"scheduling.volcano.sh/running-estimate": "90s"}))
    assert cache.snapshot().all_jobs[native_key("t", "r")].declared_seconds == 90


TEXT = written_waiting(Waiting(code="NodesFull", queue="q", ahead=1))
SAID = (CONDITION, "True", "NodesFull", TEXT)


@pytest.mark.parametrize(
    ("phase", "text", "said", "waiting", "want"),
    [
        (PHASE.INQUEUE, FULL, [], TEXT, [SAID]),
        (PHASE.INQUEUE, FULL, [SAID], None, []),
        (PHASE.INQUEUE, FULL, [SAID], TEXT, []),
        (PHASE.RUNNING, "", [SAID], "", [{"$patch": "delete", "type": CONDITION}]),
        (PHASE.RUNNING, "", [], "", []),
        (PHASE.INQUEUE, FULL, [(*SAID[:3], "nonsense")], None, [{"$patch": "delete", "type": CONDITION}]),
    ],
    ids=["new", "left alone", "the same", "it started", "it never waited", "nonsense of others"],
)
def test_waiting_condition_is_added_while_waiting_and_deleted_after_the_start(
    phase: Any, text: str, said: Sequence[Any], waiting: str | None, want: Sequence[Any]
):
    patch = conditions_patch(group(phase, text, said), NOW, waiting=waiting)
    found = [each for each in patch["status"]["conditions"] if each["type"] == CONDITION] if patch else []
    shown = [each if "$patch" in each else (each["type"], each["status"], each["reason"], each["message"]) for each in found]
    assert shown == want


class Api(Server):
    """Takes away conditions too."""

    async def patch(self, kind: Any, key: Any, patch: Any, how: Any, **more: Any) -> Any:
        if kind is not NATIVE_POD_GROUPS:
            return {}
        conditions = patch["status"]["conditions"]
        gone = {each["type"] for each in conditions if "$patch" in each}
        self.deleted = [*getattr(self, "deleted", []), *gone]
        patch = {**patch, "status": {"conditions": [each for each in conditions if "$patch" not in each]}}
        body = await super().patch(kind, key, patch, how, **more)
        record = next(each for each in self.cache.natives.records() if each.key == key)
        kept = tuple(each for each in record.status.conditions if each.type not in gone)
        self.cache.natives.group_changed(
            record, msgspec.structs.replace(record, status=records.NativePodGroupStatus(conditions=kept))
        )
        return body


async def run(cache: Cache, server: Server, estimates: Estimates, seconds: int, each_second: Callable[[int], None]) -> None:
    """A session every second, and what the service tells of it. `each_second`: called with its number before the session."""
    book, loop = WaitingBook(), asyncio.get_running_loop()
    text = WaitingText(book, estimates)  # type: ignore[arg-type]
    writer = Writer(server, cache, Silent(), waiting=text.of, now=loop.time)  # type: ignore[arg-type]
    series, reserved = WaitingSeries(CollectorRegistry()), SimpleNamespace(by_job={})
    explainer = Explainer(book, cache, writer, series, text=text, estimates=None, reserved=reserved, now=loop.time)  # type: ignore[arg-type]
    tasks = [asyncio.create_task(each.run()) for each in (writer, explainer)]
    for second in range(seconds):
        each_second(second)
        outcome, _ = decided(cache, natives.SETTINGS)
        explainer.take(outcome)
        await writer.take(outcome)
        await asyncio.sleep(1)
    for task in tasks:
        await ended(task)


def texts(server: Server) -> list[Waiting | None]:
    return [read_waiting(message) for _, _, said in server.patches for kind, _, _, message in said if kind == CONDITION]


@pytest.mark.looptime
async def test_an_estimated_start_is_written_once_known_and_removed_when_the_podgroup_starts():
    cache, estimates = full(), Estimates()
    server = Api(cache)

    def each_second(second: int) -> None:
        if second == 20:
            assert len(server.patches) == 2, "one of each group"
            estimates.found = Start(objects.NOW + 60, objects.NOW + 120, objects.NOW + 240, "2 declared run times")
        if second == 30:
            estimates.found = Start(objects.NOW + 600, objects.NOW + 700, objects.NOW + 800, "2 declared run times")
        if second == 60:
            for i in range(2):
                cache.pod_changed(natives.pod(f"r-{i}", "r", node="n"), None)
                cache.pod_changed(natives.pod(f"w-{i}", "w"), natives.pod(f"w-{i}", "w", node="n"))

    await run(cache, server, estimates, 75, each_second)
    first, second = texts(server)
    assert first is not None
    assert second is not None
    assert (first.queue, first.start, second.basis) == ("q", None, "2 declared run times")
    assert second.start is not None
    assert server.deleted == [CONDITION]
    assert [name for _, name, _ in server.patches].count("w") == 3, "numbers alone are written every five minutes at most"


@pytest.mark.looptime
async def test_a_failed_write_of_an_estimated_start_is_retried():
    cache, estimates = full(), Estimates()
    server = Api(cache)

    def each_second(second: int) -> None:
        if second == 20:
            server.refusals = len(server.patches) + 1
            estimates.found = Start(objects.NOW + 60, objects.NOW + 120, objects.NOW + 240, "2 declared run times")

    await run(cache, server, estimates, 60, each_second)
    group = cache.groups.current(KEY)
    assert group is not None
    said = read_waiting(said_of(group))
    assert said is not None
    assert said.basis == "2 declared run times"


@pytest.mark.looptime
async def test_a_podgroup_that_has_only_the_other_conditions_gets_the_waiting_condition():
    """As after an update of the scheduler."""
    cache = natives.world({"n": 2})
    why = ("False", "Unschedulable", "2 of 3 pods present")
    said = [("PodGroupInitiallyScheduled", *why), ("pyroclast.dev/Queued", "True", "PodsMissing", why[2])]
    fields = ("type", "status", "reason", "message")
    conditions = tuple(records.NativeCondition(**dict(zip(fields, each, strict=True))) for each in said)
    status = records.NativePodGroupStatus(conditions=conditions)
    cache.natives.group_changed(None, msgspec.structs.replace(natives.gang("w", 3), status=status))
    for i in range(2):
        cache.pod_changed(None, natives.pod(f"w-{i}", "w"))
    server = Api(cache)
    await run(cache, server, Estimates(), 15, lambda _: None)
    assert [[kind for kind, *_ in said] for _, _, said in server.patches] == [[CONDITION]]


@pytest.mark.looptime
async def test_the_kubernetes_podgroup_of_a_volcano_job_gets_no_waiting_condition():
    cache, ours = natives.world({"n": 3}), our_group(3)
    cache.natives.group_changed(None, natives.gang(owner=JOB))
    cache.group_changed(None, ours)
    cache.pod_changed(None, our_pod("p"))
    server = BothServer(cache, ours)
    await run(cache, server, Estimates(), 15, lambda _: None)
    assert server.patches != []
    assert texts(server) == []

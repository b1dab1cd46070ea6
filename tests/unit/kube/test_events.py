from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast.api.records.jobs import Job
from pyroclast.api.records.meta import Meta
from pyroclast.api.types import JOBS
from pyroclast.kube.events.correlator import BURST, REFILL, SIMILAR, Correlator, Emission, Reference, Report
from pyroclast.kube.events.recorder import LONGEST_BACKLOG, EventRecorder
from pyroclast.kube.http.client import Client
from tests.unit.ending import ended
from tests.unit.kube.fault_server import FaultServer, answer, cut, hang, status

AT = 1_800_000_000.0
JOB = Reference("batch.volcano.sh/v1alpha1", "Job", "ns", "job", "uid-1", "7")


def take(correlator: Correlator, message: str, at: float = AT, regarding: Reference = JOB, reason: str = "R") -> Emission | None:
    return correlator.take(Report(regarding, "Warning", reason, message), at)


def test_the_first_report_becomes_a_new_event_with_all_fields() -> None:
    emission = take(Correlator("vc-controller-manager"), "it happened")
    assert emission is not None
    assert emission.is_new
    assert emission.body == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "ns", "name": f"job.{int(AT * 1e9):x}"},
        "involvedObject": {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "namespace": "ns",
            "name": "job",
            "uid": "uid-1",
            "resourceVersion": "7",
        },
        "type": "Warning",
        "reason": "R",
        "message": "it happened",
        "source": {"component": "vc-controller-manager"},
        "reportingComponent": "vc-controller-manager",
        "firstTimestamp": "2027-01-15T08:00:00Z",
        "lastTimestamp": "2027-01-15T08:00:00Z",
        "count": 1,
    }


def test_references_of_a_record_and_of_a_manifest_are_equal() -> None:
    record = Job(metadata=Meta(namespace="ns", name="job", uid="uid-1", resource_version="7"))
    body = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"namespace": "ns", "name": "job", "uid": "uid-1", "resourceVersion": "7"},
    }
    assert Reference.of(record, JOBS) == Reference.to(body) == JOB
    assert Reference.to(body).resource_version == "7"


def test_a_repeated_event_is_counted() -> None:
    correlator = Correlator("c")
    first, second = take(correlator, "same"), take(correlator, "same", AT + 60)
    assert first is not None
    assert second is not None
    assert second.key == first.key
    assert not second.is_new
    assert second.patch == {"count": 2, "lastTimestamp": "2027-01-15T08:01:00Z", "message": "same"}
    assert second.body["firstTimestamp"] == first.body["firstTimestamp"]


def test_a_repeated_event_is_counted_across_resource_versions_of_its_object() -> None:
    correlator = Correlator("c")
    take(correlator, "same")
    later = Reference("batch.volcano.sh/v1alpha1", "Job", "ns", "job", "uid-1", "99")
    again = take(correlator, "same", AT + 1, later)
    assert again is not None
    assert again.body["count"] == 2


def test_many_similar_events_become_one() -> None:
    correlator = Correlator("c")
    emissions = [take(correlator, f"message {number}", AT + number) for number in range(SIMILAR + 5)]
    assert all(emission is not None and emission.is_new for emission in emissions[: SIMILAR + 1])
    combined = emissions[SIMILAR:]
    assert [emission and emission.body["count"] for emission in combined] == [1, 2, 3, 4, 5]
    assert len({emission and emission.key for emission in combined}) == 1
    assert combined[-1] is not None
    assert combined[-1].body["message"] == f"(combined from similar events): message {SIMILAR + 4}"
    other = take(correlator, "message 3", AT + 20, reason="Other")
    assert other is not None
    assert other.body["message"] == "message 3"


def test_similar_events_that_are_far_apart_stay_apart() -> None:
    correlator = Correlator("c")
    emissions = [take(correlator, f"message {number}", AT + 601 * number) for number in range(30)]
    assert all(emission is not None and not emission.body["message"].startswith("(") for emission in emissions)


def test_repeated_events_about_one_object_are_rate_limited_after_a_burst() -> None:
    correlator = Correlator("c")
    assert sum(take(correlator, "same", AT) is not None for _ in range(100)) == BURST
    later = take(correlator, "same", AT + 301)
    assert later is not None
    assert later.body["count"] == 101
    assert take(correlator, "same", AT + 302) is None
    assert take(correlator, "same", AT + 302, Reference("v1", "Pod", "ns", "p", "u")) is not None
    assert take(correlator, "rare", AT + 302, reason="Other") is not None, "what comes often hides nothing else"


def test_long_event_messages_and_names_are_truncated() -> None:
    correlator = Correlator("c")
    emission = take(correlator, "é" * 2000, regarding=Reference("v1", "Node", "", "n" * 253, "u"))
    assert emission is not None
    assert len(emission.body["message"].encode()) <= 1024
    assert emission.key.namespace == "default"
    assert len(emission.key.name) <= 253
    assert "namespace" not in emission.body["involvedObject"]


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_event_counts_only_grow_and_add_up_to_the_occurrences(seed: int) -> None:
    """The rate limit hides a count until the next event: at the end each message comes once more, and then combined ones."""
    rng = random.Random(seed)
    occurrences = [(rng.choice("ab"), rng.randrange(21), rng.choice([0, 0, 0, 0, 30, 700])) for _ in range(200)]
    last = [(name, message, BURST / REFILL if message < 21 else 0) for name in "ab" for message in range(21 + SIMILAR)]
    correlator = Correlator("c")
    now, counts, names = AT, {}, set()
    for name, message, pause in [*occurrences, *last]:
        now += pause
        emission = take(correlator, str(message), now, Reference("v1", "Pod", "ns", name, name))
        if emission is not None:
            assert emission.is_new == (emission.body["count"] == 1)
            assert emission.body["count"] > counts.get(emission.key, 0)
            counts[emission.key] = emission.body["count"]
            names.add(emission.key.name)
    assert len(names) == len(counts)
    assert sum(counts.values()) == len(occurrences) + len(last)


EVENTS = "POST /api/v1/namespaces/ns/events"


class Ticking:
    def __init__(self) -> None:
        self.now = AT

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


async def test_the_recorder_creates_an_event_and_patches_its_repetition(server: FaultServer, client: Client) -> None:
    server.on(EVENTS, answer(201, {}))
    recorder = EventRecorder(client, "c", now=Ticking())
    running = asyncio.ensure_future(recorder.run())
    recorder.event(JOB, "Normal", "Created", "one")
    await until(lambda: server.requests)
    name = server.requests[0].json["metadata"]["name"]
    server.on(f"PATCH /api/v1/namespaces/ns/events/{name}", answer(200, {}))
    recorder.event(JOB, "Normal", "Created", "one")
    await until(lambda: len(server.requests) == 2)
    assert server.requests[1].method == "PATCH"
    assert server.requests[1].json["count"] == 2
    await ended(running)


async def test_an_event_repeated_before_it_is_sent_is_created_once_with_its_count(server: FaultServer, client: Client) -> None:
    server.on(EVENTS, answer(201, {}))
    recorder = EventRecorder(client, "c", now=Ticking())
    for _ in range(7):
        recorder.event(JOB, "Normal", "Created", "same")
    running = asyncio.ensure_future(recorder.run())
    await until(lambda: server.requests)
    await asyncio.sleep(0.05)
    assert [(got.method, got.json["count"]) for got in server.requests] == [("POST", 7)]
    await ended(running)


async def test_an_event_that_the_server_no_longer_has_is_created_again(server: FaultServer, client: Client) -> None:
    server.on(EVENTS, answer(201, {}))  # every PATCH is answered with 404
    recorder = EventRecorder(client, "c", now=Ticking())
    running = asyncio.ensure_future(recorder.run())
    recorder.event(JOB, "Normal", "Created", "one")
    await until(lambda: len(server.requests) == 1)
    recorder.event(JOB, "Normal", "Created", "one")
    await until(lambda: len(server.requests) == 3)
    assert [(got.method, got.json["count"]) for got in server.requests] == [("POST", 1), ("PATCH", 2), ("POST", 2)]
    await ended(running)


@pytest.mark.parametrize("fault", [status(403, "Forbidden"), status(404, "NotFound"), status(422, "Invalid"), cut])
async def test_an_event_that_cannot_be_sent_does_not_stop_the_recorder(server: FaultServer, client: Client, fault) -> None:
    server.on(EVENTS, fault, answer(201, {}))
    recorder = EventRecorder(client, "c", now=Ticking())
    running = asyncio.ensure_future(recorder.run())
    recorder.event(JOB, "Normal", "A", "one")
    recorder.event({"metadata": {"namespace": "ns", "name": "x"}}, "Normal", "B", "two")
    await until(lambda: server.requests and server.requests[-1].json["message"] == "two")
    await ended(running)


async def test_a_slow_event_request_delays_no_other_event_and_is_not_sent_twice(server: FaultServer, client: Client) -> None:
    server.on(EVENTS, hang, answer(201, {}))
    recorder = EventRecorder(client, "c", now=Ticking())
    running = asyncio.ensure_future(recorder.run())
    recorder.event(JOB, "Normal", "Created", "one")
    await until(lambda: server.requests)
    recorder.event(JOB, "Normal", "Created", "one")
    recorder.event(JOB, "Normal", "Started", "two")
    await until(lambda: len(server.requests) == 2)
    await asyncio.sleep(0.05)
    assert [(got.method, got.json["reason"]) for got in server.requests] == [("POST", "Created"), ("POST", "Started")]
    await ended(running)


async def test_the_event_backlog_is_bounded(server: FaultServer, client: Client) -> None:
    recorder = EventRecorder(client, "c", now=Ticking())
    for number in range(LONGEST_BACKLOG + 50):
        recorder.event(Reference("v1", "Pod", "ns", f"p{number}", ""), "Normal", "A", "x")
    assert len(recorder._backlog) == LONGEST_BACKLOG


async def test_pending_events_are_sent_when_the_recorder_stops(server: FaultServer, client: Client) -> None:
    server.on(EVENTS, answer(201, {}))
    recorder = EventRecorder(client, "c", now=Ticking())
    running = asyncio.ensure_future(recorder.run())
    await asyncio.sleep(0)
    recorder.event(JOB, "Normal", "Stopped", "bye")
    await ended(running)
    assert server.requests[0].json["message"] == "bye"

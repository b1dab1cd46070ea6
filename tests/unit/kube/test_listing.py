"""How the list of an informer is read: as a stream, in pages, with its faults, and what it keeps in memory."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from typing import Any

import pytest

from pyroclast.api.records import Job, Node, Pod
from pyroclast.api.types import JOBS, Key
from pyroclast.kube.basics.errors import ConnectionFailed, Expired
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.paging import PAGE_BYTES, Page, each_page, next_limit
from pyroclast.kube.watch.decode import Decoder, Partial, Undecodable
from pyroclast.kube.watch.follower import Timing
from pyroclast.kube.watch.store import Store
from tests.unit.kube.fault_server import FaultServer, Observed, Watch, answer, cut, status
from tests.unit.kube.test_informer import LIST, WATCH, Running, bookmark, event, gone, pod, pods

STREAM = "STREAM /api/v1/pods"


def end(version: int) -> dict[str, Any]:
    meta = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
    return event("BOOKMARK", {"kind": "Pod", "metadata": meta})


async def test_informer_streams_the_list_from_a_server_that_supports_streaming_lists(server: FaultServer, client: Client) -> None:
    server.on(STREAM, Watch(event("ADDED", pod("a", 1)), event("ADDED", pod("b", 2)), end(5)))
    server.on(WATCH, Watch(event("MODIFIED", pod("a", 7))))
    async with Running(client, label_selector="x=y") as running:
        assert await running.until_changes(3) == [(None, "a@1"), (None, "b@2"), ("a@1", "a@7")]
    assert server.seen(LIST) == []
    assert server.seen(STREAM)[0].query == {
        "labelSelector": "x=y",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "watch": "true",
    }
    assert server.seen(WATCH)[0].query["resourceVersion"] == "5"


async def test_a_server_without_streaming_lists_receives_one_stream_request(server: FaultServer, client: Client) -> None:
    server.on(LIST, pods(pod("a", 1), version=5), pods(pod("a", 1), version=6))
    server.on(WATCH, Watch(gone()), Watch())
    async with Running(client) as running:
        await running.until(lambda: len(server.seen(WATCH)) == 2)
    assert len(server.seen(STREAM)) == 1


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(cut, id="cut"),
        pytest.param(Watch(event("ADDED", pod("old", 1))).cut(), id="cut on the way"),
        pytest.param(Watch(event("ADDED", pod("old", 1))).end(), id="ended on the way"),
        pytest.param(Watch(bookmark(4), gone()), id="expired on the way"),
        pytest.param(status(503, "ServiceUnavailable"), id="unavailable"),
    ],
)
async def test_a_failed_list_stream_is_restarted(server: FaultServer, client: Client, fault) -> None:
    server.on(STREAM, fault, Watch(event("ADDED", pod("a", 1)), end(5))).on(WATCH, Watch())
    async with Running(client) as running:
        await running.informer.synced()
        assert running.names == ["a@1"]


async def test_a_relist_by_stream_reports_the_missed_changes(server: FaultServer, client: Client) -> None:
    first = Watch(*(event("ADDED", pod(name, 1)) for name in ("goes", "stays")), end(5))
    server.on(STREAM, first, Watch(event("ADDED", pod("stays", 1)), event("ADDED", pod("comes", 8)), end(9)))
    server.on(WATCH, Watch(gone()), Watch())
    async with Running(client) as running:
        assert (await running.until_changes(4))[2:] == [(None, "comes@8"), ("goes@1", None)]


async def test_repeatedly_expired_watches_relist_with_backoff(server: FaultServer, client: Client) -> None:
    server.on(LIST, pods(pod("a", 1), version=5)).on(WATCH, status(410, "Expired"))
    async with Running(client, Timing(first_pause=0.05, longest_pause=10.0)):
        await asyncio.sleep(1.5)
    assert 2 <= len(server.seen(LIST)) <= 7  # after 0.05, 0.1, 0.2 … s, each up to a half shorter; without, dozens


async def test_a_watch_is_retried_early_despite_a_retry_after_of_one_hour(server: FaultServer, client: Client) -> None:
    server.on(LIST, pods(version=5)).on(WATCH, status(429, "TooManyRequests", Retry_After="3600"), Watch())
    async with Running(client) as running:
        await running.until(lambda: len(server.seen(WATCH)) == 2)


DEEP = b"[" * 3000 + b"]" * 3000
POISON = {
    "deep": b'{"metadata":{"managedFields":[%s],"name":"bad","namespace":"ns","uid":"u","resourceVersion":"6"}}' % DEEP,
    "deep spec": b'{"spec":{"nodeName":%s},"metadata":{"name":"bad","namespace":"ns","resourceVersion":"6"}}' % DEEP,
    "not UTF-8": b'{"metadata":{"name":"bad","namespace":"ns","resourceVersion":"6"},"spec":{"nodeName":"\xff"}}',
    "half a character": b'{"metadata":{"name":"bad","namespace":"ns","resourceVersion":"6"},"spec":{"nodeName":"\\ud800"}}',
    "wrong": b'{"metadata":{"name":"bad","namespace":"ns","resourceVersion":"6"},"spec":7}',
}


def line(type_: str, raw: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (type_.encode(), raw)


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON.keys())
async def test_an_undecodable_object_is_omitted_and_reported_once_and_others_are_updated(
    server: FaultServer, client: Client, observed: Observed, poison: bytes
) -> None:
    good = json.dumps(pod("good", 1)).encode()
    listed = b'{"metadata":{"resourceVersion":"6"},"items":[%s,%s]}' % (poison, good)
    server.on(LIST, answer(200, listed))
    server.on(WATCH, Watch(line("MODIFIED", poison.replace(b'"6"', b'"7"')), event("MODIFIED", pod("good", 8))))
    told = []
    running = Running(client)
    running.informer.on_fault(lambda fault: told.append((fault.key, fault.error)))
    async with running:
        assert await running.until_changes(2) == [(None, "good@1"), ("good@1", "good@8")]
        assert running.informer.undecodable.keys() == {Key("ns", "bad")}
    assert observed.incidents == ["undecodable"]
    assert [key for key, _ in told] == [Key("ns", "bad")]
    assert told[0][1]


@pytest.mark.parametrize("body", [b"", b"[", b"[]", b'{"items":7}', b'{"items":[', b'{"metadata":[],"items":[]}', DEEP])
def test_a_response_that_is_not_a_list_raises_connection_failed(body: bytes) -> None:
    with pytest.raises(ConnectionFailed, match="not a list"):
        Decoder(Pod).page(body)


async def test_page_limit_follows_the_byte_target_and_grows_after_an_expired_token() -> None:
    asked: list[tuple[int, str]] = []

    async def fetch(query: dict[str, str]) -> Page[int]:
        asked.append((int(query["limit"]), query.get("continue", "")))
        if len(asked) in {3, 6}:
            raise Expired(410, "Expired", "too old")
        return Page(range(100), "5", "" if len(asked) == 9 else "more", PAGE_BYTES // 10)

    begun = [begins async for _, begins in each_page(fetch, {}, 100)]
    assert asked[:3] == [(100, ""), (1000, "more"), (1000, "more")]
    assert asked[3:6] == [(100, ""), (4000, "more"), (4000, "more")]
    assert asked[6:] == [(100, ""), (5000, "more"), (5000, "more")]
    assert begun == [True, False, True, False, True, False, False]


@pytest.mark.parametrize(
    ("items", "size", "limit"), [(100, 10**9, 1), (100, 400_000, PAGE_BYTES // 4000), (100, 100, 5000), (0, 0, 7)]
)
def test_next_limit_follows_the_item_size_within_bounds(items: int, size: int, limit: int) -> None:
    assert next_limit(7, Page(range(items), "1", "", size), PAGE_BYTES) == limit


def test_a_record_does_not_hold_on_to_the_page_it_came_from() -> None:
    filler = pod("filler", 2, annotations={"x": "y" * 1_000_000})
    job = {
        "metadata": {"namespace": "ns", "name": "j", "resourceVersion": "1"},
        "spec": {"tasks": [{"name": "t", "replicas": 1, "template": {"spec": {"containers": []}}}]},
    }
    decoder = Decoder(Job)
    kept = []
    tracemalloc.start()
    try:
        for _ in range(20):
            body = json.dumps({"metadata": {"resourceVersion": "5"}, "items": [job, filler]}).encode()
            kept.append(decoder.page(body).items[0])
            del body
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
    assert isinstance(kept[0], Job)
    assert bytes(kept[0].spec.tasks[0].template) == b'{"spec": {"containers": []}}'


def test_equal_parts_of_decoded_pods_share_memory() -> None:
    def decoded(name: str) -> Pod:
        body = pod(name, 1, labels={"job": "the-job-of-both", "index": name}, node="node-1") | {
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}
        }
        body["spec"]["containers"] = [{"name": "c", "image": "an-image", "resources": {"requests": {"cpu": "1"}}}]
        item = decoder.change(line("ADDED", json.dumps(body).encode())).object
        assert isinstance(item, Pod)
        return item

    decoder = Decoder(Pod)
    one, two = decoded("one"), decoded("two")
    assert one.spec.containers is two.spec.containers
    assert one.status.conditions is two.status.conditions
    assert one.spec.node_name is two.spec.node_name
    assert one.metadata.labels["job"] is two.metadata.labels["job"]
    assert one.spec.overhead is two.spec.node_selector
    assert (one.metadata.labels["index"], two.metadata.labels["index"]) == ("one", "two")


def test_a_relist_needs_little_more_memory_than_the_steady_state() -> None:
    """What is new replaces what is old as it comes, so that old and new are never there as a whole."""
    decoder, store = Decoder(Pod), Store[Pod]({}, on_error=lambda: None)

    def relist(version: int) -> None:
        refill = store.refill()
        for number in range(5000):
            item = pod(f"p{number}", version + number, labels={"number": str(number), "version": str(version)})
            record = decoder.change(line("ADDED", json.dumps(item).encode())).object
            assert isinstance(record, Pod)
            refill.take(record)
        for _ in refill.finish():
            pass

    tracemalloc.start()
    try:
        relist(1)
        steady = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        relist(100_000)
        assert tracemalloc.get_traced_memory()[1] < 1.3 * steady
    finally:
        tracemalloc.stop()
    assert len(store) == 5000


def test_null_hides_neither_an_object_nor_its_page_and_an_unreadable_field_only_itself() -> None:
    status = {"allocatable": {"cpu": "4"}, "images": [{"names": None}]}
    wrong = {"metadata": {"name": "wrong"}, "spec": {"unschedulable": "no"}, "status": status}
    body = {"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": "null"}, "status": status}, wrong]}
    one, other = Decoder(Node).page(json.dumps(body).encode()).items
    assert isinstance(one, Node)
    assert (one.status.allocatable, one.status.images[0].names) == ({"cpu": "4"}, ())
    assert isinstance(other, Partial)
    assert (other.key, other.error) == (Key("", "wrong"), "spec.unschedulable: Expected `bool`, got `str`")
    assert other.record.status == one.status


def test_null_for_a_template_is_no_template() -> None:
    raw = b'{"metadata":{"name":"j"},"spec":{"tasks":[{"template":null}]}}'
    change = Decoder(Job).change(line("ADDED", raw))
    assert isinstance(change.object, Job)
    assert not bytes(change.object.spec.tasks[0].template)


def test_an_undecodable_job_keeps_its_key_version_and_error() -> None:
    raw = b'{"apiVersion":"%s","metadata":{"name":"j","namespace":"ns","resourceVersion":"3"},"spec":{"tasks":"none"}}'
    change = Decoder(Job).change(line("ADDED", raw % JOBS.api_version.encode()))
    assert isinstance(change.object, Undecodable)
    assert (change.object.key, change.object.metadata.resource_version) == (Key("ns", "j"), "3")
    assert "spec.tasks" in change.object.error

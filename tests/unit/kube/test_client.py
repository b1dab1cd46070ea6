from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from pyroclast.api.types import PODS, QUEUES, Key
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import (
    AlreadyExists,
    Conflict,
    ConnectionFailed,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from pyroclast.kube.http import caller
from pyroclast.kube.http.client import Client, PatchKind
from tests.unit.kube.fault_server import FaultServer, Observed, Watch, answer, bad_chunks, cut, garbage, half, hang, reset, status

POD = {"metadata": {"name": "p", "namespace": "ns"}}
GENERATED = {"metadata": {"generateName": "p-", "namespace": "ns"}}
ONE = "/api/v1/namespaces/ns/pods/p"
ALL = "/api/v1/namespaces/ns/pods"
KEY = Key("ns", "p")


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller, "FIRST_PAUSE", 0.005)


async def test_client_get_returns_the_object_without_requesting_compression(server: FaultServer, client: Client) -> None:
    server.on(f"GET {ONE}", answer(200, POD))
    assert await client.get(PODS, KEY) == POD
    assert server.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Expired),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "", ServerError),
    ],
)
async def test_a_final_error_status_raises_its_exception_class_and_is_not_retried(
    server: FaultServer, client: Client, code, reason, kind
) -> None:
    server.on(f"PUT {ONE}", status(code, reason, "why"))
    with pytest.raises(kind) as caught:
        await client.update(PODS, POD)
    assert (caught.value.status, caught.value.reason, caught.value.message) == (code, reason, "why")
    assert str(caught.value) == f"PUT {ONE}: {code} {reason}: why"
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", [cut, reset, garbage, bad_chunks, half(POD), status(500, "InternalError"), status(503, "x")])
async def test_a_merge_patch_is_retried_after_a_broken_response_or_a_server_error(
    server: FaultServer, client: Client, fault
) -> None:
    server.on(f"PATCH {ONE}", fault, answer(200, POD))
    assert await client.patch(PODS, KEY, {"a": 1}, PatchKind.MERGE) == POD
    assert [got.json for got in server.requests] == [{"a": 1}] * 2
    assert server.requests[0].headers["content-type"] == "application/merge-patch+json"


async def test_a_request_answered_with_429_is_retried_after_the_retry_after_time(server: FaultServer, client: Client) -> None:
    server.on(f"POST {ALL}", status(429, "TooManyRequests", Retry_After="1"), answer(201, POD))
    began = time.monotonic()
    assert await client.create(PODS, GENERATED) == POD
    assert time.monotonic() - began >= 1.0


async def test_a_retry_after_beyond_the_deadline_raises_at_once(server: FaultServer, client: Client) -> None:
    server.on(f"GET {ONE}", status(429, "TooManyRequests", Retry_After="20"))
    deadline = Deadline.after(5.0)
    with pytest.raises(TooManyRequests) as caught:
        await client.get(PODS, KEY, deadline=deadline)
    assert caught.value.retry_after == 20.0
    assert deadline.left() > 0, "it was waited for"


@pytest.mark.parametrize("fault", [cut, reset, half(POD), status(500, "InternalError"), status(503, "x")])
async def test_a_create_with_generate_name_is_not_retried_when_its_outcome_is_unknown(
    server: FaultServer, client: Client, fault
) -> None:
    server.on(f"POST {ALL}", fault)
    with pytest.raises((ConnectionFailed, ServerError)):
        await client.create(PODS, GENERATED)
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", [cut, reset])
async def test_a_json_patch_is_not_retried_when_its_response_is_lost(server: FaultServer, client: Client, fault) -> None:
    server.on(f"PATCH {ONE}", fault)
    with pytest.raises(ConnectionFailed) as caught:
        await client.patch(PODS, KEY, [{"op": "add", "path": "/x/-", "value": 1}], PatchKind.JSON)
    assert caught.value.sent
    assert len(server.requests) == 1


async def test_a_delete_is_retried_when_its_response_is_lost(server: FaultServer, client: Client) -> None:
    server.on(f"DELETE {ONE}", cut, status(404, "NotFound"))
    with pytest.raises(NotFound):
        await client.delete(PODS, KEY)
    assert len(server.requests) == 2


async def test_a_create_with_generate_name_is_retried_while_no_connection_is_made(server: FaultServer) -> None:
    await server.stop()
    async with server.client() as client:
        creating = asyncio.ensure_future(client.create(PODS, GENERATED))
        await asyncio.sleep(0.05)
        server.on(f"POST {ALL}", answer(201, POD))
        await server.start()
        assert await creating == POD
    assert len(server.requests) == 1


async def test_an_unreachable_server_raises_connection_failed_at_the_deadline(server: FaultServer) -> None:
    await server.stop()
    async with server.client() as client:
        with pytest.raises(ConnectionFailed) as caught:
            await client.get(PODS, KEY, deadline=Deadline.after(0.2))
    assert not caught.value.sent
    await server.start()


async def test_a_server_that_hangs_is_an_error_at_the_deadline(server: FaultServer, client: Client) -> None:
    server.on(f"GET {ONE}", hang)
    with pytest.raises(ConnectionFailed) as caught:
        await client.get(PODS, KEY, deadline=Deadline.after(0.2))
    assert caught.value.message == "no answer in time"


async def test_an_html_error_page_raises_the_error_of_its_status_with_its_text(server: FaultServer, client: Client) -> None:
    server.on(f"GET {ONE}", answer(404, b"<html>nope</html>"))
    with pytest.raises(NotFound) as caught:
        await client.get(PODS, KEY)
    assert "nope" in caught.value.message


async def test_a_response_that_is_not_json_raises_connection_failed(server: FaultServer, client: Client) -> None:
    server.on(f"GET {ONE}", answer(200, b"hello"))
    with pytest.raises(ConnectionFailed, match="not JSON"):
        await client.get(PODS, KEY)


def page(names: str, rest: str = "", version: str = "7") -> dict[str, object]:
    return {"metadata": {"resourceVersion": version, "continue": rest}, "items": [{"metadata": {"name": name}} for name in names]}


async def test_a_list_is_read_to_its_last_page(server: FaultServer, client: Client) -> None:
    server.on(f"GET {ALL}", answer(200, page("ab", "more")), answer(200, page("c")))
    items, version = await client.list(PODS, "ns", label_selector="a in (b,c)", limit=2)
    assert ([item["metadata"]["name"] for item in items], version) == (["a", "b", "c"], "7")
    assert [got.query for got in server.requests] == [
        {"labelSelector": "a in (b,c)", "limit": "2"},
        {"labelSelector": "a in (b,c)", "limit": "2", "continue": "more"},
    ]


async def test_an_expired_continue_token_restarts_the_list(server: FaultServer, client: Client) -> None:
    server.on(f"GET {ALL}", answer(200, page("ab", "more")), status(410, "Expired"), answer(200, page("abcd", version="9")))
    items, version = await client.list(PODS, "ns", limit=2)
    assert ([item["metadata"]["name"] for item in items], version) == (["a", "b", "c", "d"], "9")
    assert server.requests[-1].query == {"limit": "2"}


async def test_client_verbs_send_their_path_query_and_body(server: FaultServer, client: Client) -> None:
    for route in (
        f"POST {ALL}",
        f"POST {ONE}/binding",
        f"PUT {ONE}/status",
        f"PATCH {ONE}/status",
        f"DELETE {ONE}",
        f"GET {ONE}/scale",
    ):
        server.on(route, answer(200, {}))
    server.on("DELETE /apis/scheduling.volcano.sh/v1beta1/queues/q", answer(200, {}))
    await client.create(PODS, POD, dry_run=True, field_manager="me")
    await client.create(PODS, {}, namespace="ns", name="p", subresource="binding")
    await client.update(PODS, POD, subresource="status")
    await client.patch(PODS, KEY, {}, PatchKind.APPLY, subresource="status", field_manager="me", force=True)
    await client.delete(PODS, KEY, uid="u", resource_version="5", grace_seconds=0, propagation="Orphan")
    await client.delete(QUEUES, Key("", "q"))
    await client.get(PODS, KEY, subresource="scale")
    create, _, _, patch, delete, plain, _ = server.requests
    assert create.query == {"dryRun": "All", "fieldManager": "me"}
    assert patch.query == {"fieldManager": "me", "force": "true"}
    assert patch.headers["content-type"] == "application/apply-patch+yaml"
    assert delete.json == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "preconditions": {"uid": "u", "resourceVersion": "5"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Orphan",
    }
    assert plain.json == {"kind": "DeleteOptions", "apiVersion": "v1"}


async def test_request_bodies_may_contain_raw_json_and_structs_but_no_other_objects(server: FaultServer, client: Client) -> None:
    class Point(msgspec.Struct):
        x: int

    server.on(f"POST {ALL}", answer(201, {}))
    await client.create(PODS, {**POD, "raw": msgspec.Raw(b'{"a":[1]}'), "point": Point(3)})
    assert server.requests[0].json == {**POD, "raw": {"a": [1]}, "point": {"x": 3}}
    with pytest.raises(TypeError, match="not JSON serializable: object"):
        await client.create(PODS, {**POD, "odd": object()})


async def test_concurrent_requests_do_not_exceed_max_in_flight(server: FaultServer) -> None:
    server.on(f"GET {ONE}", hang)
    async with server.client(max_in_flight=3) as client, asyncio.TaskGroup() as group:
        reading = [group.create_task(client.get(PODS, KEY)) for _ in range(10)]
        while len(server.requests) < 3:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert len(server.requests) == 3
        for task in reading:
            task.cancel()


async def test_requests_beyond_the_burst_wait_for_the_qps_limit(server: FaultServer) -> None:
    server.on(f"GET {ONE}", answer(200, POD))
    async with server.client(qps=50, burst=5) as client:
        began = time.monotonic()
        await asyncio.gather(*(client.get(PODS, KEY) for _ in range(15)))
        assert time.monotonic() - began >= 0.2


async def test_each_attempt_of_a_request_is_reported_to_the_observer(server: FaultServer) -> None:
    observed = Observed()
    server.on(f"PATCH {ONE}/status", cut, status(500, "InternalError"), answer(200, POD))
    async with server.client(observer=observed) as client:
        await client.patch(PODS, KEY, {}, PatchKind.MERGE, subresource="status")
    assert observed.requests == [("patch", "pods/status", 0), ("patch", "pods/status", 500), ("patch", "pods/status", 200)]


async def test_a_stream_yields_whole_lines_and_raises_when_cut_within_a_line(server: FaultServer, client: Client) -> None:
    server.on("GET /log", Watch(b"one\ntw", b"o\n\nthree\n").end())
    assert [line async for line in client.stream("/log")] == [b"one", b"two", b"three"]
    server.on("GET /log", Watch(b"one\ntw").end())
    with pytest.raises(ConnectionFailed, match="within a line"):
        [line async for line in client.stream("/log")]
    server.on("GET /log", status(404, "NotFound"))
    with pytest.raises(NotFound):
        [line async for line in client.stream("/log")]


async def test_a_token_file_is_read_again_after_a_401(server: FaultServer, tmp_path) -> None:
    from pyroclast.kube.credentials.authorization import TokenFile
    from pyroclast.kube.credentials.config import ClusterConfig

    token = tmp_path / "token"
    token.write_text("old\n")
    server.on(f"GET {ONE}", answer(200, POD), status(401, "Unauthorized"), answer(200, POD))
    async with Client(ClusterConfig(server.url, credentials=TokenFile(token))) as client:
        await client.get(PODS, KEY)
        token.write_text("new\n")
        await client.get(PODS, KEY)
    assert [got.headers["authorization"] for got in server.requests] == ["Bearer old", "Bearer old", "Bearer new"]


async def test_a_request_on_a_closed_client_raises_connection_failed(server: FaultServer) -> None:
    async with server.client() as client:
        pass
    with pytest.raises(ConnectionFailed, match="closed"):
        await client.get(PODS, KEY, deadline=Deadline.after(0.05))


async def test_request_urls_keep_the_server_path_and_percent_encode_names(server: FaultServer) -> None:
    from pyroclast.kube.credentials.config import ClusterConfig

    server.on("GET /clusters/one/api/v1/namespaces/ns/pods/a%20b%C3%A9", answer(200, POD))
    async with Client(ClusterConfig(f"{server.url}/clusters/one")) as client:
        assert await client.get(PODS, Key("ns", "a bé")) == POD

"""The HTTPS server: what it reads, what it refuses to read, and what it says."""

from __future__ import annotations

import asyncio
import gzip
import io
from typing import Any

import aiohttp
import pytest
import structlog

from pyroclast.rules.lookups import QueueView
from pyroclast_admission.handlers import WEBHOOKS
from tests.bench.admission_server import known, serving
from tests.unit.admission.clients import asking, patch_of, review, status_of
from tests.unit.kube.authority import Authority
from tests.unit.rules.builders import job, task, template

JSON = {"Content-Type": "application/json"}


async def post(path: str, body: Any, *, headers: dict[str, str] | None = None, state: Any = None) -> tuple[int, Any]:
    async with serving(state) as server, asking(server.material.bundle) as session:
        arguments = {"data": io.BytesIO(body), "headers": headers or JSON} if isinstance(body, bytes) else {"json": body}
        async with session.post(f"https://localhost:{server.port}{path}", **arguments) as response:
            is_json = response.content_type == "application/json"
            return response.status, await response.json() if is_json else await response.text()


async def test_an_allowed_review_returns_200_with_its_uid() -> None:
    status, answer = await post("/jobs/validate", review("/jobs/validate", object=job()))
    assert status == 200
    assert answer == {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "u-1", "allowed": True}}


async def test_a_queue_mutation_returns_a_patch_with_the_defaults() -> None:
    _, answer = await post("/queues/mutate", review("/queues/mutate", object={"spec": {}}))
    assert patch_of(answer) == [
        {"op": "add", "path": "/spec/reclaimable", "value": True},
        {"op": "add", "path": "/spec/weight", "value": 1},
    ]


async def test_a_mutation_without_change_has_no_patch() -> None:
    _, answer = await post("/queues/mutate", review("/queues/mutate", object={"spec": {"weight": 1, "reclaimable": True}}))
    assert answer["response"] == {"uid": "u-1", "allowed": True}


async def test_invalid_fields_are_denied_with_one_422_status_and_all_causes() -> None:
    given = job(task(template=template(image="")), queue="nowhere")
    _, answer = await post("/jobs/validate", review("/jobs/validate", object=given, name="job-1"))
    status = status_of(answer)
    assert (status["code"], status["reason"], status["status"]) == (422, "Invalid", "Failure")
    assert {key: status["details"][key] for key in ("name", "kind", "group")} == {
        "name": "job-1",
        "kind": "Job",
        "group": "batch.volcano.sh",
    }
    assert status["details"]["causes"] == [
        {
            "reason": "FieldValueRequired",
            "message": "Required value",
            "field": "spec.tasks[0].template.spec.containers[0].image",
        },
        {
            "reason": "FieldValueInvalid",
            "message": 'Invalid value: "nowhere": unable to find job queue: queue.scheduling.volcano.sh "nowhere" not found; '
            "create the queue first or name another one",
            "field": "spec.queue",
        },
    ]


async def test_a_job_for_a_closed_queue_is_denied_with_the_message_of_volcano() -> None:
    state = known(QueueView("closed", "root", "Closed"))
    _, answer = await post("/jobs/validate", review("/jobs/validate", object=job(queue="closed")), state=state)
    assert status_of(answer) == {
        "metadata": {},
        "message": "can only submit job to queue with state `Open`, queue `closed` status is `Closed`;",
    }


async def test_a_job_with_zero_ttl_seconds_after_finished_gets_a_warning() -> None:
    _, answer = await post("/jobs/validate", review("/jobs/validate", object=job(ttlSecondsAfterFinished=0)))
    assert answer["response"]["warnings"] == [
        "spec.ttlSecondsAfterFinished: the job is removed the moment it finishes, its outcome may never be seen"
    ]


BAD: dict[str, tuple[bytes, dict[str, str], int, str]] = {
    "no JSON": (b"{", JSON, 400, "the body is not JSON"),
    "no object": (b"[]", JSON, 400, "a JSON object is expected"),
    "another kind": (b'{"apiVersion":"v1","kind":"Pod"}', JSON, 400, "but of v1"),
    "no request": (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', JSON, 400, "no request with a uid"),
    "an older version": (
        b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}',
        JSON,
        400,
        "admission.k8s.io/v1beta1",
    ),
    "nothing": (b"", JSON, 400, "the body is not JSON"),
    "text": (b"hello", {"Content-Type": "text/plain"}, 415, "the body must be application/json, not text/plain"),
    "too deep": (b"[" * 5000 + b"]" * 5000, JSON, 400, "the body is not JSON"),
    "too large": (b" " * (3 * 1024 * 1024 + 1), JSON, 413, "request body too large\n"),
}


@pytest.mark.parametrize(("body", "headers", "status", "words"), BAD.values(), ids=BAD.keys())
async def test_invalid_requests_return_their_error_status_with_the_reason(
    body: bytes, headers: dict[str, str], status: int, words: str
) -> None:
    got, text = await post("/jobs/validate", body, headers=headers)
    assert got == status
    assert words in text


async def test_a_content_type_with_a_charset_is_fine() -> None:
    import orjson

    body = orjson.dumps(review("/jobs/validate", object=job()))
    status, _ = await post("/jobs/validate", body, headers={"Content-Type": "application/json; charset=utf-8"})
    assert status == 200


async def test_unknown_paths_return_404_and_other_methods_405() -> None:
    async with serving() as server, asking(server.material.bundle) as session:
        base = f"https://localhost:{server.port}"
        for path, method, status in (("/nowhere", "POST", 404), ("/jobs/validate", "GET", 405), ("/jobs/validate/", "POST", 404)):
            async with session.request(method, base + path) as response:
                assert response.status == status


@pytest.mark.parametrize("body", [b"not gzip", gzip.compress(b" " * (50 * 1024 * 1024)), b""], ids=["malformed", "bomb", "empty"])
async def test_a_compressed_body_returns_400_without_a_traceback_or_decompression(body: bytes) -> None:
    headers = {**JSON, "Content-Encoding": "gzip"}
    with structlog.testing.capture_logs() as logs:
        async with serving() as server, asking(server.material.bundle) as session:
            url = f"https://localhost:{server.port}/jobs/validate"
            async with session.post(url, data=body, headers=headers) as response:
                assert (response.status, await response.text()) == (
                    400,
                    "the body must not be compressed (Content-Encoding: gzip)\n",
                )
    assert not [each for each in logs if each["log_level"] in {"error", "exception"}]


async def test_a_chunked_body_above_the_size_limit_returns_413() -> None:
    async def endless() -> Any:
        for _ in range(64):
            yield b" " * 65536

    async with serving() as server, asking(server.material.bundle) as session:
        url = f"https://localhost:{server.port}/jobs/validate"
        async with session.post(url, data=endless(), headers=JSON) as response:
            assert response.status == 413


UNEXPECTED = {
    "/jobs/mutate": "expect operation to be 'CREATE' ",
    "/jobs/restore": "expect operation to be 'UPDATE'",
    "/jobs/validate": "expect operation to be 'CREATE' or 'UPDATE'",
    "/cronjobs/validate": "expect operation to be 'CREATE' or 'UPDATE'",
    "/podgroups/mutate": "invalid operation `CONNECT`, expect operation to be `CREATE`",
    "/podgroups/restore": "expect operation to be 'UPDATE'",
    "/podgroups/validate": "unsupported operation CONNECT",
    "/queues/mutate": "invalid operation `CONNECT`, expect operation to be `CREATE`",
    "/queues/validate": "invalid operation `CONNECT`, expect operation to be `CREATE`, `UPDATE` or `DELETE`",
    "/pods/mutate": "expect operation to be 'CREATE' ",
    "/pods/validate": "expect operation to be 'CREATE'",
    "/hypernodes/validate": "",
    "/jobflows/validate": "expect operation to be 'CREATE' or 'UPDATE'",
    "/jobflows/mutate": "expect operation to be 'CREATE' ",
    "/cronjobs/mutate": "expect operation to be 'CREATE' ",
    "/jobtemplates/validate": "expect operation to be 'CREATE' or 'UPDATE'",
    "/commands/mutate": "expect operation to be 'CREATE' ",
    "/commands/validate": "",
    "/hyperjobs/mutate": "expect operation to be 'CREATE' or 'UPDATE'",
    "/hyperjobs/validate": "expect operation to be 'CREATE' or 'UPDATE'",
    "/ownedjobs/validate": "",
    "/ownedpods/validate": "",
    "/workloads/validate": "",
    "/batchjobs/validate": "",
    "/nativegroups/validate": "",
}


async def test_unexpected_operations_and_resources_get_the_message_of_each_webhook() -> None:
    assert set(UNEXPECTED) == {webhook.path for webhook in WEBHOOKS}
    async with serving() as server, asking(server.material.bundle) as session:
        for webhook in WEBHOOKS:
            url = f"https://localhost:{server.port}{webhook.path}"
            async with session.post(url, json=review(webhook.path, "CONNECT")) as response:
                answer = (await response.json())["response"]
            assert answer.get("status", {}).get("message", "") == UNEXPECTED[webhook.path]
            foreign = review(webhook.path, resource={"group": "x", "version": "v9", "resource": "things"})
            async with session.post(url, json=foreign) as response:
                answer = (await response.json())["response"]
            resource = webhook.resource
            expected = f"{{{resource.group} {resource.version} {resource.plural}}}"
            assert answer["status"]["message"] == f"expect resource to be {expected}"


async def test_a_slow_request_body_returns_408(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyroclast_admission import server as servers

    monkeypatch.setattr(servers, "READ_SECONDS", 0.05)
    async with serving() as server:
        tls = __import__("ssl").create_default_context(cadata=server.material.bundle.decode())
        reader, writer = await asyncio.open_connection("localhost", server.port, ssl=tls)
        writer.write(b"POST /jobs/validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{")
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        writer.close()


@pytest.mark.parametrize(("client", "want"), {"kube-apiserver": 200, "alice": 403, "forged": 0, "": 0}.items())
async def test_only_the_client_certificate_of_the_api_server_reaches_a_webhook(client: str, want: int) -> None:
    authority = Authority()
    issuer = Authority() if client == "forged" else authority
    body = review("/jobs/validate", object=job())
    names = frozenset({"kube-apiserver"})
    identity = issuer.issue(client) if client else None
    async with (
        serving(client_ca=authority.pem, client_names=names) as server,
        asking(server.material.bundle, identity) as session,
    ):
        try:
            async with session.post(f"https://localhost:{server.port}/jobs/validate", json=body) as response:
                status = response.status
        except aiohttp.ClientError:
            status = 0
    assert status == want


async def test_a_changed_authority_of_clients_applies_to_new_connections_and_an_invalid_one_is_rejected() -> None:
    old, new = Authority(), Authority()
    async with serving(client_ca=old.pem) as server:
        with pytest.raises(ValueError, match="not a usable CA"):
            server.tls.require_clients(b"nonsense")
        server.tls.require_clients(new.pem)
        body = review("/jobs/validate", object=job())
        async with (
            asking(server.material.bundle, new.issue("a")) as session,
            session.post(f"https://localhost:{server.port}/jobs/validate", json=body) as answer,
        ):
            assert answer.status == 200


async def test_an_overloaded_server_denies_reviews_with_429_until_its_lag_is_low() -> None:
    async with serving() as server, asking(server.material.bundle) as session:
        url = f"https://localhost:{server.port}/jobs/validate"
        server.overload.observe(3.0)
        async with session.post(url, json=review("/jobs/validate", object=job())) as response:
            status = status_of(await response.json())
        assert (status["code"], status["reason"]) == (429, "TooManyRequests")
        assert status["details"] == {"retryAfterSeconds": 1}
        server.overload.observe(1.0)
        assert server.overload.sheds
        server.overload.observe(0.1)
        async with session.post(url, json=review("/jobs/validate", object=job())) as response:
            assert (await response.json())["response"]["allowed"] is True


async def test_large_reviews_do_not_hold_up_small_ones() -> None:
    tasks = [task(f"t{n}") for n in range(6000)]
    large = review("/jobs/validate", object=job(*tasks))
    async with serving() as server, asking(server.material.bundle) as session:
        url = f"https://localhost:{server.port}/jobs/validate"

        async def ask(body: dict[str, Any]) -> bool:
            async with session.post(url, json=body) as response:
                return bool((await response.json())["response"]["allowed"])

        answered = 0
        async with asyncio.TaskGroup() as group:
            slow = group.create_task(ask(large))
            while not slow.done():
                assert await ask(review("/jobs/validate", object=job()))
                answered += not slow.done()
        assert slow.result()
        assert answered


async def test_the_garbage_collector_may_delete_a_running_jobflow_but_a_user_may_not() -> None:
    running = {"metadata": {"name": "it"}, "spec": {"flows": [{"name": "a"}]}, "status": {"runningJobs": ["it-a"]}}
    collector = {"username": "system:serviceaccount:kube-system:generic-garbage-collector"}
    async with serving() as server, asking(server.material.bundle) as session:
        for user, allowed in (({"username": "alice"}, False), (collector, True)):
            body = review("/jobflows/validate", "DELETE", oldObject=running, userInfo=user)
            async with session.post(f"https://localhost:{server.port}/jobflows/validate", json=body) as response:
                assert (await response.json())["response"]["allowed"] is allowed


async def test_a_delete_review_without_a_name_uses_the_name_of_the_old_object() -> None:
    gone = review("/queues/validate", "DELETE", name="", oldObject={"metadata": {"name": "default"}})
    _, answer = await post("/queues/validate", gone)
    assert status_of(answer)["message"] == "`default` queue can not be deleted"

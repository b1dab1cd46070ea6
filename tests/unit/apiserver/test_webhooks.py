"""Admission webhooks against a server of the test's own."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web

from .conftest import CONFIG_MAPS, CRD, Api, config_map

HOOKS = "/apis/admissionregistration.k8s.io/v1"
Answerer = Callable[[dict[str, Any]], dict[str, Any]]


class HookServer:
    """Answers reviews with what a test puts under a path, and remembers them. It shows the API server's own certificate."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.answers: dict[str, Answerer] = {}
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.url = ""
        self.closed_connections = 0
        """How many requests from now on are answered by closing the connection."""

    async def handle(self, request: web.Request) -> web.Response:
        review = await request.json()
        if self.closed_connections and request.transport:
            self.closed_connections -= 1
            request.transport.close()
        self.seen.append((request.path, review["request"]))
        response = {"uid": review["request"]["uid"], "allowed": True, **self.answers[request.path](review["request"])}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        return web.json_response(body)

    async def register(self, kind: str, path: str, answer: Answerer, **more: Any) -> None:
        """Answer reviews at `path` and configure a hook for ConfigMaps and widgets that calls it."""
        self.answers[path] = answer
        identity = self.api.server.server.identity
        hook = {
            "name": f"{path.strip('/')}.example.org",
            "clientConfig": {
                "url": self.url + path,
                "caBundle": base64.b64encode(identity.authority.read_bytes()).decode(),
            },
            "rules": [
                {
                    "operations": ["*"],
                    "apiGroups": ["", "example.org"],
                    "apiVersions": ["*"],
                    "resources": ["configmaps", "widgets", "widgets/*"],
                }
            ],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }
        body = {"metadata": {"name": path.strip("/")}, "webhooks": [hook]}
        reply = await self.api.post(f"{HOOKS}/{kind}webhookconfigurations", body)
        assert reply.code == 201, reply.body


@pytest.fixture
async def hooks(api: Api) -> AsyncIterator[HookServer]:
    import ssl

    server = HookServer(api)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*api.server.server.identity.serving)
    application = web.Application()
    application.router.add_post("/{name}", server.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    server.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


def patching(*operations: dict[str, Any]) -> Answerer:
    patch = base64.b64encode(json.dumps(list(operations)).encode()).decode()
    return lambda _: {"patch": patch, "patchType": "JSONPatch"}


def allowing(_: dict[str, Any]) -> dict[str, Any]:
    return {}


async def test_mutating_hooks_change_the_object_in_the_order_of_their_names(api: Api, hooks: HookServer) -> None:
    await hooks.register(
        "mutating", "/b", lambda r: patching({"op": "add", "path": "/data/b", "value": r["object"]["data"]["a"]})(r)
    )
    await hooks.register("mutating", "/a", patching({"op": "replace", "path": "/data/a", "value": "changed"}))
    reply = await api.post(CONFIG_MAPS, config_map("x"))
    assert reply.body["data"] == {"a": "changed", "b": "changed"}
    assert [path for path, _ in hooks.seen] == ["/a", "/b"]
    assert "f:b" not in json.dumps(reply.body["metadata"]["managedFields"])


async def test_mutating_webhook_is_reinvoked_after_a_later_webhook_changed_the_object(api: Api, hooks: HookServer) -> None:
    await hooks.register("mutating", "/a", allowing, reinvocationPolicy="IfNeeded")
    await hooks.register(
        "mutating", "/b", patching({"op": "add", "path": "/data/b", "value": "1"}), reinvocationPolicy="IfNeeded"
    )
    await api.post(CONFIG_MAPS, config_map("x"))
    assert [path for path, _ in hooks.seen] == ["/a", "/b", "/a"]
    assert hooks.seen[-1][1]["object"]["data"] == {"a": "1", "b": "1"}


async def test_admission_review_holds_operation_user_object_and_old_object(api: Api, hooks: HookServer) -> None:
    await hooks.register("mutating", "/m", allowing)
    await hooks.register("validating", "/v", allowing)
    await api.post(CONFIG_MAPS, {"metadata": {"generateName": "g-"}})
    (_, first), (_, second) = hooks.seen
    assert (first["operation"], first["kind"], first["namespace"]) == (
        "CREATE",
        {"group": "", "version": "v1", "kind": "ConfigMap"},
        "default",
    )
    assert first["userInfo"]["username"] == "kubernetes-admin"
    assert "name" not in first
    assert "uid" not in first["object"]["metadata"]
    assert second["name"] == second["object"]["metadata"]["name"]
    assert second["object"]["metadata"]["uid"]
    hooks.seen.clear()
    await api.delete(f"{CONFIG_MAPS}/{second['name']}")
    assert [(each["operation"], each["object"], each["oldObject"]["metadata"]["name"]) for _, each in hooks.seen] == [
        ("DELETE", None, second["name"])
    ] * 2


async def test_webhook_denial_returns_its_status_causes_and_warnings(api: Api, hooks: HookServer) -> None:
    causes = [{"reason": "FieldValueInvalid", "message": "no", "field": "data.a"}]
    told = {"code": 422, "reason": "Invalid", "message": "data.a: no", "details": {"causes": causes}}
    await hooks.register("validating", "/v", lambda _: {"allowed": False, "status": told, "warnings": ["mind this"]})
    reply = await api.post(CONFIG_MAPS, config_map("x"))
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert reply.body["message"] == 'admission webhook "v.example.org" denied the request: data.a: no'
    assert reply.body["details"]["causes"] == causes
    assert reply.warnings == ['299 - "mind this"']
    assert (await api.get(f"{CONFIG_MAPS}/x")).code == 404


async def test_webhook_denial_without_a_status_returns_400_without_explanation(api: Api, hooks: HookServer) -> None:
    await hooks.register("validating", "/v", lambda _: {"allowed": False})
    reply = await api.post(CONFIG_MAPS, config_map("x"))
    assert (reply.code, reply.reason) == (400, "")
    assert reply.body["message"] == 'admission webhook "v.example.org" denied the request without explanation'


@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
async def test_unreachable_webhook_fails_or_is_ignored_by_failure_policy(
    api: Api, hooks: HookServer, policy: str, code: int
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and does not listen: nobody else can
        port = silent.getsockname()[1]
        url = {"url": f"https://127.0.0.1:{port}/gone"}
        await hooks.register("validating", "/v", allowing, failurePolicy=policy, clientConfig=url)
        reply = await api.post(CONFIG_MAPS, config_map("x"))
        assert reply.code == code
        if code == 500:
            assert reply.body["message"] == (
                'Internal error occurred: failed calling webhook "v.example.org": failed to call webhook: '
                f'Post "https://127.0.0.1:{port}/gone?timeout=10s": dial tcp 127.0.0.1:{port}: connect: connection refused'
            )


@pytest.mark.parametrize(("closed", "code"), [(1, 201), (2, 500)])
async def test_webhook_call_is_retried_once_when_the_connection_closes(
    api: Api, hooks: HookServer, closed: int, code: int
) -> None:
    await hooks.register("validating", "/a", allowing)
    await api.post(CONFIG_MAPS, config_map("x"))
    hooks.closed_connections = closed
    assert (await api.post(CONFIG_MAPS, config_map("y"))).code == code


async def test_webhook_error_names_the_missing_service(api: Api, hooks: HookServer) -> None:
    client = {"service": {"namespace": "default", "name": "nope", "path": "/"}}
    await hooks.register("validating", "/v", allowing, clientConfig=client)
    assert 'service "nope" not found' in (await api.post(CONFIG_MAPS, config_map("x"))).body["message"]


async def test_webhook_response_with_a_wrong_uid_is_refused(api: Api, hooks: HookServer) -> None:
    await hooks.register("validating", "/v", lambda _: {"uid": "other"})
    assert 'expected response.uid="' in (await api.post(CONFIG_MAPS, config_map("x"))).body["message"]


async def test_hooks_are_narrowed_by_labels_of_object_and_namespace(api: Api, hooks: HookServer) -> None:
    await hooks.register("validating", "/o", allowing, objectSelector={"matchLabels": {"x": "1"}})
    await hooks.register("validating", "/n", allowing, namespaceSelector={"matchLabels": {"y": "1"}})
    await api.post(CONFIG_MAPS, config_map("a"))
    assert hooks.seen == []
    await api.post(CONFIG_MAPS, config_map("b", labels={"x": "1"}))
    assert [path for path, _ in hooks.seen] == ["/o"]
    await api.merge("/api/v1/namespaces/default", {"metadata": {"labels": {"y": "1"}}})
    await api.post(CONFIG_MAPS, config_map("c"))
    assert [path for path, _ in hooks.seen] == ["/o", "/n"]


async def test_dry_run_is_passed_to_a_webhook_without_side_effects(api: Api, hooks: HookServer) -> None:
    await hooks.register("validating", "/v", allowing)
    await api.post(f"{CONFIG_MAPS}?dryRun=All", config_map("a"))
    assert hooks.seen[0][1]["dryRun"] is True


async def test_scale_update_is_sent_to_webhooks_as_a_scale_object(api: Api, hooks: HookServer) -> None:
    await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    path = "/apis/example.org/v1/namespaces/default/widgets"
    await api.post(path, {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1}})
    await hooks.register("validating", "/v", allowing)
    await api.merge(f"{path}/a/scale", {"spec": {"replicas": 3}})
    ((_, request),) = hooks.seen
    assert (request["kind"]["kind"], request["subResource"], request["object"]["spec"]) == ("Scale", "scale", {"replicas": 3})


async def test_concurrent_patches_during_webhook_calls_are_all_stored(api: Api, hooks: HookServer) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    await hooks.register("validating", "/v", allowing)
    replies = await asyncio.gather(*(api.merge(f"{CONFIG_MAPS}/a", {"data": {f"k{n}": "1"}}) for n in range(4)))
    assert {reply.code for reply in replies} == {200}
    assert len((await api.get(f"{CONFIG_MAPS}/a")).body["data"]) == 5

"""Admission webhooks against a server of the test's own."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web

from .conftest import CONFIG_MAPS, Api, config_map

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
            "clientConfig": {"url": self.url + path, "caBundle": base64.b64encode(identity.authority.read_bytes()).decode()},
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


def allowing(_: dict[str, Any]) -> dict[str, Any]:
    return {}


@pytest.mark.parametrize(("closed", "code"), [(1, 201), (2, 500)])
async def test_webhook_call_is_retried_once_when_the_connection_closes(
    api: Api, hooks: HookServer, closed: int, code: int
) -> None:
    await hooks.register("validating", "/a", allowing)
    await api.post(CONFIG_MAPS, config_map("x"))
    hooks.closed_connections = closed
    assert (await api.post(CONFIG_MAPS, config_map("y"))).code == code


async def test_concurrent_patches_during_webhook_calls_are_all_stored(api: Api, hooks: HookServer) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    await hooks.register("validating", "/v", allowing)
    replies = await asyncio.gather(*(api.merge(f"{CONFIG_MAPS}/a", {"data": {f"k{n}": "1"}}) for n in range(4)))
    assert {reply.code for reply in replies} == {200}
    assert len((await api.get(f"{CONFIG_MAPS}/a")).body["data"]) == 5

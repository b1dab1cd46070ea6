"""A server in memory for each test, and a client that speaks plain HTTP to it."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from tests.unit.running import RunningServer, running_server

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["wd"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "minimum": 1},
                                    "color": {"type": "string", "default": "red"},
                                    "replicas": {"type": "integer"},
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}


@dataclass
class Reply:
    """What came back."""

    code: int
    body: Any
    headers: dict[str, str]
    warnings: list[str] = field(default_factory=list)

    @property
    def reason(self) -> str:
        """Reason of a Status."""
        return str(self.body.get("reason", ""))

    @property
    def version(self) -> str:
        """resourceVersion of an object or a list."""
        return str(self.body["metadata"]["resourceVersion"])


class Api:
    """A client. Paths below `/api/v1` may be given without it."""

    def __init__(self, server: RunningServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def call(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json", **headers: str
    ) -> Reply:
        """Send a request."""
        data = body if isinstance(body, bytes | str) or body is None else json.dumps(body)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            sent["Content-Type"] = content_type
        async with self.session.request(method, self.server.url + path, data=data, headers=sent) as response:
            text = await response.read()
            try:
                parsed = json.loads(text)
            except ValueError:
                parsed = text.decode()
            return Reply(response.status, parsed, dict(response.headers), response.headers.getall("Warning", []))

    async def get(self, path: str, **headers: str) -> Reply:
        """GET."""
        return await self.call("GET", path, **headers)

    async def post(self, path: str, body: Any, **headers: str) -> Reply:
        """POST."""
        return await self.call("POST", path, body, **headers)

    async def put(self, path: str, body: Any) -> Reply:
        """PUT."""
        return await self.call("PUT", path, body)

    async def merge(self, path: str, body: Any) -> Reply:
        """PATCH with a merge patch."""
        return await self.call("PATCH", path, body, content_type="application/merge-patch+json")

    async def delete(self, path: str, body: Any = None) -> Reply:
        """DELETE."""
        return await self.call("DELETE", path, body)

    @asynccontextmanager
    async def watch(self, path: str) -> AsyncIterator[Watch]:
        """Open a watch."""
        async with self.session.get(self.server.url + path) as response:
            yield Watch(response)


class Watch:
    """Events of a watch, one by one."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> tuple[str, Any]:
        """The next event: its type and object."""
        line = await self.response.content.readline()
        if not line:
            raise EOFError
        event = json.loads(line)
        return event["type"], event["object"]

    async def rest(self) -> list[tuple[str, Any]]:
        """All events until the watch ends."""
        found = []
        while True:
            try:
                found.append(await self.next())
            except EOFError:
                return found


@asynccontextmanager
async def client_of(server: RunningServer, *, token: str = "") -> AsyncIterator[Api]:
    """The administrator's client, or that of a token."""
    config = json.loads(server.kubeconfig.read_text())
    user, cluster = config["users"][0]["user"], config["clusters"][0]["cluster"]
    context = ssl.create_default_context(cafile=cluster["certificate-authority"])
    headers = {}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    else:
        context.load_cert_chain(user["client-certificate"], user["client-key"])
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        yield Api(server, session)


@pytest.fixture
async def server() -> AsyncIterator[RunningServer]:
    """A server in memory."""
    async with running_server() as running:
        yield running


@pytest.fixture
async def api(server: RunningServer) -> AsyncIterator[Api]:
    """A client with all rights."""
    async with client_of(server) as client:
        yield client


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    """A ConfigMap."""
    return {"metadata": {"name": name, **metadata}, "data": data or {"a": "1"}}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """A pod."""
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"

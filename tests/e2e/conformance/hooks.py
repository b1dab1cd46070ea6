"""Webhooks for the cases: one HTTPS server whose paths say how they answer, and which remembers what it was asked."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.control_plane.certificates import Certificates


@dataclass(slots=True)
class HookServer:
    """`https://…/NAMESPACE/ANSWER`; `answer` tells which answers there are."""

    port: int
    ca_bundle: str
    asked: dict[str, list[Any]] = field(default_factory=dict)

    def url(self, namespace: str) -> str:
        """Where the webhooks of a case are."""
        return f"https://127.0.0.1:{self.port}/{namespace}"

    async def reviews(self, namespace: str) -> list[Any]:
        """What was asked since the last call."""
        await asyncio.sleep(0.05)
        asked = self.asked.pop(namespace, [])
        return [{key: value for key, value in review["request"].items() if key != "uid"} for review in asked]

    async def answer(self, request: web.Request) -> web.Response:
        """The answer that the path asks for."""
        how = request.match_info["how"]
        review = await request.json()
        self.asked.setdefault(request.match_info["namespace"], []).append(review)
        response: dict[str, Any] = {"uid": review["request"]["uid"], "allowed": True}
        match how.partition("-")[0], how:
            case "deny", "deny":
                response |= {"allowed": False, "status": {"message": "not here"}}
            case "deny", "deny-403":
                response |= {"allowed": False, "status": {"code": 403, "reason": "Forbidden", "message": "not you"}}
            case "deny", "deny-422":
                cause = {"reason": "FieldValueInvalid", "message": "too big", "field": "data.x"}
                details = {"name": "d", "kind": "ConfigMap", "causes": [cause]}
                response |= {"allowed": False, "status": {"code": 422, "reason": "Invalid", "message": "bad", "details": details}}
            case "deny", "deny-silently":
                response |= {"allowed": False}
            case "warn", _:
                response |= {"warnings": ["careful", "very careful"]}
            case "label", _:
                labels = {"op": "add", "path": "/metadata/labels", "value": {"hooked": "yes"}}
                response |= _patch(labels)
            case "data", _:
                key = how.partition("-")[2]
                response |= _patch({"op": "add", "path": f"/data/{key}", "value": "by hook"})
            case "rename", _:
                response |= _patch({"op": "replace", "path": "/metadata/name", "value": "renamed"})
            case "slow", _:
                await asyncio.sleep(2.5)
            case "broken", _:
                return web.Response(status=500, text="broken")
            case "nonsense", _:
                return web.Response(text="not JSON", content_type="application/json")
            case "wrong", "wrong-uid":
                response["uid"] = "00000000-0000-0000-0000-000000000000"
            case "patch", "patch-without-type":
                response["patch"] = base64.b64encode(b"[]").decode()
            case "patch", "patch-bad":
                response |= _patch({"op": "remove", "path": "/nope/nope"})
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


def _patch(*operations: dict[str, Any]) -> dict[str, str]:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


@asynccontextmanager
async def hook_server(folder: Path) -> AsyncIterator[HookServer]:
    """Serve until left, with a certificate made in `folder`."""
    certificates = Certificates(folder)
    certificates.server("hooks")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate_of("hooks"), certificates.key_of("hooks"))
    server = HookServer(0, base64.b64encode(certificates.ca.read_bytes()).decode())
    application = web.Application()
    application.router.add_post("/{namespace}/{how}", server.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        server.port = runner.addresses[0][1]
        yield server
    finally:
        await runner.cleanup()

"""Asking the webhook server, as an API server does."""

from __future__ import annotations

import ssl
from typing import Any

import aiohttp
import orjson

from pyroclast.kube.credentials.certificates import load_identity
from pyroclast_admission.handlers import WEBHOOKS

__all__ = ["asking", "patch_of", "review", "status_of"]

BY_PATH = {webhook.path: webhook for webhook in WEBHOOKS}


def review(path: str, operation: str = "CREATE", **request: Any) -> dict[str, Any]:
    """A review for the webhook at `path`."""
    resource = BY_PATH[path].resource
    version = {"group": resource.group, "version": resource.version}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u-1",
            "operation": operation,
            "resource": {**version, "resource": resource.plural},
            "kind": {**version, "kind": resource.kind},
            "namespace": "team-a" if resource.namespaced else "",
            "name": "it",
            "userInfo": {"username": "alice"},
            "object": None,
            **request,
        },
    }


def asking(bundle: bytes, identity: tuple[bytes, bytes] | None = None) -> aiohttp.ClientSession:
    """A client that trusts `bundle`, and that has a certificate and key, if given."""
    tls = ssl.create_default_context(cadata=bundle.decode())
    if identity is not None:
        load_identity(tls, *identity)
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=0))


def status_of(answer: dict[str, Any]) -> dict[str, Any]:
    """The status of a denial."""
    assert answer["response"]["allowed"] is False
    status: dict[str, Any] = answer["response"]["status"]
    return status


def patch_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The operations of a mutation."""
    import base64

    assert answer["response"]["allowed"] is True
    assert answer["response"]["patchType"] == "JSONPatch"
    operations: list[dict[str, Any]] = orjson.loads(base64.b64decode(answer["response"]["patch"]))
    return operations

"""Reads ConfigMaps and Secrets of pods on demand, with a short cache."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyroclast.api.types import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, Key, ResourceType
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.http.client import Client
from pyroclast_standalone import times

_FRESH_SECONDS = 1.0  # a hundred pods of one Job that start together cause one read
_MAX_KEPT = 5_000  # more than any cluster uses at the same time
_TOKEN_SECONDS = 3600
_RENEW_AT = 0.8  # of a token's lifetime


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """A reference to a ConfigMap or Secret. With `is_optional`, the pod runs without it too."""

    kind: str
    key: Key
    is_optional: bool = False


@dataclass(slots=True)
class Sources:
    """Reads objects for all pods. `now` returns seconds from an arbitrary origin."""

    client: Client
    now: Callable[[], float] = time.monotonic
    _known: dict[tuple[str, Key], tuple[float, asyncio.Task[dict[str, bytes] | None]]] = field(default_factory=dict)
    _tokens: dict[tuple[str, str, int], tuple[float, str]] = field(default_factory=dict)

    async def read(self, kind: str, key: Key) -> Mapping[str, bytes] | None:
        """Return the content of a ConfigMap or Secret, at most a second old. None if it does not exist."""
        known = self._known.get((kind, key))
        if known is None or known[0] < self.now() - _FRESH_SECONDS or (known[1].done() and known[1].exception()):
            if len(self._known) > _MAX_KEPT:
                self._known.clear()
            task = asyncio.ensure_future(self._fetch(kind, key))  # shared by concurrent callers
            known = self._known[kind, key] = (self.now(), task)
        return await asyncio.shield(known[1])

    async def token(self, namespace: str, account: str, *, audience: str, seconds: int, pod: tuple[str, str]) -> str:
        """Return a token of a ServiceAccount for `pod` (name, UID), renewed when most of its lifetime is over."""
        known = self._tokens.get((pod[1], audience, seconds))
        if known is not None and self.now() < known[0]:
            return known[1]
        reference = {"apiVersion": "v1", "kind": "Pod", "name": pod[0], "uid": pod[1]}
        spec: dict[str, Any] = {"expirationSeconds": seconds, "boundObjectRef": reference}
        if audience:
            spec["audiences"] = [audience]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = await self.client.create(SERVICE_ACCOUNTS, body, namespace=namespace, name=account, subresource="token")
        status = answer["status"]
        left = max(60.0, (times.epoch(status["expirationTimestamp"]) or 0.0) - time.time())
        self._tokens[pod[1], audience, seconds] = (self.now() + left * _RENEW_AT, status["token"])
        return str(status["token"])

    def forget(self, uid: str) -> None:
        """Remove the tokens of a deleted pod."""
        for known in [known for known in self._tokens if known[0] == uid]:
            del self._tokens[known]

    async def _fetch(self, kind: str, key: Key) -> dict[str, bytes] | None:
        resource: ResourceType = SECRETS if kind == "Secret" else CONFIG_MAPS
        try:
            found = await self.client.get(resource, key)
        except NotFound:
            return None
        encoded = "data" if kind == "Secret" else "binaryData"
        content = {name: base64.b64decode(text) for name, text in (found.get(encoded) or {}).items()}
        if kind == "ConfigMap":
            content |= {name: text.encode() for name, text in (found.get("data") or {}).items()}
        return content

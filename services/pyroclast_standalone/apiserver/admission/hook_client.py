"""Calls webhooks: resolves the address, verifies the certificate, sends the review and checks the answer."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import ssl
import uuid
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import orjson

from pyroclast_standalone.apiserver.admission.chain import Review
from pyroclast_standalone.apiserver.admission.hooks import Matched
from pyroclast_standalone.apiserver.storage.registry import Resource
from pyroclast_standalone.apiserver.storage.store import Store


def request_of(review: Review, seen: Resource) -> dict[str, Any]:
    """Return the `request` of a review without its objects, for a webhook that receives the object as `seen`."""
    asked = review.resource
    names = {
        "subResource": review.subresource,
        "requestSubResource": review.subresource,
        "name": review.name,
        "namespace": review.namespace or (review.name if asked.qualified == "namespaces" else ""),
    }
    return {
        "kind": _kind(*(review.kind or (seen.group, seen.version, seen.kind))),
        "resource": {"group": seen.group, "version": seen.version, "resource": seen.plural},
        "requestKind": _kind(*(review.kind or (asked.group, asked.version, asked.kind))),
        "requestResource": {"group": asked.group, "version": asked.version, "resource": asked.plural},
        **{field: name for field, name in names.items() if name},
        "operation": review.operation,
        "userInfo": review.context.user.wire(),
        "dryRun": review.dry_run,
        "options": review.options or None,
    }


def _kind(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "version": version, "kind": kind}


def variables_of(review: Review, seen: Resource) -> dict[str, Any]:
    """Return the variables of match conditions, for a webhook that receives the object as `seen`."""
    return {
        "object": shown(review, review.body, seen),
        "oldObject": shown(review, review.old, seen),
        "request": request_of(review, seen),
    }


def shown(review: Review, body: dict[str, Any] | None, seen: Resource, *, is_raw: bool = False) -> dict[str, Any] | None:
    """Return an object of the review in the form for the webhook: its Scale, or the version of `seen`.

    Before mutation the object `is_raw`: the defaults of the other version are not set yet.
    """
    if body is None:
        return None
    if review.show is not None:
        return review.show(body)
    if is_raw and seen is not review.resource:
        return {**body, "apiVersion": seen.api_version}
    return review.resource.seen_as(body, seen)


_MAX_ANSWER: Final = 4 * 1024 * 1024  # bytes of an object and its patch
_CONNECTIONS: Final = 100

Response = dict[str, Any]
"""The `response` of an AdmissionReview."""


Seen = tuple["dict[str, Any] | None", "dict[str, Any] | None"]
"""The new object and the old object."""


class CallFailed(Exception):
    """The call of a webhook failed: it gave no usable answer. The failure policy of the webhook decides about the request."""


class HookClient:
    """Calls webhooks over persistent connections, with one pool for each CA."""

    def __init__(self, store: Store) -> None:
        self._services = store.collection("services")
        self._endpoints = store.collection("endpoints")
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    async def close(self) -> None:
        """Close all connections."""
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    async def call(self, matched: Matched, review: Review, seen: Seen, *, mutating: bool) -> Response:
        """Call a webhook. Return its response to `review`. `seen` are the new and old object in the webhook's version.

        Raises CallFailed: the webhook cannot be reached, is too slow, or gives an invalid answer.
        """
        hook = matched.hook
        if "v1" not in hook.versions:
            raise CallFailed("webhook does not accept known AdmissionReview versions (v1, v1beta1)")
        uid = str(uuid.uuid4())
        content = _review(uid, matched, review, seen)
        try:
            url, server_name = self._address(hook.client, hook.timeout)
            answer = await self._post(hook.client, f"{url}?timeout={hook.timeout}s", server_name, content, hook.timeout)
        except CallFailed as error:
            raise CallFailed(f'failed calling webhook "{hook.name}": failed to call webhook: {error}') from error.__cause__
        try:
            return _checked(answer, uid, mutating=mutating)
        except ValueError as error:
            raise CallFailed(f'failed calling webhook "{hook.name}": received invalid webhook response: {error}') from None

    def _address(self, client: Mapping[str, Any], timeout: int) -> tuple[str, str]:
        """Return the URL, and the name for the certificate. An empty name means the host of the URL."""
        if client.get("url"):
            return str(client["url"]), ""
        service = client.get("service") or {}
        namespace, name = service.get("namespace", ""), service.get("name", "")
        port, path = service.get("port") or 443, service.get("path") or "/"
        server_name = f"{name}.{namespace}.svc"
        url = f"https://{server_name}:{port}/{str(path).lstrip('/')}"
        stored = self._services.items.get(f"{namespace}/{name}")
        if stored is None:
            raise CallFailed(f"Post {json.dumps(f'{url}?timeout={timeout}s')}: service {json.dumps(name)} not found")
        endpoints = self._endpoints.items.get(f"{namespace}/{name}")
        host, target = str(stored.load()["spec"].get("clusterIP") or ""), port
        for subset in (endpoints.load().get("subsets") or ()) if endpoints is not None else ():
            if subset.get("addresses") and subset.get("ports"):
                host, target = subset["addresses"][0]["ip"], subset["ports"][0]["port"]
        if not host or host == "None":
            why = f"no endpoints available for service {json.dumps(name)}"
            raise CallFailed(f"Post {json.dumps(f'{url}?timeout={timeout}s')}: {why}")
        return f"https://{host}:{target}/{path.lstrip('/')}", server_name

    async def _post(self, client: Mapping[str, Any], url: str, server_name: str, content: bytes, seconds: float) -> Any:  # noqa: ANN401 - any JSON
        session = self._session(str(client.get("caBundle") or ""))
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        try:
            async with asyncio.timeout(seconds):
                try:
                    status, text = await _exchange(session, url, server_name, headers, content)
                except aiohttp.ServerDisconnectedError:  # a persistent connection that was just closed: Go's client retries too
                    status, text = await _exchange(session, url, server_name, headers, content)
        except TimeoutError:
            raise CallFailed(f"Post {json.dumps(url)}: context deadline exceeded") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise CallFailed(f"Post {json.dumps(url)}: {_why(error, url)}") from error
        if status != 200:
            raise CallFailed(_refusal(status, text))
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise CallFailed(f"couldn't get version/kind; json parse error: {error}") from None

    def _session(self, authority: str) -> aiohttp.ClientSession:
        found = self._sessions.get(authority)
        if found is None:
            try:
                pem = base64.b64decode(authority).decode()
                context = ssl.create_default_context(cadata=pem or None)
            except (binascii.Error, ValueError, ssl.SSLError) as error:
                raise CallFailed(f"unable to load root certificates: {error}") from None
            connector = aiohttp.TCPConnector(ssl=context, limit=_CONNECTIONS)
            found = self._sessions[authority] = aiohttp.ClientSession(
                connector=connector, timeout=aiohttp.ClientTimeout(total=None), auto_decompress=True
            )
        return found


async def _exchange(
    session: aiohttp.ClientSession, url: str, server_name: str, headers: Mapping[str, str], content: bytes
) -> tuple[int, bytes]:
    """Return status and body of the answer."""
    async with session.post(url, data=content, headers=headers, server_hostname=server_name or None) as response:
        return response.status, await response.content.read(_MAX_ANSWER)


def _why(error: Exception, url: str) -> str:
    parts = urlsplit(url)
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: {error}"
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError):
        return f"dial tcp {parts.hostname}:{parts.port or 443}: connect: connection refused"
    return str(error) or type(error).__name__


def _refusal(code: int, text: bytes) -> str:
    said = text.decode(errors="replace").strip()
    if code >= 500:
        return f"an error on the server ({json.dumps(said or 'unknown')}) has prevented the request from succeeding"
    return f"the server rejected our request for an unknown reason ({code}: {said})"


def _review(uid: str, matched: Matched, review: Review, seen: Seen) -> bytes:
    request = {"uid": uid, **request_of(review, matched.resource), "object": seen[0], "oldObject": seen[1]}
    return orjson.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})


def _checked(answer: Any, uid: str, *, mutating: bool) -> Response:  # noqa: ANN401 - any JSON
    """Return the `response` of the answer. Raises ValueError: the answer is invalid."""
    if (
        not isinstance(answer, dict)
        or answer.get("kind") != "AdmissionReview"
        or answer.get("apiVersion") != "admission.k8s.io/v1"
    ):
        got = f"{answer.get('apiVersion')}, Kind={answer.get('kind')}" if isinstance(answer, dict) else "something else"
        raise ValueError(f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {got}")
    response = answer.get("response")
    if not isinstance(response, dict):
        raise ValueError("webhook response is absent")  # noqa: TRY004 - all failures have one type
    if response.get("uid") != uid:
        raise ValueError(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    patch, patch_type = response.get("patch"), response.get("patchType")
    if not mutating and (patch or patch_type):
        raise ValueError("webhook response for a validating webhook may not have a patch")
    if patch and not patch_type:
        raise ValueError("webhook returned response.patch but not response.patchType")
    if patch and patch_type != "JSONPatch":
        raise ValueError(f'invalid response.patchType: "{patch_type or ""}"')
    return response

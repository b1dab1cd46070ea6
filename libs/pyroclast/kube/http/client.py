"""Requests to the API server: raw JSON in and out, retried where that is safe.

This module has the verbs of the API. `caller` has the retries of a call, and `transport` has a single HTTP exchange.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from enum import StrEnum
from typing import Any, Final, Self, TypeAlias
from urllib.parse import quote, urlencode

import msgspec
import orjson

from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import ConnectionFailed
from pyroclast.kube.basics.observer import SILENT, Observer
from pyroclast.kube.basics.retry import MAX_ATTEMPTS, Repeat
from pyroclast.kube.credentials.config import ClusterConfig
from pyroclast.kube.http.caller import Call, Caller
from pyroclast.kube.http.connections import Request
from pyroclast.kube.http.paging import Page, read_pages

Json: TypeAlias = dict[str, Any]
Items: TypeAlias = list[Json]
Lines: TypeAlias = list[bytes]

READ_SECONDS: Final = 10.0  # one attempt of a read: a hanging connection must not use up the whole deadline
JSON_TYPE: Final = "application/json"
VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
SAFE: Final = "/:@!$&'()*+,;=~%"  # characters of a path that are not quoted
PLAIN: Final = re.compile(r"[A-Za-z0-9/._:-]*")  # almost all paths, which need no quoting


class PatchKind(StrEnum):
    """The format of a patch body; the values are the content types."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Client:
    """A client of an API server, used as an async context manager; all methods raise `pyroclast.kube.basics.errors`.

    A call is retried after connection errors, 5xx, and 429 with Retry-After, until its `deadline` (by default 30 seconds from
    now), unless a second request could do harm. The deadline includes the wait for a free slot. A write under a Lease that may
    have been lost does not begin (`pyroclast.kube.http.caller`). Bodies may contain msgspec structs and raw JSON.
    `max_in_flight`: parallel requests, not counting watches. More than 48 only makes the server drop watches. `qps`: requests per
    second, 0 for no limit; `burst` of them at once. `on_warning`: called once for each text of a server's warning; by default the
    warning is logged.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        max_in_flight: int = 48,
        qps: float = 0.0,
        burst: int = 0,
        max_attempts: int = MAX_ATTEMPTS,
        user_agent: str = "pyroclast",
        observer: Observer = SILENT,
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        self.config = config
        self.observer = observer
        self.user_agent = user_agent
        self._caller = Caller(
            config,
            observer,
            max_in_flight=max_in_flight,
            qps=qps,
            burst=burst,
            max_attempts=max_attempts,
            user_agent=user_agent,
            on_warning=on_warning,
        )

    async def __aenter__(self) -> Self:
        await self._caller.transport.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._caller.transport.close()

    def apart(self) -> Client:
        """Return another client of the same API server with its own connections and no limits, for requests that must
        not wait.
        """
        return Client(self.config, user_agent=self.user_agent, observer=self.observer)

    @property
    def outages(self) -> int:
        """How many times the API server has become unreachable."""
        return self._caller.transport.outages

    def now(self) -> float:
        """Return seconds since the epoch by the clock of the API server."""
        return self._caller.transport.clock.now()

    async def get(self, kind: ResourceType, key: Key, *, subresource: str = "", deadline: Deadline | None = None) -> Json:
        """Read one object."""
        request = _request("GET", kind.path(key.namespace, key.name, subresource))
        return _object(await self._caller.call(Call(request, "get", _label(kind, subresource), seconds=READ_SECONDS), deadline))

    async def list(
        self, kind: ResourceType, namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = 500
    ) -> tuple[Items, str]:
        """Return all objects and the resourceVersion of the list, read in pages of `limit` (0: one page)."""

        async def fetch(query: dict[str, str]) -> Page[Json]:
            body = _object(await self.list_page(kind, namespace, query))
            meta = body.get("metadata") or {}
            return Page(body.get("items") or [], meta.get("resourceVersion", ""), meta.get("continue", ""))

        return await read_pages(fetch, selectors(label_selector, field_selector), limit)

    async def list_page(self, kind: ResourceType, namespace: str, query: Mapping[str, str]) -> bytes:
        """Return one page of a list, undecoded."""
        return await self._caller.call(Call(_request("GET", kind.path(namespace), query), "list", kind.qualified))

    async def create(
        self,
        kind: ResourceType,
        body: Mapping[str, Any],
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = "",
        strict: bool = False,
        deadline: Deadline | None = None,
    ) -> Json:
        """Create an object, or post to a subresource of `name`.

        `strict`: the server refuses unknown and duplicate fields instead of dropping them. When the response to a create with a
        name is lost, the create is sent again. A following AlreadyExists may then mean the object of the first attempt. A create
        with generateName is only sent again if it certainly did not reach the server.
        """
        metadata = body.get("metadata") or {}
        query = {"dryRun": "All"} if dry_run else {}
        if field_manager:
            query["fieldManager"] = field_manager
        if strict:
            query["fieldValidation"] = "Strict"
        path = kind.path(namespace or str(metadata.get("namespace") or ""), name, subresource)
        repeat = Repeat.HARMLESS if metadata.get("name") or name else Repeat.DOUBLES
        call = Call(_request("POST", path, query, encode(body)), "create", _label(kind, subresource), repeat)
        return _object(await self._caller.call(call, deadline))

    async def update(
        self, kind: ResourceType, body: Mapping[str, Any], *, subresource: str = "", deadline: Deadline | None = None
    ) -> Json:
        """Replace an object; its resourceVersion, if it has one, must be current."""
        metadata = body["metadata"]
        path = kind.path(metadata.get("namespace") or "", metadata["name"], subresource)
        return _object(
            await self._caller.call(
                Call(_request("PUT", path, None, encode(body)), "update", _label(kind, subresource)), deadline
            )
        )

    async def patch(
        self,
        kind: ResourceType,
        key: Key,
        body: Any,  # noqa: ANN401 - a JSON value
        how: PatchKind,
        *,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
        deadline: Deadline | None = None,
    ) -> Json:
        """Change a part of an object. `force`, only for APPLY: take over fields that other managers own."""
        query = {"fieldManager": field_manager} if field_manager else {}
        if force:
            query["force"] = "true"
        request = _request("PATCH", kind.path(key.namespace, key.name, subresource), query, encode(body), content_type=how.value)
        repeat = Repeat.DOUBLES if how is PatchKind.JSON else Repeat.HARMLESS
        return _object(await self._caller.call(Call(request, "patch", _label(kind, subresource), repeat), deadline))

    async def delete(
        self,
        kind: ResourceType,
        key: Key,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
        propagation: str = "",
        deadline: Deadline | None = None,
    ) -> Json:
        """Delete an object, if it still has the given `uid` and `resource_version` (else Conflict); empty values are not
        compared.

        When the response is lost, the delete is sent again; the second response may be NotFound although this call deleted the
        object.

        `grace_seconds`: seconds that the object's processes may take to stop; None for the value of the object. `propagation`:
        Background, Foreground or Orphan.
        """
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if preconditions := {name: value for name, value in (("uid", uid), ("resourceVersion", resource_version)) if value}:
            options["preconditions"] = preconditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation:
            options["propagationPolicy"] = propagation
        request = _request("DELETE", kind.path(key.namespace, key.name), None, encode(options))
        return _object(await self._caller.call(Call(request, "delete", kind.qualified), deadline))

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON_TYPE,
        once: bool = False,
        deadline: Deadline | None = None,
    ) -> bytes:
        """Send any request; return the body of the response.

        With `once`, the request is never sent again. A POST is sent again only if it certainly did not reach the server.
        """
        request = _request(method, path, query, body, content_type=content_type)
        repeat = Repeat.NEVER if once else Repeat.DOUBLES if method == "POST" else Repeat.HARMLESS
        return await self._caller.call(Call(request, VERBS[method], repeat=repeat), deadline)

    async def stream(self, path: str, query: Mapping[str, str] | None = None) -> AsyncGenerator[bytes]:
        """Yield the lines of a long response (a followed log, a watch) as they arrive."""
        async with aclosing(self._caller.line_batches(_request("GET", path, query), "", silence=0.0)) as batches:
            async for lines in batches:
                for line in lines:
                    yield line

    def watch(self, kind: ResourceType, namespace: str, query: Mapping[str, str], *, silence: float) -> AsyncGenerator[Lines]:
        """Yield the events of a watch as undecoded lines, in batches that arrived together. An empty batch first: the watch is
        open.

        The request is not repeated. A stream that is cut, or has no byte for `silence` seconds, raises ConnectionFailed.
        """
        request = _request("GET", kind.path(namespace), {**query, "watch": "true"})
        return self._caller.line_batches(request, kind.qualified, silence=silence)


def selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    """Return the query parameters of a label selector and a field selector."""
    named = (("labelSelector", label_selector), ("fieldSelector", field_selector))
    return {name: value for name, value in named if value}


def encode(value: Any) -> bytes:  # noqa: ANN401 - a JSON value
    """Return `value` as JSON; msgspec structs and raw JSON may be anywhere in `value`."""
    return orjson.dumps(value, default=_part)


def _part(value: object) -> object:
    match value:
        case msgspec.Raw():
            return orjson.Fragment(bytes(value))
        case msgspec.Struct():
            return orjson.Fragment(msgspec.json.encode(value))
        case Mapping():
            return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _request(
    method: str,
    path: str,
    query: Mapping[str, str] | None = None,
    body: bytes | None = None,
    *,
    content_type: str = JSON_TYPE,
) -> Request:
    quoted = path if PLAIN.fullmatch(path) else quote(path, SAFE)
    return Request(method, quoted, urlencode(query) if query else "", body, content_type)


def _label(kind: ResourceType, subresource: str) -> str:
    return f"{kind.qualified}/{subresource}" if subresource else kind.qualified


def _object(body: bytes) -> Json:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ConnectionFailed(f"the answer is not JSON: {error}") from error
    return value if isinstance(value, dict) else {}

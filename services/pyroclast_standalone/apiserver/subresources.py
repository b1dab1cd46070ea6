"""Subresources besides status: scale, binding, eviction, log, token, finalize, approval; and reviews, which have no objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from . import bodies, clock, status
from .binding import Binder
from .context import Answer, Context
from .documents.errors import invalid
from .eviction import Evictor
from .logs import Logs
from .present import json_answer, object_answer
from .registry import Registry, Resource
from .reviews import Reviews
from .scale import Scales
from .store import Store
from .tokens import ISSUER, TokenSigner
from .write import Writer

__all__ = ["Subresources"]

_STREAMING: Final = {"attach", "exec", "portforward", "proxy"}
_DEFAULT_TOKEN_SECONDS: Final = 3600
_BINDABLE: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
_MAX_TOKEN_SECONDS: Final = 2**32
_MIN_TOKEN_SECONDS: Final = 600


class Subresources:
    """Answers them."""

    def __init__(
        self, store: Store, registry: Registry, writer: Writer, *, reviews: Reviews, signer: TokenSigner, logs: Logs
    ) -> None:
        self._store = store
        self._registry = registry
        self._writer = writer
        self._reviews = reviews
        self._signer = signer
        self._binder = Binder(store, registry, writer)
        self._evictor = Evictor(store, registry, writer)
        self._scales = Scales(writer)
        self._logs = logs

    async def answer(self, context: Context, resource: Resource, method: str) -> Any:  # noqa: ANN401 - an answer or a stream
        """The answer to a request for a subresource."""
        name = context.info.subresource
        if name in _STREAMING:
            raise status.bad_request(f"{name} is not supported by the local server")
        if name == "log" and method in {"GET", "HEAD"}:
            return await self._logs.answer(context)
        if name == "scale":
            return await self._scales.answer(context, resource, method)
        handlers: dict[tuple[str, str], Callable[[Context, Resource], Awaitable[Answer]]] = {
            ("binding", "POST"): self._binder.bind,
            ("eviction", "POST"): self._evictor.evict,
            ("token", "POST"): self._token,
            ("finalize", "PUT"): self._finalize,
        }
        handler = handlers.get((name, method))
        if handler is not None:
            return await handler(context, resource)
        if name in {"approval", "ephemeralcontainers", "resize"} and method in {"GET", "PUT", "PATCH"}:
            return await self._plain(context, resource, method)
        raise status.method_not_allowed()

    async def review(self, context: Context, resource: Resource) -> Answer:
        """The answer to the POST of a kind that is not stored."""
        if resource.kind == "Binding":
            return await self._binder.bind(context, resource)
        body = bodies.decode(context, resource)
        body.setdefault("metadata", {})
        self._writer.track(context, resource, body, None, now=context.now)
        return json_answer(context.wanted, self._reviews.answer(context, resource.kind, body), 201)

    async def _plain(self, context: Context, resource: Resource, method: str) -> Answer:
        """A view of the whole object that may change only a part of it; which part the kind decides."""
        name = context.info.subresource
        if method == "GET":
            stored = resource.collection.items.get(_key(context, resource))
            if stored is None:
                raise status.not_found(resource.group, resource.plural, context.info.name)
            return object_answer(context, resource, stored)
        write = self._writer.update if method == "PUT" else self._writer.patch
        code, shown = await write(context, resource, name)
        return object_answer(context, resource, shown, code)

    async def _token(self, context: Context, resource: Resource) -> Answer:
        """A token for a service account."""
        body, _ = bodies.parse(context, "TokenRequest")
        if not isinstance(body, dict):
            raise bodies.not_an_object(context.body, "TokenRequest", body)
        stored = resource.collection.items.get(_key(context, resource))
        if stored is None:
            raise status.not_found("", "serviceaccounts", context.info.name)
        spec = {"audiences": [ISSUER], **(body.get("spec") or {})}
        seconds = spec.get("expirationSeconds") or _DEFAULT_TOKEN_SECONDS
        if (name := (body.get("metadata") or {}).get("name", "")) not in {"", context.info.name}:
            fault = invalid("metadata.name", name, "must match the service account name if specified")
            raise status.invalid("authentication.k8s.io", "TokenRequest", context.info.name, [fault])
        faults = []
        if seconds < _MIN_TOKEN_SECONDS:
            faults.append(invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
        if seconds > _MAX_TOKEN_SECONDS:
            faults.append(invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"))
        if faults:
            raise status.invalid("authentication.k8s.io", "TokenRequest", "", faults)
        now = self._writer.now()
        bound = self._bound_object(context, spec.get("boundObjectRef"))
        token = self._signer.issue(stored.load(), now=now, seconds=seconds, audiences=spec.get("audiences"), bound=bound)
        body = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": context.info.name,
                "namespace": context.info.namespace,
                "uid": stored.uid,
                "creationTimestamp": clock.timestamp(now),
                "managedFields": _managed_token(context, clock.timestamp(now)),
            },
            "spec": {**spec, "expirationSeconds": seconds},
            "status": {"token": token, "expirationTimestamp": clock.timestamp(now + seconds)},
        }
        return json_answer(context.wanted, body, 201)

    def _bound_object(self, context: Context, reference: dict[str, Any] | None) -> dict[str, Any] | None:
        if not reference:
            return None
        kind, name = reference.get("kind", ""), reference.get("name", "")
        if kind not in _BINDABLE:
            raise status.bad_request(f"cannot bind token to object of type /{reference.get('apiVersion', '')}, Kind={kind}")
        collection = self._store.collection(_BINDABLE[kind])
        key = name if kind == "Node" else f"{context.info.namespace}/{name}"
        stored = collection.items.get(key)
        if stored is None:
            raise status.not_found("", collection.name, name)
        if reference.get("uid") not in {None, "", stored.uid}:
            raise status.conflict(
                "",
                collection.name,
                name,
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated",
            )
        return {"kind": kind, "metadata": {"name": name, "uid": stored.uid}}

    async def _finalize(self, context: Context, resource: Resource) -> Answer:
        """The namespace controller's way to say that it is done."""
        code, shown = await self._writer.update(context, resource, "finalize")
        return object_answer(context, resource, shown, code)


def _managed_token(context: Context, now: str) -> list[dict[str, Any]]:
    """Owners of the fields of a token request: whoever sent it."""
    return [
        {
            "manager": context.field_manager,
            "operation": "Update",
            "apiVersion": "authentication.k8s.io/v1",
            "time": now,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:expirationSeconds": {}}},
            "subresource": "token",
        }
    ]


def _key(context: Context, resource: Resource) -> str:
    return f"{context.info.namespace}/{context.info.name}" if resource.namespaced else context.info.name

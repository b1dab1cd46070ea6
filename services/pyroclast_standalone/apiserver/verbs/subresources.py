"""Subresources besides status: scale, binding, eviction, log, token, finalize, approval. Also reviews, which are not stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from pyroclast_standalone.apiserver.access.tokens import TokenSigner
from pyroclast_standalone.apiserver.admission.chain import Review
from pyroclast_standalone.apiserver.requests import bodies, status
from pyroclast_standalone.apiserver.requests.context import Answer, Context
from pyroclast_standalone.apiserver.requests.present import json_answer, object_answer
from pyroclast_standalone.apiserver.storage.registry import Registry, Resource
from pyroclast_standalone.apiserver.storage.store import Store
from pyroclast_standalone.apiserver.verbs.binding import Binder
from pyroclast_standalone.apiserver.verbs.eviction import Evictor
from pyroclast_standalone.apiserver.verbs.logs import Logs, container_of
from pyroclast_standalone.apiserver.verbs.reviews import Reviews
from pyroclast_standalone.apiserver.verbs.scale import Scales
from pyroclast_standalone.apiserver.verbs.token_requests import TokenRequests
from pyroclast_standalone.apiserver.verbs.write import Writer

_STREAMING: Final = {"attach", "exec", "portforward", "proxy"}


class Subresources:
    """Answers requests for subresources."""

    def __init__(
        self, store: Store, registry: Registry, writer: Writer, *, reviews: Reviews, signer: TokenSigner, logs: Logs
    ) -> None:
        self._store = store
        self._registry = registry
        self._writer = writer
        self._reviews = reviews
        self._token_requests = TokenRequests(writer, signer)
        self._binder = Binder(store, registry, writer)
        self._evictor = Evictor(store, registry, writer)
        self._scales = Scales(writer)
        self._logs = logs

    async def answer(self, context: Context, resource: Resource, method: str) -> Any:  # noqa: ANN401 - an answer or a stream
        """Return the answer to a request for a subresource."""
        name = context.info.subresource
        if name in _STREAMING:
            raise self._not_streamed(context, resource)
        if name == "log" and method in {"GET", "HEAD"}:
            return await self._logs.answer(context)
        if name == "scale":
            return await self._scales.answer(context, resource, method)
        handlers: dict[tuple[str, str], Callable[[Context, Resource], Awaitable[Answer]]] = {
            ("binding", "POST"): self._binder.bind,
            ("eviction", "POST"): self._evictor.evict,
            ("token", "POST"): self._token_requests.answer,
            ("finalize", "PUT"): self._finalize,
        }
        handler = handlers.get((name, method))
        if handler is not None:
            return await handler(context, resource)
        if name in {"approval", "ephemeralcontainers", "resize"} and method in {"GET", "PUT", "PATCH"}:
            return await self._plain(context, resource, method)
        raise status.method_not_allowed()

    async def review(self, context: Context, resource: Resource) -> Answer:
        """Answer the POST of a kind that is not stored."""
        if resource.kind == "Binding":
            return await self._binder.bind(context, resource)
        body = bodies.decode(context, resource.strategy)
        metadata = body.setdefault("metadata", {})
        if resource.namespaced:
            metadata["namespace"] = metadata.get("namespace") or context.info.namespace
        self._writer.track(context, resource, body, None, now=context.now)
        options = context.write_options("CreateOptions")
        namespace = metadata.get("namespace", "")
        review = Review("CREATE", resource, "", namespace, "", body, None, context, context.is_dry_run, options)
        await self._writer.admission.mutate(review)
        self._reviews.check(resource.kind, body)
        await self._writer.admission.validate(review)
        return json_answer(self._reviews.answer(context, resource.kind, body), 201)

    def _not_streamed(self, context: Context, resource: Resource) -> status.StatusError:
        """Return the reason why no connection to a container is possible: no pod, no node, or no kubelet for it."""
        stored = resource.collection.items.get(_key(context, resource))
        if stored is None:
            return status.not_found(resource.group, resource.plural, context.info.name)
        pod = stored.load()
        if context.info.subresource in {"attach", "exec"}:
            container_of(pod, context.query.text("container"))
        if not pod["spec"].get("nodeName"):
            return status.bad_request(f"pod {context.info.name} does not have a host assigned")
        return status.bad_request(f"{context.info.subresource} is not supported by the local server")

    async def _plain(self, context: Context, resource: Resource, method: str) -> Answer:
        """Handle a subresource that shows the whole object but changes only a part of it. The kind determines that part."""
        name = context.info.subresource
        if method == "GET":
            stored = resource.collection.items.get(_key(context, resource))
            if stored is None:
                raise status.not_found(resource.group, resource.plural, context.info.name)
            return object_answer(context, resource, stored)
        write = self._writer.update if method == "PUT" else self._writer.patch
        code, shown = await write(context, resource, name)
        return object_answer(context, resource, shown, code)

    async def _finalize(self, context: Context, resource: Resource) -> Answer:
        """Handle the finalize subresource, with which the namespace controller finishes a deletion."""
        code, shown = await self._writer.update(context, resource, "finalize")
        return object_answer(context, resource, shown, code)


def _key(context: Context, resource: Resource) -> str:
    return f"{context.info.namespace}/{context.info.name}" if resource.namespaced else context.info.name

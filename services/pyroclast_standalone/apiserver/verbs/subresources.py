"""Subresources besides status: scale, binding, eviction, log, token, finalize, approval. Also reviews, which are not stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from pyroclast.rules.errors import invalid
from pyroclast_standalone import times
from pyroclast_standalone.apiserver.access.authn import ISSUER, TokenSigner
from pyroclast_standalone.apiserver.admission.chain import Review
from pyroclast_standalone.apiserver.kinds.builtin import BuiltinStrategy
from pyroclast_standalone.apiserver.kinds.builtins import Builtin
from pyroclast_standalone.apiserver.kinds.rules import Rules
from pyroclast_standalone.apiserver.requests import bodies, status
from pyroclast_standalone.apiserver.requests.context import Answer, Context
from pyroclast_standalone.apiserver.requests.present import json_answer, object_answer
from pyroclast_standalone.apiserver.storage.registry import Registry, Resource
from pyroclast_standalone.apiserver.storage.store import Store
from pyroclast_standalone.apiserver.verbs.deleting import Deleter, check_preconditions, options_of
from pyroclast_standalone.apiserver.verbs.logs import Logs, container_of
from pyroclast_standalone.apiserver.verbs.reviews import Reviews
from pyroclast_standalone.apiserver.verbs.scale import Scales
from pyroclast_standalone.apiserver.verbs.write import Writer

_TOKEN_REQUEST: Final = bodies.BodyKind("authentication.k8s.io", "v1", "TokenRequest")
_STRATEGY: Final = BuiltinStrategy(
    Builtin(_TOKEN_REQUEST.group, _TOKEN_REQUEST.version, "tokenrequests", _TOKEN_REQUEST.kind), Rules()
)
_DEFAULT_SECONDS: Final = 3600
_SHORTEST_SECONDS: Final = 600
_LONGEST_SECONDS: Final = 2**32


class TokenRequests:
    """Answers token requests."""

    def __init__(self, writer: Writer, signer: TokenSigner) -> None:
        self._writer = writer
        self._store = writer.store
        self._signer = signer
        self._requests = Resource.of(_STRATEGY, writer.store.collection("tokenrequests.authentication.k8s.io"))

    async def answer(self, context: Context, resource: Resource) -> Answer:
        """Handle the POST of a TokenRequest to a service account."""
        context.check_options()
        name, namespace = context.info.name, context.info.namespace
        body = bodies.decode(context, _TOKEN_REQUEST)
        metadata = body["metadata"]
        given = metadata.get("namespace") or namespace
        if given != namespace:
            raise status.bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if metadata.get("name", name) != name:
            fault = invalid("metadata.name", metadata["name"], "must match the service account name if specified")
            raise status.invalid(_TOKEN_REQUEST.group, _TOKEN_REQUEST.kind, name, [fault])
        stored = resource.collection.items.get(f"{namespace}/{name}")
        if stored is None:
            raise status.not_found("", "serviceaccounts", name)
        if (uid := metadata.get("uid") or stored.uid) != stored.uid:
            why = f"the UID in the token request ({uid}) does not match the UID of the service account ({stored.uid})"
            raise status.conflict(_TOKEN_REQUEST.group, _TOKEN_REQUEST.kind, name, why)
        spec = body["spec"]
        if spec.get("expirationSeconds") is None:
            spec["expirationSeconds"] = _DEFAULT_SECONDS
        body["status"] = {}
        self._writer.track(context, self._requests, body, None, now=context.now, subresource="token")
        spec["audiences"] = spec.get("audiences") or [ISSUER]
        body["status"] = {"token": "", "expirationTimestamp": None}
        metadata |= {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": times.rfc3339(context.now)}
        _check(spec)
        kind = (_TOKEN_REQUEST.group, _TOKEN_REQUEST.version, _TOKEN_REQUEST.kind)
        await self._writer.admission.admit_posted(context, resource, "token", body, kind=kind, dry_run=context.is_dry_run)
        bound = self._bound_object(context, spec.get("boundObjectRef"))
        seconds, audiences = spec["expirationSeconds"], spec["audiences"]
        token = self._signer.issue(stored.load(), now=context.now, seconds=seconds, audiences=audiences, bound=bound)
        body["status"] = {"token": token, "expirationTimestamp": times.rfc3339(context.now + seconds)}
        return json_answer(body, 201)

    def _bound_object(self, context: Context, reference: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return the object to which the token is bound, or None."""
        if not reference:
            return None
        kind, name = reference.get("kind", ""), reference.get("name", "")
        group, _, version = reference.get("apiVersion", "").rpartition("/")
        if group or kind != "Pod":
            raise status.bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        collection = self._store.collection("pods")
        stored = collection.items.get(f"{context.info.namespace}/{name}")
        if stored is None:
            raise status.not_found("", collection.name, name)
        account = context.info.name
        if stored.load()["spec"].get("serviceAccountName") != account:
            why = f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
            raise status.bad_request(why)
        if reference.get("uid") not in {None, "", stored.uid}:
            why = (
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise status.conflict("", kind, name, why)
        return {"kind": kind, "metadata": {"name": name, "uid": stored.uid}}


def _check(spec: Mapping[str, Any]) -> None:
    seconds, faults = spec["expirationSeconds"], []
    if seconds < _SHORTEST_SECONDS:
        faults.append(invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    if seconds > _LONGEST_SECONDS:
        faults.append(invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"))
    if faults:
        raise status.invalid(_TOKEN_REQUEST.group, _TOKEN_REQUEST.kind, "", faults)


_EVICTION: Final = bodies.BodyKind("policy", "v1", "Eviction")


class Evictor:
    """Evicts pods."""

    def __init__(self, store: Store, registry: Registry, writer: Writer) -> None:
        self._store = store
        self._pods = registry.require("", "v1", "pods")
        self._writer = writer
        self._deleter = Deleter(writer)

    async def evict(self, context: Context, resource: Resource) -> Answer:
        """Handle the POST of an Eviction."""
        context.check_options()
        body = bodies.decode(context, _EVICTION)
        name, namespace = context.info.name, context.info.namespace
        if body["metadata"].get("namespace", namespace) != namespace:
            raise status.bad_request("the namespace of the provided object does not match the namespace sent on the request")
        body["metadata"]["namespace"] = namespace
        if body["metadata"].get("name", "") != name:
            raise status.bad_request("name in URL does not match name in Eviction object")
        key = f"{context.info.namespace}/{name}"
        stored = resource.collection.items.get(key)
        if stored is None:
            raise status.not_found("", "pods", name)
        wanted: dict[str, Any] = body.get("deleteOptions") or {}
        options = options_of(wanted)
        dry_run = options.dry_run or context.is_dry_run
        options.dry_run = dry_run
        kind = (_EVICTION.group, _EVICTION.version, _EVICTION.kind)
        await self._writer.admission.admit_posted(context, resource, "eviction", body, kind=kind, dry_run=dry_run)
        check_preconditions(resource, stored, options)
        if not dry_run:
            self._mark(key)
        await self._deleter.delete_key(context, resource, key, options, is_admitted=True)
        return json_answer(status.success(201), 201)

    def _mark(self, key: str) -> None:
        """Add the condition DisruptionTarget to the pod."""
        stored = self._pods.collection.items[key]
        pod = stored.load()
        conditions = pod.setdefault("status", {}).setdefault("conditions", [])
        if any(each["type"] == "DisruptionTarget" for each in conditions):
            return
        conditions.append(
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
                "lastProbeTime": None,
                "lastTransitionTime": times.rfc3339(self._writer.now()),
            }
        )
        self._store.put(self._pods.collection, key, pod)


class Binder:
    """Binds pods."""

    def __init__(self, store: Store, registry: Registry, writer: Writer) -> None:
        self._store = store
        self._pods = registry.require("", "v1", "pods")
        self._bindings = registry.require("", "v1", "bindings")
        self._writer = writer

    async def bind(self, context: Context, _resource: Resource) -> Answer:
        """Handle the POST of a Binding to a pod or to the collection of bindings. Copy its labels and annotations to the pod."""
        body = bodies.decode(context, self._bindings.strategy)
        metadata = body.get("metadata") or {}
        if metadata.get("namespace", context.info.namespace) != context.info.namespace:
            raise status.bad_request("the namespace of the provided object does not match the namespace sent on the request")
        name = metadata.get("name", "")
        if context.info.name and name != context.info.name:
            raise status.bad_request("name in URL does not match name in Binding object")
        target = body.get("target") or {}
        if not target.get("name"):
            raise status.unreasoned(500, "target.name: Required value")
        if target.get("kind", "Node") not in {"", "Node"}:
            raise status.unreasoned(
                500, f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"'
            )
        if not name:
            raise status.bad_request("Name parameter required.")
        key = f"{context.info.namespace}/{name}"
        body["metadata"] = {**metadata, "name": name, "namespace": context.info.namespace}
        review = await self._writer.admission.admit_posted(
            context, self._pods, "binding", body, kind=("", "v1", "Binding"), dry_run=context.is_dry_run
        )
        self._assign(key, name, review.body or body, dry_run=review.dry_run)
        return json_answer(status.success(201), 201)

    def _assign(self, key: str, name: str, body: dict[str, Any], *, dry_run: bool) -> None:
        stored = self._pods.collection.items.get(key)
        if stored is None:
            raise status.not_found("", "pods", name)
        pod = stored.load()
        spec, metadata = pod["spec"], pod["metadata"]
        wanted = body["metadata"]
        target = body["target"]["name"]
        uid = wanted.get("uid")
        if uid and uid != metadata["uid"]:
            why = status.no_such_uid(f"/registry/pods/{key}", uid, metadata["uid"])
            raise status.conflict("", "pods", name, why)
        if "deletionTimestamp" in metadata:
            raise status.conflict("", "pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
        if spec.get("nodeName"):
            raise status.conflict("", "pods/binding", name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
        if spec.get("schedulingGates"):
            raise status.conflict("", "pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")
        if dry_run:
            return
        spec["nodeName"] = target
        for field in ("annotations", "labels"):
            if wanted.get(field):
                metadata[field] = {**metadata.get(field, {}), **wanted[field]}
        conditions = pod.setdefault("status", {}).setdefault("conditions", [])
        conditions[:] = [each for each in conditions if each["type"] != "PodScheduled"]
        conditions.append(
            {
                "type": "PodScheduled",
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": times.rfc3339(self._writer.now()),
            }
        )
        self._store.put(self._pods.collection, key, pod)


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
        if name == "exec" and method == "GET" and context.headers.get("Upgrade", "").lower() == "websocket":
            return self._logs.execute(context)
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
        if context.info.subresource == "exec":
            return status.bad_request("Upgrade request required")
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

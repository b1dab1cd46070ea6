"""Subresources that are no part of their object: scale, binding, eviction, log, token. Also reviews, which are not stored."""

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
from pyroclast_standalone.apiserver.requests.present import found, json_answer
from pyroclast_standalone.apiserver.storage.registry import Registry, Resource
from pyroclast_standalone.apiserver.storage.store import Store
from pyroclast_standalone.apiserver.verbs.deleting import Deleter, check_preconditions, options_of
from pyroclast_standalone.apiserver.verbs.logs import Logs, container_of
from pyroclast_standalone.apiserver.verbs.reviews import Reviews
from pyroclast_standalone.apiserver.verbs.scale import Scales
from pyroclast_standalone.apiserver.verbs.write import Writer

_TOKEN_REQUEST: Final = bodies.BodyKind("authentication.k8s.io", "v1", "TokenRequest")
_TOKEN_STRATEGY: Final = BuiltinStrategy(
    Builtin(_TOKEN_REQUEST.group, _TOKEN_REQUEST.version, "tokenrequests", _TOKEN_REQUEST.kind), Rules()
)
_EVICTION: Final = bodies.BodyKind("policy", "v1", "Eviction")
_DEFAULT_SECONDS: Final = 3600
_SHORTEST_SECONDS: Final = 600
_LONGEST_SECONDS: Final = 2**32
_STREAMING: Final = {"attach", "exec", "portforward", "proxy"}


class Subresources:
    """Answers requests for subresources."""

    def __init__(
        self, store: Store, registry: Registry, writer: Writer, *, reviews: Reviews, signer: TokenSigner, logs: Logs
    ) -> None:
        self._store, self._writer, self._deleter, self._scales = store, writer, Deleter(writer), Scales(writer)
        self._reviews, self._signer, self._logs = reviews, signer, logs
        self._pods, self._bindings = registry.require("", "v1", "pods"), registry.require("", "v1", "bindings")
        self._token_requests = Resource(_TOKEN_STRATEGY, store.collection("tokenrequests.authentication.k8s.io"))

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
            ("binding", "POST"): self._bind,
            ("eviction", "POST"): self._evict,
            ("token", "POST"): self._token,
        }
        handler = handlers.get((name, method))
        if handler is None:
            raise status.method_not_allowed()
        return await handler(context, resource)

    async def review(self, context: Context, resource: Resource) -> Answer:
        """Answer the POST of a kind that is not stored."""
        if resource.kind == "Binding":
            return await self._bind(context, resource)
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
        pod = found(context, resource).load()
        if context.info.subresource in {"attach", "exec"}:
            container_of(pod, context.query.text("container"))
        if not pod["spec"].get("nodeName"):
            return status.bad_request(f"pod {context.info.name} does not have a host assigned")
        if context.info.subresource == "exec":
            return status.bad_request("Upgrade request required")
        return status.bad_request(f"{context.info.subresource} is not supported by the local server")

    async def _token(self, context: Context, resource: Resource) -> Answer:
        """Handle the POST of a TokenRequest to a service account."""
        context.check_options()
        name, namespace = context.info.name, context.info.namespace
        body = bodies.decode(context, _TOKEN_REQUEST)
        metadata = body["metadata"]
        _check_namespace(metadata.get("namespace") or namespace, namespace)
        if metadata.get("name", name) != name:
            fault = invalid("metadata.name", metadata["name"], "must match the service account name if specified")
            raise status.invalid(_TOKEN_REQUEST.group, _TOKEN_REQUEST.kind, name, [fault])
        stored = found(context, resource)
        if (uid := metadata.get("uid") or stored.uid) != stored.uid:
            why = f"the UID in the token request ({uid}) does not match the UID of the service account ({stored.uid})"
            raise status.conflict(_TOKEN_REQUEST.group, _TOKEN_REQUEST.kind, name, why)
        spec = body["spec"]
        if spec.get("expirationSeconds") is None:
            spec["expirationSeconds"] = _DEFAULT_SECONDS
        body["status"] = {}
        self._writer.track(context, self._token_requests, body, None, now=context.now, subresource="token")
        spec["audiences"] = spec.get("audiences") or [ISSUER]
        body["status"] = {"token": "", "expirationTimestamp": None}
        metadata |= {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": times.rfc3339(context.now)}
        _check_duration(spec)
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

    async def _evict(self, context: Context, resource: Resource) -> Answer:
        """Handle the POST of an Eviction."""
        context.check_options()
        body = bodies.decode(context, _EVICTION)
        name, namespace = context.info.name, context.info.namespace
        _check_namespace(body["metadata"].get("namespace", namespace), namespace)
        body["metadata"]["namespace"] = namespace
        if body["metadata"].get("name", "") != name:
            raise status.bad_request("name in URL does not match name in Eviction object")
        stored = found(context, resource)
        options = options_of(body.get("deleteOptions") or {})
        options.dry_run = options.dry_run or context.is_dry_run
        kind = (_EVICTION.group, _EVICTION.version, _EVICTION.kind)
        await self._writer.admission.admit_posted(context, resource, "eviction", body, kind=kind, dry_run=options.dry_run)
        check_preconditions(resource, stored, options)
        if not options.dry_run:
            self._mark(stored.key)
        await self._deleter.delete_key(context, resource, stored.key, options, is_admitted=True)
        return json_answer(status.success(201), 201)

    def _mark(self, key: str) -> None:
        """Add the condition DisruptionTarget to the pod."""
        pod = self._pods.collection.items[key].load()
        conditions = pod.setdefault("status", {}).setdefault("conditions", [])
        if any(each["type"] == "DisruptionTarget" for each in conditions):
            return
        why = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
        conditions.append(self._condition("DisruptionTarget", **why))
        self._store.put(self._pods.collection, key, pod)

    def _condition(self, kind: str, **why: str) -> dict[str, Any]:
        """Return a condition of a pod that is true from now on."""
        since = times.rfc3339(self._writer.now())
        return {"type": kind, "status": "True", **why, "lastProbeTime": None, "lastTransitionTime": since}

    async def _bind(self, context: Context, _resource: Resource) -> Answer:
        """Handle the POST of a Binding to a pod or to the collection of bindings. Copy its labels and annotations to the pod."""
        body = bodies.decode(context, self._bindings.strategy)
        metadata = body.get("metadata") or {}
        _check_namespace(metadata.get("namespace", context.info.namespace), context.info.namespace)
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
        conditions.append(self._condition("PodScheduled"))
        self._store.put(self._pods.collection, key, pod)


def _check_duration(spec: Mapping[str, Any]) -> None:
    seconds, faults = spec["expirationSeconds"], []
    if seconds < _SHORTEST_SECONDS:
        faults.append(invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    if seconds > _LONGEST_SECONDS:
        faults.append(invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"))
    if faults:
        raise status.invalid(_TOKEN_REQUEST.group, _TOKEN_REQUEST.kind, "", faults)


def _check_namespace(given: str, wanted: str) -> None:
    if given != wanted:
        raise status.bad_request("the namespace of the provided object does not match the namespace sent on the request")

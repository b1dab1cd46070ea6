"""Token requests of service accounts: audience, lifetime, and bound object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.rules.errors import invalid
from pyroclast_standalone import times
from pyroclast_standalone.apiserver.access.tokens import ISSUER, TokenSigner
from pyroclast_standalone.apiserver.kinds.builtin import BuiltinStrategy
from pyroclast_standalone.apiserver.kinds.builtins import Builtin
from pyroclast_standalone.apiserver.kinds.rules import Rules
from pyroclast_standalone.apiserver.requests import bodies, status
from pyroclast_standalone.apiserver.requests.context import Answer, Context
from pyroclast_standalone.apiserver.requests.present import json_answer
from pyroclast_standalone.apiserver.storage.registry import Resource
from pyroclast_standalone.apiserver.verbs.write import Writer

_KIND: Final = bodies.BodyKind("authentication.k8s.io", "v1", "TokenRequest")
_STRATEGY: Final = BuiltinStrategy(Builtin(_KIND.group, _KIND.version, "tokenrequests", _KIND.kind), Rules())
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
        body = bodies.decode(context, _KIND)
        metadata = body["metadata"]
        given = metadata.get("namespace") or namespace
        if given != namespace:
            raise status.bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if metadata.get("name", name) != name:
            fault = invalid("metadata.name", metadata["name"], "must match the service account name if specified")
            raise status.invalid(_KIND.group, _KIND.kind, name, [fault])
        stored = resource.collection.items.get(f"{namespace}/{name}")
        if stored is None:
            raise status.not_found("", "serviceaccounts", name)
        if (uid := metadata.get("uid") or stored.uid) != stored.uid:
            why = f"the UID in the token request ({uid}) does not match the UID of the service account ({stored.uid})"
            raise status.conflict(_KIND.group, _KIND.kind, name, why)
        spec = body["spec"]
        if spec.get("expirationSeconds") is None:
            spec["expirationSeconds"] = _DEFAULT_SECONDS
        body["status"] = {}
        self._writer.track(context, self._requests, body, None, now=context.now, subresource="token")
        spec["audiences"] = spec.get("audiences") or [ISSUER]
        body["status"] = {"token": "", "expirationTimestamp": None}
        metadata |= {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": times.rfc3339(context.now)}
        _check(spec)
        kind = (_KIND.group, _KIND.version, _KIND.kind)
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
        raise status.invalid(_KIND.group, _KIND.kind, "", faults)

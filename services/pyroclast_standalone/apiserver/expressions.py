"""What CEL expressions of webhooks and policies see of a write: objects, the request, the namespace, who may what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .admission import Review
from .authn import service_account_user
from .authz import Attributes, Authorizer
from .documents.cel.authorizer import Authorizer as Question
from .documents.cel.authorizer import Decision
from .registry import Resource
from .store import Store

__all__ = ["Expressions", "request_of"]


def request_of(review: Review, seen: Resource) -> dict[str, Any]:
    """The `request` of a review, objects aside, for a hook or policy that sees the object as `seen`."""
    asked = review.resource
    kind = review.kind or (seen.group, seen.version, seen.kind)
    request_kind = review.kind or (asked.group, asked.version, asked.kind)
    request: dict[str, Any] = {
        "kind": _kind(*kind),
        "resource": {"group": seen.group, "version": seen.version, "resource": seen.plural},
        "requestKind": _kind(*request_kind),
        "requestResource": {"group": asked.group, "version": asked.version, "resource": asked.plural},
    }
    if review.subresource:
        request["subResource"] = request["requestSubResource"] = review.subresource
    if review.name:
        request["name"] = review.name
    if review.namespace:
        request["namespace"] = review.namespace
    elif asked.qualified == "namespaces" and review.name:
        request["namespace"] = review.name
    request["operation"] = review.operation
    request["userInfo"] = review.context.user.wire()
    request["dryRun"] = review.dry_run
    request["options"] = review.options or None
    return request


def _kind(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "version": version, "kind": kind}


class Expressions:
    """Makes the variables of a review."""

    def __init__(self, store: Store, authorizer: Authorizer) -> None:
        self._namespaces = store.collection("namespaces")
        self._authorizer = authorizer

    def variables(self, review: Review, seen: Resource) -> dict[str, Any]:
        """The variables for a hook or policy that sees the object as `seen`; `params` is left to the caller."""
        return {
            "object": self.shown(review, review.body, seen),
            "oldObject": self.shown(review, review.old, seen),
            "request": request_of(review, seen),
            "namespaceObject": self._namespace(review),
            "authorizer": self._question(review),
            "params": None,
        }

    def shown(
        self, review: Review, body: dict[str, Any] | None, seen: Resource, *, is_raw: bool = False
    ) -> dict[str, Any] | None:
        """An object of the review in the form that is looked at: its Scale, or the version of `seen`.

        Before mutation it `is_raw`: the defaults of the other version are not in it yet.
        """
        if body is None:
            return None
        if review.show is not None:
            return review.show(body)
        if is_raw and seen is not review.resource:
            return {**body, "apiVersion": seen.api_version}
        return review.resource.seen_as(body, seen)

    def _namespace(self, review: Review) -> dict[str, Any] | None:
        stored = self._namespaces.items.get(review.namespace) if review.resource.namespaced else None
        return stored.load() if stored is not None else None

    def _question(self, review: Review) -> Question:
        def ask(verb: str, said: Mapping[str, str]) -> Decision:
            user = review.context.user
            if said.get("user"):
                _, _, namespace, name = said["user"].split(":", 3)
                user = service_account_user(namespace, name)
            words = {key: said[key] for key in ("group", "resource", "subresource", "namespace", "name", "path") if key in said}
            verdict = self._authorizer.decide(user, Attributes(verb, **words))
            return Decision(verdict.allowed, verdict.reason)

        resource = review.resource
        said = {
            "group": resource.group,
            "resource": resource.plural,
            "subresource": review.subresource,
            "namespace": review.namespace,
            "name": review.name,
        }
        return Question(ask, of_request=Question(ask, said))

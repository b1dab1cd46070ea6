"""The variables of a write that webhooks and their match conditions use: the objects and the request."""

from __future__ import annotations

from typing import Any

from pyroclast_standalone.apiserver.admission.chain import Review
from pyroclast_standalone.apiserver.storage.registry import Resource


def request_of(review: Review, seen: Resource) -> dict[str, Any]:
    """Return the `request` of a review without its objects, for a webhook that receives the object as `seen`."""
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

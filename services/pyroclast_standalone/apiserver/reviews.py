"""Reviews: requests that are only answered. May I, who am I, is this token good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import clock, status
from .authn import Authenticator
from .authz import Attributes, Authorizer, Verdict
from .context import Context, User
from .documents.errors import invalid
from .tokens import ISSUER

__all__ = ["Reviews"]


class Reviews:
    """Fills in the status of a review."""

    def __init__(self, authorizer: Authorizer, authenticator: Authenticator) -> None:
        self._authorizer = authorizer
        self._authenticator = authenticator

    def answer(self, context: Context, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        """`body` with its status."""
        spec = body.get("spec") or {}
        match kind:
            case "SelfSubjectReview":
                body["metadata"] = {"creationTimestamp": clock.timestamp(context.now)}
                body["status"] = {"userInfo": context.user.wire()}
            case "TokenReview":
                body["status"] = self._token(spec)
            case "SelfSubjectRulesReview":
                body["status"] = self._rules(context.user, spec.get("namespace") or "default")
            case "SelfSubjectAccessReview":
                body["status"] = _told(self._decide(context.user, spec))
            case _:
                _check_subject(spec)
                body["status"] = _told(self._decide(_subject(spec), spec))
        body.setdefault("metadata", {})
        return body

    def _decide(self, user: User, spec: Mapping[str, Any]) -> Verdict:
        resource = spec.get("resourceAttributes")
        path = spec.get("nonResourceAttributes") or {}
        if resource is None:
            return self._authorizer.decide(user, Attributes(path.get("verb", ""), path=path.get("path", "")))
        wanted = Attributes(
            resource.get("verb", ""),
            resource.get("group", ""),
            resource.get("resource", ""),
            resource.get("subresource", ""),
            resource.get("namespace", ""),
            resource.get("name", ""),
        )
        return self._authorizer.decide(user, wanted)

    def _token(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        audiences = spec.get("audiences") or [ISSUER]
        user = self._authenticator.of_token(str(spec.get("token", "")), audiences)
        if user is None:
            return {"user": {}, "error": "[invalid bearer token, service account token is not valid]"}
        return {"authenticated": True, "user": user.wire(), "audiences": [each for each in audiences if each == ISSUER]}

    def _rules(self, user: User, namespace: str) -> dict[str, Any]:
        found: list[Mapping[str, Any]] = []
        for _, _, rules in self._authorizer.rules_for(user, namespace):
            found += rules
        return {
            "resourceRules": [rule for rule in found if rule.get("resources")],
            "nonResourceRules": [rule for rule in found if rule.get("nonResourceURLs")],
            "incomplete": False,
        }


def _check_subject(spec: Mapping[str, Any]) -> None:
    """Refuse a review that does not say what, or about whom.

    Raises:
        StatusError: 422, naming the fields.
    """
    faults = []
    if bool(spec.get("resourceAttributes")) is bool(spec.get("nonResourceAttributes")):
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        faults.append(invalid("spec.resourceAttributes", None, why))
    if not spec.get("user") and not spec.get("groups"):
        faults.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    if faults:
        raise status.invalid("authorization.k8s.io", "", "", faults)


def _subject(spec: Mapping[str, Any]) -> User:
    return User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), spec.get("extra") or {})


def _told(verdict: Verdict) -> dict[str, Any]:
    told: dict[str, Any] = {"allowed": verdict.allowed}
    if verdict.reason:
        told["reason"] = verdict.reason
    return told

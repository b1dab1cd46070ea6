"""Reviews, which are answered but not stored: access, user and token reviews."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.rules.errors import FieldError, invalid
from pyroclast_standalone import times
from pyroclast_standalone.apiserver.access.authn import ISSUER, Authenticator
from pyroclast_standalone.apiserver.access.authz import Authorizer, Verdict
from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.requests.context import Context, User
from pyroclast_standalone.apiserver.requests.routes import RequestInfo


class Reviews:
    """Computes the status of a review."""

    def __init__(self, authorizer: Authorizer, authenticator: Authenticator) -> None:
        self._authorizer = authorizer
        self._authenticator = authenticator

    def check(self, kind: str, body: Mapping[str, Any]) -> None:
        """Reject a review with missing fields."""
        spec, metadata = body.get("spec") or {}, body["metadata"]
        match kind:
            case "TokenReview" if not spec.get("token"):
                raise status.bad_request("token is required for TokenReview in authentication")
            case "SelfSubjectRulesReview" if not spec.get("namespace"):
                raise status.bad_request("no namespace on request")
            case "SelfSubjectAccessReview":
                _refuse(_faults_of_wish(spec) + _faults_of_metadata(metadata))
            case "LocalSubjectAccessReview":
                _refuse(_faults_of_wish(spec) + _faults_of_subject(spec) + _faults_of_place(spec, metadata))
            case "SubjectAccessReview":
                _refuse(_faults_of_wish(spec) + _faults_of_subject(spec) + _faults_of_metadata(metadata))

    def answer(self, context: Context, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the review `body` with its computed status."""
        spec = body.get("spec") or {}
        match kind:
            case "SelfSubjectReview":
                body["metadata"] = {"creationTimestamp": times.rfc3339(context.now)}
                body["status"] = {"userInfo": context.user.wire()}
            case "TokenReview":
                body["status"] = self._token(spec)
            case "SelfSubjectRulesReview":
                body["metadata"], body["spec"] = {}, {}
                body["status"] = self._rules(context.user, spec["namespace"])
            case "SelfSubjectAccessReview":
                body["status"] = _told(self._decide(context.user, spec))
            case _:
                body["status"] = _told(self._decide(_subject(spec), spec))
        body.setdefault("metadata", {})
        return body

    def _decide(self, user: User, spec: Mapping[str, Any]) -> Verdict:
        asked = spec.get("resourceAttributes")
        if asked is None:
            asked = spec.get("nonResourceAttributes") or {}
        names = ("verb", "path", "group", "namespace", "resource", "subresource", "name")
        return self._authorizer.decide(user, RequestInfo(**{name: asked.get(name, "") for name in names}))

    def _token(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        audiences = spec.get("audiences") or [ISSUER]
        token = str(spec.get("token", ""))
        user = self._authenticator.of_token(token, audiences)
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {
            "authenticated": True,
            "user": user.wire(),
            "audiences": [each for each in audiences if self._authenticator.of_token(token, [each])],
        }

    def _rules(self, user: User, namespace: str) -> dict[str, Any]:
        found: list[Mapping[str, Any]] = []
        for _, _, rules in self._authorizer.rules_for(user, namespace):
            found += rules
        return {
            "resourceRules": [rule for rule in found if rule.get("resources")],
            "nonResourceRules": [rule for rule in found if rule.get("nonResourceURLs")],
            "incomplete": False,
        }


def _refuse(faults: list[FieldError]) -> None:
    if faults:
        raise status.invalid("authorization.k8s.io", "", "", faults)


def _faults_of_wish(spec: Mapping[str, Any]) -> list[FieldError]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        why = "cannot be specified in combination with resourceAttributes"
        return [invalid("spec.nonResourceAttributes", _shown(path), why)]
    if resource is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid("spec.resourceAttributes", None, why)]
    return []


def _faults_of_subject(spec: Mapping[str, Any]) -> list[FieldError]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [invalid("spec.user", "", "at least one of user or group must be specified")]


def _faults_of_metadata(metadata: Mapping[str, Any]) -> list[FieldError]:
    given = {name: value for name, value in metadata.items() if name != "managedFields" and value}
    return [invalid("metadata", given, "must be empty")] if given else []


def _faults_of_place(spec: Mapping[str, Any], metadata: Mapping[str, Any]) -> list[FieldError]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if path is not None:
        return [invalid("spec.nonResourceAttributes", _shown(path), "disallowed on this kind of request")]
    if resource is None or resource.get("namespace", "") == metadata.get("namespace", ""):
        return []
    return [invalid("spec.resourceAttributes.namespace", resource.get("namespace", ""), "must match metadata.namespace")]


def _shown(path: Mapping[str, Any]) -> dict[str, Any]:
    return {"Path": path.get("path", ""), "Verb": path.get("verb", "")}


def _subject(spec: Mapping[str, Any]) -> User:
    return User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), spec.get("extra") or {})


def _told(verdict: Verdict) -> dict[str, Any]:
    told: dict[str, Any] = {"allowed": verdict.allowed}
    if verdict.reason:
        told["reason"] = verdict.reason
    return told

"""The AdmissionReview format: decodes requests and encodes answers. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import orjson

from pyroclast.rules.errors import FieldError
from pyroclast.rules.values import EMPTY, mapping, text
from pyroclast.rules.verdicts import ALLOWED, Patch, Verdict

API_VERSION: Final = "admission.k8s.io/v1"

MAX_CAUSES: Final = 64
"""Most causes in an answer: more than a user corrects at one time."""

MAX_MESSAGE: Final = 16 * 1024
"""Most characters of a message. The API server passes the message to the user unchanged."""

MAX_WARNINGS: Final = 16
"""Most warnings in an answer. The API server itself truncates warnings to 4096 characters altogether."""


class BadReview(Exception):
    """The body is not an AdmissionReview that can be answered. The message says why."""


class Review(msgspec.Struct, frozen=True):
    """One admission request. `object` is empty for a deletion. `resource` is `group version plural`, as in the messages."""

    uid: str
    operation: str
    resource: str
    kind: str
    group: str
    namespace: str
    name: str
    user: str
    object: Mapping[str, Any] = EMPTY
    old_object: Mapping[str, Any] = EMPTY
    user_info: Mapping[str, Any] = EMPTY

    @property
    def qualified(self) -> str:
        """`plural.group`; only the plural in the core group."""
        group, _, plural = self.resource.split(" ")
        return f"{plural}.{group}" if group else plural

    @property
    def previous(self) -> Mapping[str, Any] | None:
        """The object before an update; None for another operation."""
        return self.old_object if self.operation == "UPDATE" else None


class Answer(msgspec.Struct, frozen=True):
    """The answer to a review. `code` and `reason` are set for a denial that has no message of Volcano and no field errors.

    `queues`: the queues that the user must be allowed to use, where admission checks that.
    """

    verdict: Verdict = ALLOWED
    patch: Patch = []
    code: int = 0
    reason: str = ""
    retry_after_seconds: int = 0
    queues: tuple[str, ...] = ()


def decode(body: bytes) -> Review:
    """Decode the request in `body`. BadReview: `body` is not an AdmissionReview."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadReview(f"the body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadReview("the body is not an AdmissionReview: a JSON object is expected")
    version = document.get("apiVersion")
    if version != API_VERSION or document.get("kind") != "AdmissionReview":
        raise BadReview(f"the body is not an AdmissionReview of {API_VERSION}, but of {text(version)[:80] or 'nothing known'}")
    request = document.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        raise BadReview("the AdmissionReview has no request with a uid")
    resource, kind = mapping(request.get("resource")), mapping(request.get("kind"))
    asked, old = mapping(request.get("object")), mapping(request.get("oldObject"))
    return Review(
        uid=request["uid"],
        operation=text(request.get("operation")),
        resource=f"{text(resource.get('group'))} {text(resource.get('version'))} {text(resource.get('resource'))}",
        kind=text(kind.get("kind")),
        group=text(kind.get("group")),
        namespace=text(request.get("namespace")),
        # for a generated name, or the deletion of a collection, only the object has the name
        name=text(request.get("name")) or text(mapping((asked or old).get("metadata")).get("name")),
        user=text(mapping(request.get("userInfo")).get("username")),
        object=asked,
        old_object=old,
        user_info=mapping(request.get("userInfo")),
    )


def encode(review: Review, answer: Answer) -> bytes:
    """Encode the AdmissionReview that answers `review`."""
    verdict = answer.verdict
    response: dict[str, Any] = {"uid": review.uid, "allowed": verdict.allowed}
    if not verdict.allowed:
        response["status"] = _status(review, answer)
    elif answer.patch:
        response["patch"] = base64.b64encode(orjson.dumps(answer.patch)).decode()
        response["patchType"] = "JSONPatch"
    if verdict.warnings:
        response["warnings"] = list(verdict.warnings[:MAX_WARNINGS])
    return orjson.dumps(
        {"kind": "AdmissionReview", "apiVersion": API_VERSION, "response": response}, option=orjson.OPT_NON_STR_KEYS
    )


def refusal(message: str, *, code: int, reason: str, retry_after_seconds: int = 0) -> Answer:
    """Return a denial with an HTTP status code and reason of our own. `retry_after_seconds` asks the client to try again."""
    return Answer(Verdict(message), [], code, reason, retry_after_seconds)


def _status(review: Review, answer: Answer) -> dict[str, Any]:
    verdict = answer.verdict
    sentence = verdict.sentence
    message = sentence if len(sentence) <= MAX_MESSAGE else f"{sentence[:MAX_MESSAGE]}…"
    status: dict[str, Any] = {"metadata": {}, "message": message}
    if verdict.causes:
        details = {"name": review.name, "group": review.group, "kind": review.kind, "causes": _causes(verdict.causes)}
        status |= {"status": "Failure", "code": 422, "reason": "Invalid", "details": details}
    elif answer.code:
        status |= {"status": "Failure", "code": answer.code, "reason": answer.reason}
        if answer.retry_after_seconds:
            status["details"] = {"retryAfterSeconds": answer.retry_after_seconds}
    return status


def _causes(errors: tuple[FieldError, ...]) -> list[dict[str, str]]:
    causes = [error.cause() for error in errors[:MAX_CAUSES]]
    if len(errors) > MAX_CAUSES:
        more = len(errors) - MAX_CAUSES
        causes.append({"reason": "FieldValueInvalid", "message": f"{more} more errors are not shown", "field": "spec"})
    return causes

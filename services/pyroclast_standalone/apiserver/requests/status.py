"""Failures as the API tells them: one exception that carries a `v1 Status`, and a constructor for each case with its exact words.

Separate because every other module raises these, and because code, reason, message and details must agree everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyroclast_standalone.apiserver.documents.errors import DocumentError, FieldError, aggregate, causes_of

__all__ = [
    "Cause",
    "StatusError",
    "admission_denied",
    "already_exists",
    "bad_request",
    "cause",
    "conflict",
    "expired",
    "forbidden",
    "internal",
    "invalid",
    "method_not_allowed",
    "method_not_supported",
    "no_such_path",
    "no_such_uid",
    "not_found",
    "of_document",
    "success",
    "too_large_resource_version",
    "unauthorized",
    "unknown_resource",
    "unreasoned",
    "unsupported_media_type",
]

Cause = dict[str, str]


class StatusError(Exception):
    """A request that is answered with a failure Status. `plain` answers text instead, as the server's path mux does."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        plain: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata or {}
        self.plain = plain

    def body(self) -> dict[str, Any]:
        """The `v1 Status` object that is sent."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": dict(self.metadata),
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = dict(self.details)
        body["code"] = self.code
        return body

    @property
    def retry_after(self) -> int | None:
        """Seconds for the `Retry-After` header, None when there is nothing to wait for."""
        seconds = (self.details or {}).get("retryAfterSeconds")
        return seconds if isinstance(seconds, int) else None


def success(code: int | None = None, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A `v1 Status` that says Success."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        body["details"] = dict(details)
    if code is not None:
        body["code"] = code
    return body


def cause(reason: str, message: str, field: str = "") -> Cause:
    """One entry of `details.causes`."""
    entry = {"reason": reason, "message": message, "field": field}
    return {key: value for key, value in entry.items() if value}


def _details(group: str, kind: str, name: str = "", **more: object) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    details.update((key, value) for key, value in more.items() if value)
    return details


def _qualified(group: str, word: str) -> str:
    return f"{word}.{group}" if group else word


def bad_request(message: str) -> StatusError:
    """400: the request itself makes no sense."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """401: nobody we know."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, plural: str, name: str, why: str, *, causes: Iterable[Cause] = ()) -> StatusError:
    """403: an authorizer or an admission plugin says no to a request on `plural` of `group`."""
    subject = _qualified(group, plural)
    if not subject:
        message = f"forbidden: {why}"
    elif name:
        message = f'{subject} "{name}" is forbidden: {why}'
    else:
        message = f"{subject} is forbidden: {why}"
    return StatusError(403, "Forbidden", message, details=_details(group, plural, name, causes=list(causes)))


def not_found(group: str, plural: str, name: str) -> StatusError:
    """404: no object of that name."""
    message = f'{_qualified(group, plural)} "{name}" not found'
    return StatusError(404, "NotFound", message, details=_details(group, plural, name))


def unknown_resource() -> StatusError:
    """404: a resource or subresource that a served group-version does not have."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", details={})


def no_such_path() -> StatusError:
    """404 as plain text: a path that no handler is registered for."""
    return StatusError(404, "NotFound", "404 page not found\n", plain=True)


def method_not_allowed() -> StatusError:
    """405 on resources of built-in groups."""
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", details={})


def method_not_supported(group: str, resource: str, verb: str) -> StatusError:
    """405 on subresources of custom resources."""
    why = f'{verb} is not supported on resources of kind "{resource}.{group}"'
    return StatusError(405, "MethodNotAllowed", why, details={"group": group, "kind": resource})


def unsupported_media_type(accepted: Iterable[str]) -> StatusError:
    """415: a body of a type that cannot be read here."""
    accepted = list(accepted)
    if not accepted:
        return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    return StatusError(415, "UnsupportedMediaType", message)


def already_exists(group: str, plural: str, name: str, *, message: str = "") -> StatusError:
    """409: the name is taken. `message` replaces the usual sentence."""
    message = message or f'{_qualified(group, plural)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, details=_details(group, plural, name))


def conflict(group: str, word: str, name: str, why: str, *, causes: Iterable[Cause] = ()) -> StatusError:
    """409: somebody was faster, or a precondition does not hold. `word` is the plural, or the kind for preconditions."""
    message = f'Operation cannot be fulfilled on {_qualified(group, word)} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=_details(group, word, name, causes=list(causes)))


def no_such_uid(place: str, wanted: str, present: str) -> str:
    """Why a write is refused that is about another object than the one at `place`."""
    why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {present}"
    return f"StorageError: invalid object, Code: 4, Key: {place}, ResourceVersion: 0, AdditionalErrorMsg: {why}"


def expired(message: str, *, continue_token: str = "") -> StatusError:
    """410: the history that was asked for is gone. `continue_token` lets a pager go on inconsistently."""
    metadata = {"continue": continue_token} if continue_token else {}
    return StatusError(410, "Expired", message, metadata=metadata)


def invalid(group: str, kind: str, name: str, faults: Sequence[FieldError]) -> StatusError:
    """422: every fault of the object at once; equal sentences are told once in the message, all in the causes."""
    message = f'{_qualified(group, kind)} "{name}" is invalid: {aggregate(faults)}'
    return StatusError(422, "Invalid", message, details=_details(group, kind, name, causes=causes_of(faults)))


def of_document(error: DocumentError) -> StatusError:
    """The answer to a body, patch or selector that cannot be handled."""
    details: dict[str, Any] | None = {"causes": list(error.causes)} if error.causes else None
    if details is None and error.code == 422:
        details = {}
    return StatusError(error.code, error.reason, error.message, details=details)


def internal(message: str) -> StatusError:
    """500 in the words of an unexpected error."""
    return StatusError(
        500,
        "InternalError",
        f"Internal error occurred: {message}",
        details={"causes": [{"message": message}]},
    )


def unreasoned(code: int, message: str) -> StatusError:
    """A failure whose Status has neither reason nor details."""
    return StatusError(code, "", message)


def too_large_resource_version(wanted: int, current: int) -> StatusError:
    """504: the revision asked for is still to come."""
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        details={
            "causes": [cause("ResourceVersionTooLarge", "Too large resource version")],
            "retryAfterSeconds": 1,
        },
    )


def admission_denied(webhook: str, status: Mapping[str, Any]) -> StatusError:
    """The refusal of an admission webhook: its own status under the name of the webhook."""
    code = status.get("code")
    if not isinstance(code, int) or code < 400:
        code = 400
    reason = str(status.get("reason") or "")
    said = str(status.get("message") or "")
    if said:
        message = f'admission webhook "{webhook}" denied the request: {said}'
    elif reason:
        message = f'admission webhook "{webhook}" denied the request: {reason}'
    else:
        message = f'admission webhook "{webhook}" denied the request without explanation'
    details = status.get("details")
    return StatusError(code, reason, message, details=details if isinstance(details, dict) else None)

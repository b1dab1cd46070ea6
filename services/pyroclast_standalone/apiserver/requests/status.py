"""API errors: one exception with a `v1 Status`, and a constructor with the exact message for each case.

This is a separate module because all other modules raise these errors, and because code, reason, message and details must be
consistent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyroclast.rules.errors import FieldError
from pyroclast_standalone.apiserver.documents.errors import DocumentError, aggregate, causes_of

Cause = dict[str, str]


class StatusError(Exception):
    """An error that is answered with a Status. With `plain`, the answer is text, as of kube-apiserver's path multiplexer."""

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
        """Return this error as the `v1 Status` object of an answer."""
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
        """The seconds for the `Retry-After` header. None when a retry would not help."""
        seconds = (self.details or {}).get("retryAfterSeconds")
        return seconds if isinstance(seconds, int) else None


def success(code: int | None = None, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the `v1 Status` of a successful request."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        body["details"] = dict(details)
    if code is not None:
        body["code"] = code
    return body


def cause(reason: str, message: str, field: str = "") -> Cause:
    """Return an element of `details.causes` in a Status."""
    entry = {"reason": reason, "message": message, "field": field}
    return {key: value for key, value in entry.items() if value}


def _details(group: str, kind: str, name: str = "", **more: object) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": kind, **more}
    return {key: value for key, value in details.items() if value}


def _qualified(group: str, word: str) -> str:
    return f"{word}.{group}" if group else word


def bad_request(message: str) -> StatusError:
    """Return a 400 error: the request is invalid."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """Return a 401 error: the user is unknown."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, plural: str, name: str, why: str, *, causes: Iterable[Cause] = ()) -> StatusError:
    """Return a 403 error: the authorizer or an admission plugin denies a request for `plural` of `group`."""
    subject = _qualified(group, plural)
    where = f'{subject} "{name}" is ' if subject and name else f"{subject} is " if subject else ""
    return StatusError(403, "Forbidden", f"{where}forbidden: {why}", details=_details(group, plural, name, causes=list(causes)))


def not_found(group: str, plural: str, name: str) -> StatusError:
    """Return a 404 error: no object has that name."""
    message = f'{_qualified(group, plural)} "{name}" not found'
    return StatusError(404, "NotFound", message, details=_details(group, plural, name))


def unknown_resource() -> StatusError:
    """Return a 404 error: the served group-version has no such resource or subresource."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", details={})


def no_such_path() -> StatusError:
    """Return a 404 error as plain text: no handler is registered for the path."""
    return StatusError(404, "NotFound", "404 page not found\n", plain=True)


def method_not_allowed() -> StatusError:
    """Return a 405 error for resources of built-in groups."""
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", details={})


def method_not_supported(group: str, resource: str, verb: str) -> StatusError:
    """Return a 405 error for subresources of custom resources."""
    why = f'{verb} is not supported on resources of kind "{resource}.{group}"'
    return StatusError(405, "MethodNotAllowed", why, details={"group": group, "kind": resource})


def unsupported_media_type(accepted: Iterable[str]) -> StatusError:
    """Return a 415 error: the content type of the body is not supported."""
    accepted = list(accepted)
    if not accepted:
        return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    return StatusError(415, "UnsupportedMediaType", message)


def already_exists(group: str, plural: str, name: str, *, message: str = "") -> StatusError:
    """Return a 409 error: an object has the name already. `message` replaces the usual sentence."""
    message = message or f'{_qualified(group, plural)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, details=_details(group, plural, name))


def conflict(group: str, word: str, name: str, why: str, *, causes: Iterable[Cause] = ()) -> StatusError:
    """Return a 409 error: another write was earlier, or a precondition (with the kind as `word`, else the plural) is false."""
    message = f'Operation cannot be fulfilled on {_qualified(group, word)} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=_details(group, word, name, causes=list(causes)))


def no_such_uid(place: str, wanted: str, present: str) -> str:
    """Return the message for a write whose UID differs from the object at `place`."""
    why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {present}"
    return f"StorageError: invalid object, Code: 4, Key: {place}, ResourceVersion: 0, AdditionalErrorMsg: {why}"


def expired(message: str, *, continue_token: str = "") -> StatusError:
    """Return a 410 error: the history is compacted. With `continue_token` a client may continue with an inconsistent list."""
    metadata = {"continue": continue_token} if continue_token else {}
    return StatusError(410, "Expired", message, metadata=metadata)


def invalid(group: str, kind: str, name: str, faults: Sequence[FieldError]) -> StatusError:
    """Return a 422 error with all faults of the object.

    The message contains equal sentences only once. `details.causes` contains all faults.
    """
    message = f'{_qualified(group, kind)} "{name}" is invalid: {aggregate(faults)}'
    return StatusError(422, "Invalid", message, details=_details(group, kind, name, causes=causes_of(faults)))


def of_document(error: DocumentError) -> StatusError:
    """Return the error for a body, patch or selector that cannot be processed."""
    details: dict[str, Any] | None = {"causes": list(error.causes)} if error.causes else None
    if details is None and error.code == 422:
        details = {}
    return StatusError(error.code, error.reason, error.message, details=details)


def internal(message: str) -> StatusError:
    """Return a 500 error for an unexpected error."""
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details={"causes": [{"message": message}]})


def unreasoned(code: int, message: str) -> StatusError:
    """Return an error whose Status has neither reason nor details."""
    return StatusError(code, "", message)


def too_large_resource_version(wanted: int, current: int) -> StatusError:
    """Return a 504 error: the requested revision does not exist yet."""
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        details={"causes": [cause("ResourceVersionTooLarge", "Too large resource version")], "retryAfterSeconds": 1},
    )


def admission_denied(webhook: str, status: Mapping[str, Any]) -> StatusError:
    """Return the denial of an admission webhook: the webhook's Status with the webhook's name in the message."""
    code = status.get("code")
    if not isinstance(code, int) or code < 400:
        code = 400
    reason = str(status.get("reason") or "")
    said = status.get("message") or reason
    message = f'admission webhook "{webhook}" denied the request' + (f": {said}" if said else " without explanation")
    details = status.get("details")
    return StatusError(code, reason, message, details=details if isinstance(details, dict) else None)

"""Errors of API requests, as one tree of exceptions.

KubeError
├── ConnectionFailed      no response: refused, reset, timed out, TLS
└── ApiError              a response with a Status (code, reason, message, details)
    ├── Unauthorized      401
    ├── Forbidden         403
    ├── NotFound          404
    ├── AlreadyExists     409, reason AlreadyExists
    ├── Conflict          409, otherwise
    ├── Expired           410: the resourceVersion or continue token is too old
    ├── Invalid           422
    ├── TooManyRequests   429
    └── ServerError       5xx
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

LONGEST_RETRY_AFTER: Final = 60.0
"""The longest `Retry-After` that the client obeys, in seconds. With a longer wait, the client would notice too late that the
server has recovered.
"""


class KubeError(Exception):
    """A request to the API server that failed. `verb` and `path` identify the request."""

    def __init__(self, message: str, *, verb: str = "", path: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.verb = verb
        self.path = path


class ConnectionFailed(KubeError):
    """The client received no usable response.

    `sent` is False when the request certainly never reached the server; otherwise the server may have processed the request.
    """

    def __init__(self, message: str, *, sent: bool = True, verb: str = "", path: str = "") -> None:
        super().__init__(message, verb=verb, path=path)
        self.sent = sent

    def __str__(self) -> str:
        return f"{self.verb} {self.path}: {self.message}".strip()


class ApiError(KubeError):
    """The server's Status.

    `retry_after` is in seconds, at most `LONGEST_RETRY_AFTER`; None when the server sent no such value.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
        verb: str = "",
        path: str = "",
    ) -> None:
        super().__init__(message, verb=verb, path=path)
        self.status = status
        self.reason = reason
        self.details: Mapping[str, Any] = details or {}
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.verb} {self.path}: {self.status} {self.reason}: {self.message}".strip()

    @staticmethod
    def from_status(
        status: int, body: Mapping[str, Any], *, retry_after: float | None = None, verb: str = "", path: str = ""
    ) -> ApiError:
        """Return the error for HTTP `status`. `body`: a `v1 Status`, or any object that a proxy sent; fields of the wrong type
        are ignored.
        """
        reason, details = _text(body.get("reason")), body.get("details")
        if not isinstance(details, dict):
            details = {}
        kind = AlreadyExists if reason == "AlreadyExists" else _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
        return kind(
            status,
            reason,
            _text(body.get("message")) or f"HTTP {status}",
            details=details,
            retry_after=_seconds(details.get("retryAfterSeconds") if retry_after is None else retry_after),
            verb=verb,
            path=path,
        )


class Unauthorized(ApiError):
    """The server does not accept the credentials."""


class Forbidden(ApiError):
    """The credentials do not allow the request."""


class NotFound(ApiError):
    """The object or type does not exist. When the response to a delete was lost, that delete may have removed the object."""


class Conflict(ApiError):
    """The object was changed since the client read it, or a precondition does not hold."""


class AlreadyExists(Conflict):
    """An object of that name already exists.

    An earlier attempt of the same create, whose response was lost, may have created the object. The caller recognises its own
    object by owner and labels.
    """


class Expired(ApiError):
    """The resourceVersion or continue token is too old: the caller must list anew."""


class Invalid(ApiError):
    """The object fails validation; `details["causes"]` names the fields."""


class TooManyRequests(ApiError):
    """The server is overloaded and asks clients to send fewer requests."""


class ServerError(ApiError):
    """The server failed."""


_BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
}

_TRANSIENT = (Conflict, Expired, NotFound, ServerError, TooManyRequests, Unauthorized)


def is_transient(error: KubeError) -> bool:
    """Whether `error` has a cause outside of the object, so that the same request may succeed later."""
    return not isinstance(error, ApiError) or isinstance(error, _TRANSIENT)


def is_broken(error: KubeError) -> bool:
    """Whether the API server could not complete the request, for example because a webhook failed. The message is then shown to
    users.
    """
    return isinstance(error, ServerError) and error.reason == "InternalError"


def is_terminating_namespace(error: KubeError) -> bool:
    """Whether the request failed because the namespace is being deleted, so that nothing can be created in the namespace."""
    causes = error.details.get("causes") if isinstance(error, ApiError) else None
    if not isinstance(causes, list):
        return False
    return any(isinstance(cause, dict) and cause.get("reason") == "NamespaceTerminating" for cause in causes)


def _text(given: object) -> str:
    return given if isinstance(given, str) else ""


def _seconds(given: object) -> float | None:
    """Return the seconds that the server sent, within bounds; an integer in JSON may be larger than any float."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    return float(min(max(given, 0), LONGEST_RETRY_AFTER))

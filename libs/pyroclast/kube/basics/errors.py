"""What can go wrong with an API request, as one exception tree.

KubeError
├── ConnectionFailed      no answer: refused, reset, timed out, TLS
└── ApiError              an answer with a Status (code, reason, message, details)
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

__all__ = [
    "LONGEST_RETRY_AFTER",
    "AlreadyExists",
    "ApiError",
    "Conflict",
    "ConnectionFailed",
    "Expired",
    "Forbidden",
    "Invalid",
    "KubeError",
    "NotFound",
    "ServerError",
    "TooManyRequests",
    "Unauthorized",
    "is_broken",
    "is_terminating_namespace",
    "is_transient",
]


LONGEST_RETRY_AFTER: Final = 60.0
"""Seconds: a server that asks to be left alone for longer is asked again sooner, since nobody would notice that it is well."""


class KubeError(Exception):
    """A request to the API server that did not succeed. `verb` and `path` say which."""

    def __init__(self, message: str, *, verb: str = "", path: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.verb = verb
        self.path = path


class ConnectionFailed(KubeError):
    """No usable answer came back.

    `sent` is False when the request certainly never reached the server; otherwise whether it was carried out is unknown.
    """

    def __init__(self, message: str, *, sent: bool = True, verb: str = "", path: str = "") -> None:
        super().__init__(message, verb=verb, path=path)
        self.sent = sent

    def __str__(self) -> str:
        return f"{self.verb} {self.path}: {self.message}".strip()


class ApiError(KubeError):
    """The server's Status. `retry_after` is in seconds, at most `LONGEST_RETRY_AFTER`; None when the server did not say."""

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
        """The error for HTTP `status` whose body is a `v1 Status`, or whatever a proxy sent; other types are not taken."""
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
    """The credentials are not accepted."""


class Forbidden(ApiError):
    """The credentials do not allow this."""


class NotFound(ApiError):
    """The object or type does not exist. After a delete whose answer was lost it may well be gone by that."""


class Conflict(ApiError):
    """Somebody changed the object first, or a precondition does not hold."""


class AlreadyExists(Conflict):
    """An object of that name is there already.

    It may be the one asked for, made by an attempt whose answer was lost: the caller knows its own by reading it (owner, labels).
    """


class Expired(ApiError):
    """The resourceVersion or continue token is too old: list anew."""


class Invalid(ApiError):
    """The object does not pass validation; `details["causes"]` names the fields."""


class TooManyRequests(ApiError):
    """The server asks to slow down."""


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
    """Whether `error` says nothing about the object: the same request may well succeed later."""
    return not isinstance(error, ApiError) or isinstance(error, _TRANSIENT)


def is_broken(error: KubeError) -> bool:
    """Whether the API server could not ask what it has to ask: the words are for users, as nobody else may notice."""
    return isinstance(error, ServerError) and error.reason == "InternalError"


def is_terminating_namespace(error: KubeError) -> bool:
    """Whether the namespace is being deleted, so that nothing can be created in it any more."""
    causes = error.details.get("causes") if isinstance(error, ApiError) else None
    if not isinstance(causes, list):
        return False
    return any(isinstance(cause, dict) and cause.get("reason") == "NamespaceTerminating" for cause in causes)


def _text(given: object) -> str:
    return given if isinstance(given, str) else ""


def _seconds(given: object) -> float | None:
    """What the server asks for, within bounds; an integer of JSON may be larger than any float."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    return float(min(max(given, 0), LONGEST_RETRY_AFTER))

"""One request and its answer, as the handlers see them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from . import status
from .negotiate import Wanted
from .routes import Query, RequestInfo

__all__ = ["ADMIN", "ANONYMOUS", "Answer", "Context", "Streamed", "User", "field_validation"]


@dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, list[str]] = field(default_factory=dict)

    def wire(self) -> dict[str, Any]:
        """`userInfo` of reviews and audit events."""
        info: dict[str, Any] = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = dict(self.extra)
        return info


ADMIN: Final = User("kubernetes-admin", ("system:masters", "system:authenticated"))
ANONYMOUS: Final = User("system:anonymous", ("system:unauthenticated",))


@dataclass(slots=True)
class Context:
    """One request. Handlers add `warnings`, which become headers, and `annotations` of the audit event."""

    info: RequestInfo
    query: Query
    headers: Mapping[str, str]
    body: bytes
    user: User
    wanted: Wanted
    now: float  # seconds since the epoch
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
    impersonator: User | None = None

    def warn(self, text: str) -> None:
        """Tell the client `text` once."""
        if text not in self.warnings:
            self.warnings.append(text)

    @property
    def content_type(self) -> str:
        """Media type of the body, without parameters; JSON where none is given."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower() or "application/json"

    @property
    def field_manager(self) -> str:
        """Who owns the fields that this request writes."""
        return self.query.text("fieldManager") or self.headers.get("User-Agent", "").partition("/")[0][:128] or "unknown"

    @property
    def field_validation(self) -> str:
        """`Strict`, `Warn` or `Ignore`."""
        return field_validation(self.query)


def field_validation(query: Query) -> str:
    """What to do with unknown and duplicate fields.

    Raises:
        StatusError: neither of the three words.
    """
    wanted = query.text("fieldValidation")
    if wanted not in {"", "Strict", "Warn", "Ignore"}:
        raise status.StatusError(
            422,
            "Invalid",
            f'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "{wanted}": '
            'supported values: "Ignore", "Warn", "Strict"',
        )
    return wanted or "Warn"


@dataclass(slots=True)
class Answer:
    """What goes back: a finished body, or an object still to be shown in the form that was asked for."""

    code: int
    body: bytes
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Streamed:
    """An answer that goes on: chunks of bytes until the iterator ends."""

    chunks: AsyncIterator[bytes]
    content_type: str = "application/json"
    code: int = 200

"""One request and its answer, as the handlers see them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pyroclast_standalone.apiserver.documents.errors import FieldError, invalid, too_long, unsupported
from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.requests.negotiate import Wanted
from pyroclast_standalone.apiserver.requests.routes import Query, RequestInfo

__all__ = ["ADMIN", "ANONYMOUS", "Answer", "Context", "Streamed", "User"]


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


class Context(msgspec.Struct):
    """One request. Handlers add `warnings`, which become headers, and `created_name` and `annotations` of the audit event."""

    info: RequestInfo
    query: Query
    headers: Mapping[str, str]
    body: bytes
    user: User
    wanted: Wanted
    now: float  # seconds since the epoch
    warnings: list[str] = []
    created_name: str = ""
    annotations: dict[str, str] = {}
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
        """`Strict`, `Warn` or `Ignore`: what to do with unknown and duplicate fields.

        Raises:
            StatusError: none of the three words.
        """
        wanted = self.query.text("fieldValidation")
        if wanted not in {"", "Strict", "Warn", "Ignore"}:
            fault = unsupported("fieldValidation", wanted, ("", "Ignore", "Strict", "Warn"))
            raise status.invalid("meta.k8s.io", self.options_kind, "", [fault])
        return wanted or "Warn"

    def check_options(self, *faults: FieldError) -> None:
        """Refuse parameters of a write that make no sense.

        Args:
            faults: Found already, told first.

        Raises:
            StatusError: 422, naming them.
        """
        found = [*faults, *_manager_faults(self.query.text("fieldManager"))]
        if (dry_run := self.query.text("dryRun")) not in {"", "All"}:
            found.append(unsupported("dryRun", [dry_run], ("All",)))
        if (validation := self.query.text("fieldValidation")) not in {"", "Strict", "Warn", "Ignore"}:
            found.append(unsupported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
        if found:
            raise status.invalid("meta.k8s.io", self.options_kind, "", found)

    @property
    def options_kind(self) -> str:
        """Kind of the options that the query stands for."""
        return _OPTIONS.get(self.info.verb, "CreateOptions")

    def write_options(self, kind: str) -> dict[str, Any]:
        """What the query says of a write, as the options of `kind` that it stands for."""
        options: dict[str, Any] = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if dry_run := self.query.text("dryRun"):
            options["dryRun"] = [dry_run]
        for name in ("fieldManager", "fieldValidation"):
            if value := self.query.text(name):
                options[name] = value
        return options

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing is to be stored.

        Raises:
            StatusError: `dryRun` is something else than All.
        """
        wanted = self.query.text("dryRun")
        if wanted not in {"", "All"}:
            raise status.invalid("meta.k8s.io", self.options_kind, "", [unsupported("dryRun", [wanted], ("All",))])
        return wanted == "All"


def _manager_faults(manager: str) -> list[FieldError]:
    faults = [too_long("fieldManager", _LONGEST_MANAGER)] if len(manager.encode()) > _LONGEST_MANAGER else []
    bad = ((at, each) for at, each in enumerate(manager) if not each.isprintable())
    return [
        *faults,
        *(invalid("fieldManager", manager, f"invalid character U+{ord(each):04X} (at position {at})") for at, each in bad),
    ]


_LONGEST_MANAGER: Final = 128  # bytes
_OPTIONS: Final = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions", "delete": "DeleteOptions"}


class Answer(msgspec.Struct):
    """What goes back: a finished body, or an object still to be shown in the form that was asked for."""

    code: int
    body: bytes
    content_type: str = "application/json"
    headers: dict[str, str] = {}


@dataclass(slots=True)
class Streamed:
    """An answer that goes on: chunks of bytes until the iterator ends."""

    chunks: AsyncIterator[bytes]
    content_type: str = "application/json"
    code: int = 200

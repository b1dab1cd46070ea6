"""A request and its answer in the form for handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

import msgspec
from aiohttp import web

from pyroclast.rules.errors import FieldError, invalid, too_long, unsupported
from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.requests.routes import Query, RequestInfo

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_AVAILABLE: Final = (JSON, YAML, PROTOBUF)
STREAMS: Final = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")


class Form(StrEnum):
    """The form of the answer that `as=` in an `Accept` header requests. The value is the kind of the answer."""

    OBJECT = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


class Wanted(msgspec.Struct, frozen=True):
    """The chosen clause of an `Accept` header."""

    form: Form = Form.OBJECT
    version: str = "v1"  # version of meta.k8s.io, for transformed answers


def _clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Return the media types with their parameters, in the order of the header. Weights are ignored."""
    clauses = []
    for text in accept.split(","):
        media_type, *parameters = (part.strip() for part in text.split(";"))
        values = {name.strip(): value.strip() for name, _, value in (parameter.partition("=") for parameter in parameters)}
        if media_type:
            clauses.append((media_type.lower(), values))
    return clauses


@lru_cache(maxsize=256)
def wanted(accept: str, *, is_list: bool = False) -> Wanted:
    """Return the first supported clause of `accept`. Never protobuf, as clients that accept it also accept JSON."""
    if not accept:
        return Wanted()
    is_known = False
    for media_type, values in _clauses(accept):
        if media_type not in {JSON, "*/*"}:
            continue
        asked, version = values.get("as", ""), values.get("v", "")
        if not asked:
            return Wanted()
        is_known = True
        if asked in set(Form) and values.get("g") == "meta.k8s.io" and version in {"v1", "v1beta1"}:
            return Wanted(Form(asked), version)
    if is_known:
        message = f"only the following media types are accepted: {', '.join(_AVAILABLE)}"
        raise status.StatusError(406, "NotAcceptable", message)
    available = (*_AVAILABLE, *(STREAMS if is_list else ()))
    raise status.StatusError(
        406, "NotAcceptable", f"406: Not Acceptable\n\nAvailable representations: {', '.join(available)}", details={}
    )


@lru_cache(maxsize=64)
def discovery_version(accept: str) -> str:
    """Return the version of aggregated discovery (`v2` or `v2beta1`). Empty for the legacy documents."""
    for media_type, values in _clauses(accept or JSON):
        if media_type not in {JSON, "*/*", "application/*"}:
            continue
        if not values.get("as"):
            return ""
        if values["as"] == "APIGroupDiscoveryList" and values.get("g") == "apidiscovery.k8s.io":
            version = values.get("v", "")
            if version in {"v2", "v2beta1"}:
                return version
    return ""


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, list[str]] = field(default_factory=dict)

    def wire(self) -> dict[str, Any]:
        """Return the `userInfo` of reviews and audit events."""
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
    """One request. Handlers add `warnings` for the headers, and `created_name` and `annotations` for the audit event."""

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
        """Add a warning, unless it was added before."""
        if text not in self.warnings:
            self.warnings.append(text)

    @property
    def content_type(self) -> str:
        """The media type of the body without parameters. The default is JSON."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower() or "application/json"

    @property
    def field_manager(self) -> str:
        """The field manager that owns the fields written by this request."""
        return self.query.text("fieldManager") or self.headers.get("User-Agent", "").partition("/")[0][:128] or "unknown"

    @property
    def field_validation(self) -> str:
        """The handling of unknown and duplicate fields: `Strict`, `Warn` or `Ignore`."""
        wanted = self.query.text("fieldValidation")
        if wanted not in {"", "Strict", "Warn", "Ignore"}:
            fault = unsupported("fieldValidation", wanted, ("", "Ignore", "Strict", "Warn"))
            raise status.invalid("meta.k8s.io", self.options_kind, "", [fault])
        return wanted or "Warn"

    def check_options(self, *faults: FieldError) -> None:
        """Reject invalid parameters of a write, after `faults` that were found before."""
        found = [*faults, *_manager_faults(self.query.text("fieldManager"))]
        if (dry_run := self.query.text("dryRun")) not in {"", "All"}:
            found.append(unsupported("dryRun", [dry_run], ("All",)))
        if (validation := self.query.text("fieldValidation")) not in {"", "Strict", "Warn", "Ignore"}:
            found.append(unsupported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
        if found:
            raise status.invalid("meta.k8s.io", self.options_kind, "", found)

    @property
    def options_kind(self) -> str:
        """The kind of the options in the query, such as `ListOptions`."""
        return _OPTIONS.get(self.info.verb, "CreateOptions")

    def write_options(self, kind: str) -> dict[str, Any]:
        """Return the query parameters of the request as an options object of kind `kind`."""
        options: dict[str, Any] = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if dry_run := self.query.text("dryRun"):
            options["dryRun"] = [dry_run]
        for name in ("fieldManager", "fieldValidation"):
            if value := self.query.text(name):
                options[name] = value
        return options

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing is stored."""
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
    """A complete answer: status code, body, content type and headers."""

    code: int
    body: bytes
    content_type: str = "application/json"
    headers: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Upgraded:
    """An answer over a WebSocket: `serve` answers the request and returns when the connection has ended."""

    serve: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class Streamed:
    """A streamed answer: chunks of bytes until the iterator `chunks` ends."""

    chunks: AsyncIterator[bytes]
    content_type: str = "application/json"
    code: int = 200

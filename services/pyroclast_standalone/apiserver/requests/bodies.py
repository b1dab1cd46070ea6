"""Decodes request bodies: JSON, YAML or protobuf of the right kind. Unknown and duplicate fields are reported or rejected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pyroclast.resources.go_text import go_kind
from pyroclast.rules.errors import invalid
from pyroclast_standalone.apiserver.documents import strict
from pyroclast_standalone.apiserver.documents.errors import DocumentError, UnsupportedBody
from pyroclast_standalone.apiserver.documents.schema import builtin_schema, definition_name
from pyroclast_standalone.apiserver.documents.typed import codec_of
from pyroclast_standalone.apiserver.kinds import Strategy
from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.requests.context import JSON, PROTOBUF, YAML, Context

MAX_BODY: Final = 3 * 1024 * 1024  # bytes: the limit of the API
_ACCEPTED: Final = (JSON, YAML, PROTOBUF)
_GO_STRUCT: Final = r"""struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"""
_OF_ALL_KINDS: Final = {
    *("APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "List", "Status", "WatchEvent"),
    *("CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "PatchOptions", "UpdateOptions"),
}
_SHOWN: Final = 30  # bytes of an invalid body that a message quotes


@dataclass(frozen=True, slots=True)
class BodyKind:
    """A built-in kind that is sent to subresources and is never stored itself."""

    group: str
    version: str
    kind: str
    is_custom: bool = False

    @property
    def api_version(self) -> str:
        """The value of `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def decode(self, document: dict[str, Any]) -> list[str]:
        """Normalise a parsed body, see `Strategy.decode`."""
        return codec_of(definition_name(self.group, self.version, self.kind)).decode(document)


Readable: TypeAlias = Strategy | BodyKind
"""A kind of object that a body may contain."""


def parse(context: Context, kind: str) -> tuple[Any, list[str]]:
    """Return the parsed body of a request, and a sentence for each duplicate field."""
    content_type = context.content_type
    duplicates = context.field_validation != "Ignore"
    try:
        if content_type == JSON:
            return strict.parse_json(context.body, duplicates=duplicates)
        if content_type in {YAML, "application/x-yaml", "text/yaml"}:
            return strict.parse_yaml(context.body), []
        if content_type == PROTOBUF:
            from pyroclast_standalone.apiserver.documents import protobuf  # noqa: PLC0415 - only kubectl sends it

            return protobuf.decode(context.body, kind=kind), []
    except UnsupportedBody as error:
        raise status.of_document(error) from None
    except DocumentError as error:
        if content_type == JSON:
            raise unrecognized(context.body, kind, error.message) from None
        raise _unreadable(context.body, kind, error.message) from None
    raise status.unsupported_media_type(_ACCEPTED)


def unrecognized(body: bytes, kind: str, why: str) -> status.StatusError:
    """Return the 400 error for a body whose kind cannot be read. For DeleteOptions the message does not contain the kind."""
    if kind == "DeleteOptions":
        return status.bad_request(f"couldn't get version/kind; json parse error: {why}")
    return _unreadable(body, kind, f"couldn't get version/kind; json parse error: {why}")


def _unreadable(body: bytes, kind: str, why: str) -> status.StatusError:
    begin = body[:_SHOWN].decode(errors="replace") if body[:1] == b"{" else body[:_SHOWN].hex() or "<empty>"
    shown = begin + (" ..." if len(body) > _SHOWN else "")
    return status.bad_request(f"the object provided is unrecognized (must be of type {kind}): {why} ({shown})")


def not_an_object(body: bytes, kind: str, value: object) -> status.StatusError:
    """Return the 400 error for a body that is a JSON value of another type."""
    return unrecognized(body, kind, f"json: cannot unmarshal {go_kind(value)} into Go value of type {_GO_STRUCT}")


def decode(context: Context, kind: Readable) -> dict[str, Any]:
    """Return the object in the body, normalised for its kind."""
    document, problems = parse(context, kind.kind)
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise not_an_object(context.body, kind.kind, document)
    check_type(kind, document, context.body)
    try:
        problems = [*problems, *kind.decode(document)]
    except DocumentError as error:
        raise cannot_be_handled(kind, error.message) from None
    report(context, kind, problems)
    return document


def cannot_be_handled(resource: Readable, why: str, *, kind: str = "", version: str = "") -> status.StatusError:
    """Return the 400 error for a body that does not fit its kind. `kind` and `version`: those of the body."""
    return status.bad_request(
        f'{kind or resource.kind} in version "{version or resource.version}" cannot be handled as a {resource.kind}: {why}'
    )


def report(context: Context, resource: Readable, problems: list[str]) -> None:
    """Reject or report unknown and duplicate fields, as the request's field validation demands."""
    if problems and context.field_validation == "Strict":
        raise cannot_be_handled(resource, strict.strict_message(problems))
    for problem in problems if context.field_validation == "Warn" else ():
        context.warn(problem)


def check_type(resource: Readable, document: dict[str, Any], body: bytes) -> None:
    """Set missing `kind` and `apiVersion` where they are optional, and reject wrong ones."""
    kind, version = document.get("kind"), document.get("apiVersion")
    if not resource.is_custom:
        given = (version or resource.api_version, kind or resource.kind)
        if given != (resource.api_version, resource.kind):
            raise cannot_be_handled(resource, _no_conversion(resource, *given), kind=given[1], version=_short(given[0]))
        document["kind"], document["apiVersion"] = resource.kind, resource.api_version
        return
    if not kind:
        raise _unreadable(body, resource.kind, f"Object 'Kind' is missing in '{body.decode(errors='replace')}'")
    if version != resource.api_version:
        raise status.bad_request(
            f"the API version in the data ({version or ''}) does not match the expected API version ({resource.api_version})"
        )
    if kind != resource.kind:
        name = (document.get("metadata") or {}).get("name", "")
        raise status.invalid(resource.group, kind, name, [invalid("kind", kind, f"must be {resource.kind}")])


def _no_conversion(resource: Readable, version: str, kind: str) -> str:
    """Return the reason why an object of another kind cannot be read as `resource`."""
    is_known = (version == "v1" and kind in _OF_ALL_KINDS) or builtin_schema(version.rpartition("/")[0], _short(version), kind)
    if not is_known:
        return f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
    wanted = f"{resource.group.partition('.')[0] or 'core'}.{resource.kind}"
    return f"converting ({_short(version)}.{kind}) to ({wanted}): unknown conversion"


def _short(api_version: str) -> str:
    return api_version.rpartition("/")[2]

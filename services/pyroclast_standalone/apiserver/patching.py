"""The four kinds of patch, from a request body to the object they make of another."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final

import orjson

from pyroclast.resources.go_text import go_kind, go_value

from . import bodies, status
from .context import Context
from .documents import apply as server_side
from .documents import json_patch, merge_patch, strategic, strict
from .documents.errors import DocumentError, FieldError, Undecodable, forbidden, invalid, required, too_long
from .registry import Resource

__all__ = ["APPLY", "check_options", "patcher"]

JSON_PATCH: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
_MAP: Final = "map[string]interface {}"
_LONGEST_MANAGER: Final = 128  # bytes


def check_options(context: Context) -> None:
    """Refuse parameters that do not fit the kind of patch.

    Raises:
        StatusError: 422, naming them.
    """
    faults: list[FieldError] = []
    if context.content_type == APPLY:
        if not context.query.text("fieldManager"):
            faults.append(required("fieldManager", "is required for apply patch"))
    elif "force" in context.query:
        faults.append(forbidden("force", "may not be specified for non-apply patch"))
    if len(context.query.text("fieldManager").encode()) > _LONGEST_MANAGER:
        faults.append(too_long("fieldManager", _LONGEST_MANAGER))
    context.check_options(*faults)


def patcher(
    context: Context, resource: Resource, now: str, subresource: str
) -> Callable[[dict[str, Any] | None], dict[str, Any]]:
    """What turns the present object (None when it is missing: apply makes it) into the patched one, decoded.

    Raises:
        StatusError: the type of patch is not accepted here, or it cannot be read.
    """
    check_options(context)
    try:
        match context.content_type:
            case content_type if content_type == JSON_PATCH:
                operations = json_patch.check(_parsed(context.body))
                return lambda live: _decoded(context, resource, _applied(lambda: json_patch.apply(live, operations)))
            case content_type if content_type == MERGE:
                patch = _parsed(context.body)
                if patch is None:
                    raise status.bad_request("Invalid JSON Patch")
                if not isinstance(patch, dict):
                    raise status.bad_request(
                        f"error decoding patch: json: cannot unmarshal {go_kind(patch)} into Go value of type {_MAP}"
                    )
                return lambda live: _decoded(context, resource, merge_patch.merge(live, patch))
            case content_type if content_type == STRATEGIC and not resource.is_custom:
                patch = _parsed(context.body, prefix="")
                if not isinstance(patch, dict):
                    raise status.bad_request(f"json: cannot unmarshal {go_kind(patch)} into Go value of type {_MAP}")
                return lambda live: _decoded(
                    context,
                    resource,
                    _applied(lambda: strategic.merge(live or {}, patch, resource.strategy.schema)),
                    shown=go_value(patch),
                )
            case content_type if content_type == APPLY:
                return _apply(context, resource, now, subresource)
            case _:
                pass
    except DocumentError as error:
        raise status.of_document(error) from None
    accepted = (JSON_PATCH, MERGE, APPLY) if resource.is_custom else ()
    raise status.unsupported_media_type(accepted)


def _parsed(body: bytes, *, prefix: str = "error decoding patch: ") -> Any:  # noqa: ANN401 - any JSON
    try:
        value, _ = strict.parse_json(body, duplicates=False)
    except DocumentError as error:
        raise status.bad_request(f"{prefix}{error.message}") from None
    return value


def _applied(work: Callable[[], Any]) -> Any:  # noqa: ANN401 - any JSON
    try:
        return work()
    except DocumentError as error:
        raise status.of_document(error) from None


def _decoded(context: Context, resource: Resource, document: Any, *, shown: str = "") -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """The patched object in the form of its kind; what is wrong with it is told about field `patch`."""
    if not isinstance(document, dict):
        raise status.invalid("", "", "", [invalid("patch", document, "json: cannot unmarshal into Go value of type map")])
    before = orjson.dumps(document)
    result: dict[str, Any] = orjson.loads(before)  # patches share parts with the live object and with themselves

    def refused(why: str) -> status.StatusError:
        return status.invalid("", "", "", [invalid("patch", shown or _shown(before, resource), why)])

    try:
        bodies.check_type(resource.strategy, result, before)
    except status.StatusError as error:
        if resource.is_custom:
            raise
        why = error.message.partition(" cannot be handled as a ")[2].partition(": ")[2] or error.message
        raise refused(why) from None
    try:
        problems = resource.strategy.decode(result)
    except Undecodable as error:
        if context.content_type == APPLY:
            raise
        raise refused(error.message) from None
    if problems:
        if context.field_validation == "Strict":
            raise refused(strict.strict_message(problems))
        if context.field_validation == "Warn":
            for problem in problems:
                context.warn(problem)
    return result


def _configuration(body: bytes) -> tuple[Any, list[str]]:
    """The applied configuration: YAML, which most clients write as JSON."""
    if body.lstrip()[:1] == b"{":
        with contextlib.suppress(DocumentError):
            return strict.parse_json(body)
    from .documents import yaml  # noqa: PLC0415 - few send it

    return yaml.parse_yaml(body)


def _shown(data: bytes, resource: Resource) -> str:
    """The object as an error shows it: sorted as the server's own maps are."""
    document = orjson.loads(data)
    if resource.is_custom:
        return orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode()
    return orjson.dumps({name: document[name] for name in sorted(document)}).decode()


def _apply(context: Context, resource: Resource, now: str, subresource: str) -> Callable[[dict[str, Any] | None], dict[str, Any]]:
    try:
        configuration, problems = _configuration(context.body)
    except DocumentError as error:
        raise status.bad_request(f"error decoding YAML: error converting YAML to JSON: {error.message}") from None
    if not isinstance(configuration, dict):
        raise status.bad_request("error decoding YAML: json: cannot unmarshal into Go value of type map[string]interface {}")
    if problems and context.field_validation == "Strict":
        raise status.bad_request(f"error strict decoding YAML: {strict.strict_message(problems)}")

    kind, version = configuration.get("kind") or "", configuration.get("apiVersion") or ""
    if kind != resource.kind:
        group, _, short = str(version).rpartition("/")
        raise status.bad_request(f"invalid object type: {group}/{short}, Kind={kind}")

    def merged(live: dict[str, Any] | None) -> dict[str, Any]:
        document = _applied(
            lambda: server_side.apply(
                live,
                configuration,
                resource.strategy.schema,
                manager=context.query.text("fieldManager"),
                api_version=resource.api_version,
                now=now,
                force=context.query.flag("force"),
                subresource=subresource,
            )
        )
        try:
            return _decoded(context, resource, document)
        except Undecodable as error:
            metadata = configuration.get("metadata") or {}
            group, _, short = resource.api_version.rpartition("/")
            kind = f"{group}/{short}, Kind={resource.kind}"
            named = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {kind}"
            prefix = "error decoding from json: " if error.message.startswith("illegal base64") else ""
            why = f"unable to convert unstructured object to {kind}: {prefix}{error.message}"
            raise status.unreasoned(500, f"failed to convert new object ({named}) to proper version: {why}") from None

    return merged

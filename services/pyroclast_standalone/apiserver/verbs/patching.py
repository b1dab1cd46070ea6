"""The four types of patch: parses a request body to a function that patches an object."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson

from pyroclast.resources.go_text import go_kind, go_value
from pyroclast.rules.errors import FieldError, forbidden, invalid, required
from pyroclast_standalone.apiserver.documents import apply as server_side
from pyroclast_standalone.apiserver.documents import json_patch, strategic, strict
from pyroclast_standalone.apiserver.documents.errors import DocumentError, Undecodable
from pyroclast_standalone.apiserver.requests import bodies, status
from pyroclast_standalone.apiserver.requests.context import Context
from pyroclast_standalone.apiserver.storage.registry import Resource

JSON_PATCH: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
_MAP: Final = "map[string]interface {}"


def check_options(context: Context) -> None:
    """Reject parameters that are not valid for the type of patch."""
    faults: list[FieldError] = []
    if context.content_type == APPLY:
        if not context.query.text("fieldManager"):
            faults.append(required("fieldManager", "is required for apply patch"))
    elif "force" in context.query:
        faults.append(forbidden("force", "may not be specified for non-apply patch"))
    context.check_options(*faults)


def check_kind(context: Context, resource: Resource) -> None:
    """Reject a type of patch that the resource does not support."""
    if context.content_type not in {JSON_PATCH, MERGE, APPLY} and (resource.is_custom or context.content_type != STRATEGIC):
        raise status.unsupported_media_type((JSON_PATCH, MERGE, APPLY) if resource.is_custom else ())


def patcher(
    context: Context, resource: Resource, now: str, subresource: str
) -> Callable[[dict[str, Any] | None], dict[str, Any]]:
    """Return a function from the present object to the patched and decoded one. For apply, a missing object is None."""
    kind = context.content_type
    if kind == APPLY:
        return _apply(context, resource, now, subresource)
    prefix = "" if kind == STRATEGIC else "error decoding patch: "
    patch, twice = _parsed(context, prefix)
    if kind == JSON_PATCH:
        strange = [f"json patch {problem}" for problem in (*twice, *_applied(lambda: json_patch.unknown_fields(patch)))]
        return lambda live: _decoded(context, resource, _applied(lambda: json_patch.apply(live, patch)), live, problems=strange)
    if patch is None and kind == MERGE:
        raise status.bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict | None):
        raise status.bad_request(f"{prefix}json: cannot unmarshal {go_kind(patch)} into Go value of type {_MAP}")
    if kind == MERGE:
        return lambda live: _decoded(context, resource, json_patch.merge(live, patch), live, problems=twice)
    given, schema = patch or {}, resource.strategy.schema
    return lambda live: _decoded(
        context,
        resource,
        _applied(lambda: strategic.merge(live or {}, given, schema)),
        live,
        shown=go_value(given),
        problems=twice,
    )


def _parsed(context: Context, prefix: str) -> tuple[Any, list[str]]:
    """Return the value in the body, and a sentence for each duplicate field."""
    try:
        return strict.parse_json(context.body, duplicates=context.field_validation != "Ignore")
    except DocumentError as error:
        raise status.bad_request(f"{prefix}{error.message}") from None


def _applied(work: Callable[[], Any]) -> Any:  # noqa: ANN401 - any JSON
    try:
        return work()
    except DocumentError as error:
        raise status.of_document(error) from None


def _decoded(
    context: Context,
    resource: Resource,
    document: Any,  # noqa: ANN401 - any JSON
    live: Mapping[str, Any] | None = None,
    *,
    shown: str = "",
    problems: Sequence[str] = (),
) -> dict[str, Any]:
    """Decode the patched object. Faults of the object and the patch are reported for the field `patch`.

    Parts that equal those of `live` are normalised already.
    """
    if not isinstance(document, dict):
        raise status.invalid("", "", "", [invalid("patch", document, "json: cannot unmarshal into Go value of type map")])
    before = orjson.dumps(document)
    result: dict[str, Any] = orjson.loads(before)  # patches share parts with the live object and with each other

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
        untouched = [name for name, part in document.items() if part is not None and part is (live or {}).get(name)]
        unknown = resource.strategy.decode(result, untouched, is_applied=context.content_type == APPLY)
    except Undecodable as error:
        if context.content_type == APPLY:
            raise
        raise refused(error.message) from None
    found = [*problems, *unknown]
    if found and context.field_validation == "Strict":
        raise refused(strict.strict_message(found))
    bodies.report(context, resource.strategy, found)
    return result


def _configuration(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Parse the applied configuration, which is YAML or, from most clients, JSON."""
    if body.lstrip()[:1] == b"{":
        with contextlib.suppress(DocumentError):
            return strict.parse_json(body, duplicates=False)[0]
    return strict.parse_yaml(body)


def _shown(data: bytes, resource: Resource) -> str:
    """Return the object as error messages show it: with sorted keys."""
    document = orjson.loads(data)
    if resource.is_custom:
        return orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode()
    return orjson.dumps({name: document[name] for name in sorted(document)}).decode()


def _apply(context: Context, resource: Resource, now: str, subresource: str) -> Callable[[dict[str, Any] | None], dict[str, Any]]:
    try:
        configuration = _configuration(context.body)
    except DocumentError as error:
        raise status.bad_request(f"error decoding YAML: error converting YAML to JSON: {error.message}") from None
    if configuration is None:
        configuration = {}
    if not isinstance(configuration, dict):
        why = f"json: cannot unmarshal {go_kind(configuration)} into Go value of type {_MAP}"
        raise status.bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}")
    kind, version = configuration.get("kind") or "", configuration.get("apiVersion") or ""
    if (kind, version) != (resource.kind, resource.api_version):
        group, _, short = str(version).rpartition("/")
        given = f"{group}/{short}, Kind={kind}" if "/" not in group else "/, Kind="
        raise status.bad_request(f"invalid object type: {given}")

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
            kind = f"{resource.api_version}, Kind={resource.kind}"
            raise status.unreasoned(500, f"failed to convert new object to {kind}: {error.message}") from None

    return merged

"""Objects and lists in the form that was asked for: JSON bytes as stored wherever possible, else what is made of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import orjson

from . import status
from .context import Answer, Context
from .documents import tables
from .negotiate import YAML, Form, Wanted
from .registry import Resource
from .store import Stored

__all__ = ["json_answer", "list_answer", "object_answer", "partial", "row", "served"]


def served(resource: Resource, stored: Stored) -> dict[str, Any]:
    """A copy of `stored` in the version of `resource`."""
    body = stored.load()
    return body if resource.from_stored is None else resource.from_stored(body)


def partial(body: Mapping[str, Any], version: str = "v1") -> dict[str, Any]:
    """The PartialObjectMetadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": body["metadata"]}


def json_answer(wanted: Wanted, body: Mapping[str, Any], code: int = 200) -> Answer:
    """`body` as JSON or YAML."""
    if wanted.media_type == YAML:
        from .documents.yaml_text import dump_yaml  # noqa: PLC0415 - few ask for it

        return Answer(code, dump_yaml(dict(body)), YAML)
    return Answer(code, orjson.dumps(body))


def object_answer(context: Context, resource: Resource, found: Stored | dict[str, Any], code: int = 200) -> Answer:
    """One object."""
    wanted = context.wanted
    if isinstance(found, Stored):
        if wanted.form is Form.OBJECT and wanted.media_type != YAML and resource.from_stored is None:
            return Answer(code, found.data)
        body = served(resource, found)
    else:
        body = found
    match wanted.form:
        case Form.TABLE:
            metadata = {"resourceVersion": body["metadata"].get("resourceVersion", "")}
            table = tables.render(resource.strategy, [body], now=time.time(), include=_included(context), metadata=metadata)
            return json_answer(wanted, _versioned(table, wanted), code)
        case Form.METADATA:
            return json_answer(wanted, partial(body, wanted.version), code)
        case Form.METADATA_LIST if resource.is_custom:
            raise status.unreasoned(500, "content is not a list")
        case Form.METADATA_LIST:
            raise _not_of_form(wanted, f"is not a list ({_go_type(resource)})")
        case _:
            return json_answer(wanted, body, code)


def list_answer(context: Context, resource: Resource, items: Iterable[Stored], metadata: Mapping[str, Any]) -> Answer:
    """A list. `metadata` has resourceVersion and, for a page, continue and remainingItemCount."""
    wanted = context.wanted
    match wanted.form:
        case Form.TABLE:
            bodies = [served(resource, item) for item in items]
            table = tables.render(resource.strategy, bodies, now=time.time(), include=_included(context), metadata=metadata)
            return json_answer(wanted, _versioned(table, wanted))
        case Form.METADATA:
            raise _not_of_form(wanted, f"is a list ({_go_type(resource)}List)")
        case Form.METADATA_LIST:
            version = f"meta.k8s.io/{wanted.version}"
            entries = [partial(served(resource, item), wanted.version) for item in items]
            return json_answer(
                wanted,
                {"kind": "PartialObjectMetadataList", "apiVersion": version, "metadata": dict(metadata), "items": entries},
            )
        case _:
            pass
    head = orjson.dumps({"kind": resource.kind + "List", "apiVersion": resource.api_version, "metadata": dict(metadata)})
    if resource.from_stored is None:
        parts = [item.data for item in items]
    else:
        parts = [orjson.dumps(served(resource, item)) for item in items]
    if not resource.is_custom:  # items of built-in lists carry no kind of their own
        prefix = _type_prefix(resource.kind, resource.api_version)
        parts = [b"{" + part[len(prefix) :] if part.startswith(prefix) else part for part in parts]
    body = b'%s,"items":[%s]}' % (head[:-1], b",".join(parts))
    if wanted.media_type == YAML:
        return json_answer(wanted, orjson.loads(body))
    return Answer(200, body)


def _not_of_form(wanted: Wanted, what: str) -> status.StatusError:
    return status.StatusError(406, "NotAcceptable", f"you requested {wanted.form}, but the requested object {what}")


def _go_type(resource: Resource) -> str:
    """The type of an object in the real server's memory."""
    if resource.is_custom:
        return "*unstructured.Unstructured"
    package = resource.group.partition(".")[0] or "core"
    return f"*{'core' if package == 'events' else package}.{resource.kind}"


@lru_cache(maxsize=512)
def _type_prefix(kind: str, api_version: str) -> bytes:
    return orjson.dumps({"kind": kind, "apiVersion": api_version})[:-1] + b","


def row(context: Context, resource: Resource, body: Mapping[str, Any], *, definitions: bool) -> dict[str, Any]:
    """The table of one watch event; a bookmark has no name and no times, and prints so."""
    metadata = {"resourceVersion": body["metadata"].get("resourceVersion", "")}
    table = tables.render(
        resource.strategy,
        [body],
        now=time.time(),
        include=_included(context),
        metadata=metadata,
        definitions=definitions,
    )
    return _versioned(table, context.wanted)


def _included(context: Context) -> str:
    """What the rows of a table carry.

    Raises:
        StatusError: 400, something else than there is.
    """
    wanted = context.query.text("includeObject")
    if wanted not in {"", "Metadata", "Object", "None"}:
        fault = f"includeObject: Invalid value: \"{wanted}\": must be 'Metadata', 'Object', 'None', or empty"
        raise status.bad_request(f"Unable to convert to Table as requested: {fault}")
    return wanted or "Metadata"


def _versioned(table: dict[str, Any], wanted: Wanted) -> dict[str, Any]:
    return table if wanted.version == "v1" else {**table, "apiVersion": f"meta.k8s.io/{wanted.version}"}

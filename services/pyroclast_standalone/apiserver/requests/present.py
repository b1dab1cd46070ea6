"""Answers with objects and lists in the requested form: the stored JSON bytes where possible, otherwise converted objects."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import orjson

from pyroclast_standalone.apiserver.documents import tables
from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.requests.context import Answer, Context, Form, Wanted
from pyroclast_standalone.apiserver.storage.registry import Resource
from pyroclast_standalone.apiserver.storage.store import Stored


def found(context: Context, resource: Resource) -> Stored:
    """Return the object of a request. Raises StatusError: there is none."""
    stored = resource.collection.items.get(resource.key(context.info.namespace, context.info.name))
    if stored is None:
        raise status.not_found(resource.group, resource.plural, context.info.name)
    return stored


def served(resource: Resource, stored: Stored) -> dict[str, Any]:
    """Return a copy of `stored` in the version of `resource`."""
    body = stored.load()
    return body if resource.from_stored is None else resource.from_stored(body)


def partial(body: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return the metadata of an object as a PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": body["metadata"]}


def _unfit(wanted: Wanted, resource: Resource, why: str, suffix: str = "") -> status.StatusError:
    """Return the 406 error for a request that asks for the metadata of a list as that of an object, or the reverse."""
    kind = (
        f"*unstructured.Unstructured{suffix}"
        if resource.is_custom
        else f"*{resource.group.partition('.')[0] or 'core'}.{resource.kind}{suffix}"
    )
    return status.StatusError(406, "NotAcceptable", f"you requested {wanted.form}, but the requested object is {why} ({kind})")


def json_answer(body: Mapping[str, Any], code: int = 200) -> Answer:
    """Return an HTTP answer whose body is `body` in JSON."""
    return Answer(code, orjson.dumps(body))


def object_answer(context: Context, resource: Resource, found: Stored | dict[str, Any], code: int = 200) -> Answer:
    """Return the HTTP answer with one object, in the form that the request accepts."""
    wanted = context.wanted
    if isinstance(found, Stored):
        if wanted.form is Form.OBJECT and resource.from_stored is None:
            return Answer(code, found.data)
        body = served(resource, found)
    else:
        body = found
    match wanted.form:
        case Form.METADATA_LIST:
            raise _unfit(wanted, resource, "not a list")
        case Form.METADATA:
            body = partial(body, wanted.version)
        case Form.TABLE:
            body = row(context, resource, body)
    return json_answer(body, code)


def list_answer(context: Context, resource: Resource, items: Iterable[Stored], metadata: Mapping[str, Any]) -> Answer:
    """Return the HTTP answer with a list. `metadata` has resourceVersion and, for a page, continue and remainingItemCount."""
    wanted = context.wanted
    if wanted.form is Form.TABLE:
        bodies = [served(resource, item) for item in items]
        table = tables.render(resource.strategy, bodies, now=time.time(), include=_included(context), metadata=metadata)
        return json_answer(_versioned(table, wanted))
    if wanted.form is Form.METADATA:
        raise _unfit(wanted, resource, "a list", "List")
    if wanted.form is Form.METADATA_LIST:
        found = [partial(served(resource, item), wanted.version) for item in items]
        version = f"meta.k8s.io/{wanted.version}"
        return json_answer({"kind": wanted.form, "apiVersion": version, "metadata": metadata, "items": found})
    head = orjson.dumps({"kind": resource.kind + "List", "apiVersion": resource.api_version, "metadata": dict(metadata)})
    if resource.from_stored is None:
        parts = [item.data for item in items]
    else:
        parts = [orjson.dumps(served(resource, item)) for item in items]
    if not resource.is_custom:  # the items of built-in lists have no kind
        prefix = _type_prefix(resource.kind, resource.api_version)
        parts = [b"{" + part[len(prefix) :] if part.startswith(prefix) else part for part in parts]
    body = b'%s,"items":[%s]}' % (head[:-1], b",".join(parts))
    return Answer(200, body)


@lru_cache(maxsize=512)
def _type_prefix(kind: str, api_version: str) -> bytes:
    return orjson.dumps({"kind": kind, "apiVersion": api_version})[:-1] + b","


def row(context: Context, resource: Resource, body: Mapping[str, Any], *, definitions: bool = True) -> dict[str, Any]:
    """Return the table of one object. For a bookmark, name and times are empty."""
    metadata = {"resourceVersion": body["metadata"].get("resourceVersion", "")}
    table = tables.render(
        resource.strategy, [body], now=time.time(), include=_included(context), metadata=metadata, definitions=definitions
    )
    return _versioned(table, context.wanted)


def _included(context: Context) -> str:
    """Return the content of the table's row objects."""
    wanted = context.query.text("includeObject")
    if wanted not in {"", "Metadata", "Object", "None"}:
        fault = f"includeObject: Invalid value: \"{wanted}\": must be 'Metadata', 'Object', 'None', or empty"
        raise status.bad_request(f"Unable to convert to Table as requested: {fault}")
    return wanted or "Metadata"


def _versioned(table: dict[str, Any], wanted: Wanted) -> dict[str, Any]:
    return table if wanted.version == "v1" else {**table, "apiVersion": f"meta.k8s.io/{wanted.version}"}

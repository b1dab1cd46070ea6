"""Answers GET requests for objects and lists, with the requested revision and page."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from pyroclast.rules.errors import FieldError, forbidden, unsupported
from pyroclast_standalone.apiserver.documents import selectors
from pyroclast_standalone.apiserver.documents.errors import DocumentError
from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.requests.context import Answer, Context
from pyroclast_standalone.apiserver.requests.present import found, list_answer, object_answer
from pyroclast_standalone.apiserver.requests.routes import Query
from pyroclast_standalone.apiserver.requests.status import of_document
from pyroclast_standalone.apiserver.storage.registry import Resource
from pyroclast_standalone.apiserver.storage.store import Compacted, Store, Stored


class Selection:
    """The `labelSelector` and `fieldSelector` of a request. A call returns whether an object matches."""

    __slots__ = ("_fields", "_from_stored", "_labels", "_namespace", "_terms", "name")

    def __init__(
        self, labels: selectors.LabelSelector, fields: selectors.FieldSelector, resource: Resource, namespace: str
    ) -> None:
        self._labels = labels
        self._fields = fields
        self._namespace = namespace + "/" if namespace else ""
        self._from_stored = resource.from_stored
        self._terms = () if resource.from_stored and fields.terms else tuple(fields.terms)
        self.name = fields.exact("metadata.name") or ""

    @property
    def is_selective(self) -> bool:
        """Whether the request has selectors."""
        return bool(self._labels) or bool(self._fields)

    def __call__(self, stored: Stored) -> bool:
        """Return whether `stored` is in the namespace and matches both selectors."""
        if self._namespace and not stored.key.startswith(self._namespace):
            return False
        if self._labels and not self._labels.matches(stored.labels):
            return False
        if self._from_stored is not None:
            return not self._fields or self._fields.selects(self._from_stored(stored.load()))
        for field, wanted, equal in self._terms:
            if field == "metadata.name":
                value = stored.name
            elif field == "metadata.namespace":
                value = stored.namespace
            else:
                value = stored.fields.get(field, "")
            if (value == wanted) is not equal:
                return False
        return True

    def filter(self) -> Callable[[Stored], bool] | None:
        """Return the function that tests whether an object is selected, None when all objects are selected."""
        return self if self.is_selective or self._namespace else None


def selection(query: Query, resource: Resource, namespace: str, name: str = "") -> Selection:
    """Parse the selectors of a request. The path of the request may have a `name` too."""
    try:
        labels = selectors.parse_label_selector(query.text("labelSelector"))
        terms = query.text("fieldSelector")
        fields = selectors.parse_field_selector(terms, resource.strategy.fields, namespaced=resource.namespaced)
        if name and fields.exact("metadata.name") is None:
            terms = f"{terms},metadata.name={name}" if terms else f"metadata.name={name}"
            fields = selectors.parse_field_selector(terms, resource.strategy.fields, namespaced=resource.namespaced)
    except DocumentError as error:
        raise of_document(error) from None
    return Selection(labels, fields, resource, namespace)


_FUTURE_SECONDS: Final = 3.0  # seconds for which a read waits for a future revision
_POLL_SECONDS: Final = 0.02
_EXPIRED_PAGE: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the "
    "continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing "
    "with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the "
    "time the first chunk was returned and now may show up in the list."
)


def revision_of(text: str) -> int:
    """Return the revision in a `resourceVersion` parameter, 0 when it is empty.

    Raises ValueError: the value is not a number. The message is that of the API.
    """
    if not text:
        return 0
    if not text.isascii() or not text.isdigit():
        raise ValueError(f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)


class Reader:
    """Answers get and list requests from the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, context: Context, resource: Resource) -> Answer:
        """Answer a GET request with one object."""
        if text := context.query.text("resourceVersion"):
            try:
                await self._reach(revision_of(text))
            except ValueError as error:
                raise status.unreasoned(500, str(error)) from None
        return object_answer(context, resource, found(context, resource))

    async def list(self, context: Context, resource: Resource) -> Answer:
        """Answer a GET request with a whole list or a page of it."""
        query = context.query
        check_list_options(query)
        chosen = selection(query, resource, context.info.namespace)
        limit = query.number("limit") or 0
        token = query.text("continue")
        if token:
            return self._next_page(context, resource, chosen, limit, token)
        text = query.text("resourceVersion")
        wanted = _list_revision(text)
        exact = query.text("resourceVersionMatch") == "Exact"
        if wanted:
            await self._reach(wanted)
        if text == "0":
            limit = 0
        if wanted and (exact or (limit > 0 and not query.text("resourceVersionMatch"))):
            return self._page(context, resource, chosen, limit, revision=wanted, after="")
        return self._page(context, resource, chosen, limit, revision=self._store.revision, after="")

    async def _reach(self, revision: int) -> None:
        """Wait for `revision`. Raise a 504 error after some seconds."""
        waited = 0.0
        while self._store.revision < revision:
            if waited >= _FUTURE_SECONDS:
                raise status.too_large_resource_version(revision, self._store.revision)
            await asyncio.sleep(_POLL_SECONDS)
            waited += _POLL_SECONDS

    def _next_page(self, context: Context, resource: Resource, chosen: Selection, limit: int, token: str) -> Answer:
        if context.query.text("resourceVersion") not in {"", "0"}:
            raise status.bad_request("specifying resource version is not allowed when using continue")
        revision, after = _decode_token(token)
        if revision < 0:
            revision = self._store.revision
        try:
            return self._page(context, resource, chosen, limit, revision=revision, after=after)
        except Compacted:
            raise status.expired(_EXPIRED_PAGE, continue_token=_encode_token(-1, after)) from None

    def _page(self, context: Context, resource: Resource, chosen: Selection, limit: int, *, revision: int, after: str) -> Answer:
        collection = resource.collection
        namespace = context.info.namespace
        continues = bool(context.query.text("continue"))
        try:
            snapshot = collection.at(revision, namespace)
        except Compacted:
            if continues:
                raise
            raise status.expired("The resourceVersion for the provided list is too old.") from None
        if after:
            snapshot = [item for item in snapshot if item.key > after]
        metadata: dict[str, Any] = {"continue": ""} if resource.is_custom else {}
        metadata["resourceVersion"] = str(revision)
        page, left = _first(snapshot, chosen, limit)
        if left:
            metadata["continue"] = _encode_token(revision, page[-1].key)
            if not chosen.is_selective:
                metadata["remainingItemCount"] = left
        return list_answer(context, resource, page, metadata)


def place_of(query: Query) -> tuple[int, str]:
    """Return the revision of a list (0 for any), and the key after which the list continues."""
    if token := query.text("continue"):
        return _decode_token(token)
    return _list_revision(query.text("resourceVersion")), ""


def _list_revision(text: str) -> int:
    try:
        return revision_of(text)
    except ValueError as error:
        raise status.bad_request(f"invalid resource version: {error}") from None


def _first(items: Sequence[Stored], chosen: Selection, limit: int) -> tuple[list[Stored], int]:
    """Return the first `limit` selected items (all if it is not positive), and the number of all items after them."""
    if not chosen.is_selective:
        return (list(items[:limit]), max(0, len(items) - limit)) if limit > 0 else (list(items), 0)
    page: list[Stored] = []
    for position, item in enumerate(items, 1):
        if chosen(item):
            page.append(item)
            if len(page) == limit:
                return page, len(items) - position
    return page, 0


def check_list_options(query: Query, *, watch: bool = False) -> None:
    """Reject invalid list parameters and invalid combinations."""
    for name in ("limit", "timeoutSeconds"):
        query.number(name)
    faults = _watch_faults(query) if watch else _list_faults(query)
    if faults:
        raise status.invalid("meta.k8s.io", "ListOptions", "", faults)


def _watch_faults(query: Query) -> list[FieldError]:
    match, has_initial = query.text("resourceVersionMatch"), "sendInitialEvents" in query
    faults: list[FieldError] = []
    if has_initial and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        faults.append(forbidden("resourceVersionMatch", why))
    if match and not has_initial:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        faults.append(forbidden("resourceVersionMatch", why))
    if match and match != "NotOlderThan":
        faults.append(unsupported("resourceVersionMatch", match, ("NotOlderThan",)))
    if query.text("continue"):
        faults.append(forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"))
    return faults


def _list_faults(query: Query) -> list[FieldError]:
    match, version = query.text("resourceVersionMatch"), query.text("resourceVersion")
    faults: list[FieldError] = []
    if match:
        if not version:
            faults.append(
                forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided")
            )
        if query.text("continue"):
            faults.append(forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"))
        if match not in {"Exact", "NotOlderThan"}:
            faults.append(unsupported("resourceVersionMatch", match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and version == "0":
            faults.append(forbidden("resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if "sendInitialEvents" in query:
        faults.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return faults


def _encode_token(revision: int, key: str) -> str:
    content = orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": key + "\0"})
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decode_token(token: str) -> tuple[int, str]:
    try:
        content = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(content["rv"]), str(content["start"]).rstrip("\0")
    except (ValueError, TypeError, KeyError) as error:
        raise status.bad_request(f"invalid continue token: continue key is not valid: {error}") from None

"""Decodes the bytes of lists and watches into typed records, so that one invalid field or object affects nothing else. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from pyroclast.api.records.meta import Meta, Record, Wire
from pyroclast.api.records.reading import TOO_DEEP, UNREADABLE, reader
from pyroclast.api.types import Key
from pyroclast.kube.basics.errors import ApiError, ConnectionFailed
from pyroclast.kube.http.paging import Page
from pyroclast.kube.watch.compact import Compactor
from pyroclast.kube.watch.scan import elements, members

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""The annotation of the bookmark at the end of a list that is sent as a watch."""

T = TypeVar("T", bound=Record)
R_co = TypeVar("R_co", bound=Record, covariant=True)
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Undecodable:
    """An object that cannot be read: its metadata, and the error."""

    metadata: Meta
    error: str

    @property
    def key(self) -> Key:
        """The namespace and name of the object."""
        return self.metadata.key


@dataclass(frozen=True, slots=True)
class Partial(Generic[R_co]):
    """An object of which some fields cannot be read: the record with the defaults of these fields, and the error."""

    record: R_co
    error: str

    @property
    def metadata(self) -> Meta:
        """The metadata of the object."""
        return self.record.metadata

    @property
    def key(self) -> Key:
        """The namespace and name of the object."""
        return self.metadata.key


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A watch event that only reports the present version of the server. `ends_list`: whether all existing objects have been
    sent.
    """

    resource_version: str
    ends_list: bool = False


class Change(Wire, Generic[A], frozen=True, kw_only=True):
    """A watch event for an object. `type` is ADDED, MODIFIED or DELETED."""

    type: str
    object: A


class _ListMeta(Wire, frozen=True, kw_only=True):
    resource_version: str = ""
    rest: str | None = msgspec.field(default=None, name="continue")


class _List(Wire, Generic[A], frozen=True, kw_only=True):
    metadata: _ListMeta = _ListMeta()
    items: list[A] | None = None


class _Bare(Wire, frozen=True, kw_only=True):
    metadata: Meta = Meta()


_ABOUT_OBJECTS: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})
_LIST_META: Final = msgspec.json.Decoder(_ListMeta)
_TEXT: Final = msgspec.json.Decoder(str)
_BARE: Final = msgspec.json.Decoder(_Bare)
_ANY: Final = msgspec.json.Decoder(dict[str, Any])


class Decoder(Generic[T]):
    """Decodes objects of one type of record.

    A list is decoded in one pass. Only when that fails, each object is read separately, and then its fields. The records are
    reduced (`pyroclast.kube.watch.compact`), and refer to none of the bytes from which they were decoded.
    """

    def __init__(self, record: type[T]) -> None:
        self._reader = reader(record)
        self._change = msgspec.json.Decoder(Change[record])  # type: ignore[valid-type]
        self._list = msgspec.json.Decoder(_List[record])  # type: ignore[valid-type]
        self._compact: Callable[[Any], None] = Compactor(record)

    def page(self, body: bytes) -> Page[T | Partial[T] | Undecodable]:
        """Decode a page of a list. Raises ConnectionFailed: `body` is not a list."""
        try:
            whole = self._list.decode(body)
            items = whole.items or ()
            for item in items:
                self._compact(item)
        except UNREADABLE:  # an object that is just shallow enough to be decoded may be too deep for the compactor
            return self._page_by_object(body)
        return Page(items, whole.metadata.resource_version, whole.metadata.rest or "", len(body))

    def change(self, line: bytes) -> Change[T | Partial[T] | Undecodable] | Bookmark:
        """Decode a line of a watch.

        Raises ApiError: the server ended the watch with an ERROR event; ConnectionFailed: `line` is not a watch event.
        """
        try:
            change: Change[T | Partial[T] | Undecodable] = self._change.decode(line)
            if change.type in _ABOUT_OBJECTS:
                self._compact(change.object)
                return change
        except UNREADABLE:
            return self._change_by_part(line)
        return self._change_by_part(line)

    def _page_by_object(self, body: bytes) -> Page[T | Partial[T] | Undecodable]:
        try:
            parts = dict(members(body))
            meta = _LIST_META.decode(parts.get("metadata", b"{}"))
            items = parts.get("items", b"null")
            found = [self._one(item) for item in elements(items)] if items != b"null" else []
        except (ValueError, *UNREADABLE) as error:
            raise ConnectionFailed(f"not a list: {error}") from error
        return Page(found, meta.resource_version, meta.rest or "", len(body))

    def _change_by_part(self, line: bytes) -> Change[T | Partial[T] | Undecodable] | Bookmark:
        try:
            parts = dict(members(line))
            type_, raw = _TEXT.decode(parts["type"]), parts["object"]
            match type_:
                case "ADDED" | "MODIFIED" | "DELETED":
                    return Change(type=type_, object=self._one(raw))
                case "BOOKMARK":
                    meta = _meta(raw)
                    return Bookmark(meta.resource_version, meta.annotations.get(INITIAL_EVENTS_END) == "true")
                case "ERROR":
                    status = _ANY.decode(raw)
                    code = status.get("code")  # another than that of an HTTP error counts as an error of the server
                    code = code if isinstance(code, int) and 400 <= code < 600 else 500
                    raise ApiError.from_status(code, status, verb="watch")
        except (KeyError, ValueError, *UNREADABLE) as error:
            raise ConnectionFailed(f"not a watch event: {error!r}") from error
        raise ConnectionFailed(f'a watch event of the unknown type "{type_}"')

    def _one(self, raw: bytes) -> T | Partial[T] | Undecodable:
        try:
            record, faults = self._reader.read(raw)
            self._compact(record)
        except RecursionError:
            return Undecodable(_meta(raw), TOO_DEEP)
        except UNREADABLE as error:
            return Undecodable(_meta(raw), str(error))
        return Partial(record, faults) if faults else record


def _meta(raw: bytes) -> Meta:
    """Return the metadata of an object that cannot be decoded. If the metadata is invalid too, return only the names in it.

    Raises ValueError: `raw` is not JSON.
    """
    try:
        return _BARE.decode(raw).metadata
    except UNREADABLE:
        text = dict.fromkeys(_NAMES, "")
        for name, value in members(raw):
            if name == "metadata" and value.startswith(b"{"):
                for wire, part in members(value):
                    if wire in text and part.startswith(b'"'):
                        text[wire] = part[1:-1].decode("utf-8", "replace")
                break  # the remaining text may be long
        return Meta(name=text["name"], namespace=text["namespace"], uid=text["uid"], resource_version=text["resourceVersion"])


_NAMES: Final = ("name", "namespace", "uid", "resourceVersion")

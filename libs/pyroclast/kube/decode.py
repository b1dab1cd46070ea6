"""From the bytes of lists and watches to typed records, one object's faults kept from the others. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from pyroclast.api.records.meta import Meta, Record, Wire
from pyroclast.api.types import Key
from pyroclast.kube.errors import ApiError, ConnectionFailed
from pyroclast.kube.paging import Page

__all__ = ["Bookmark", "Change", "Decoder", "Undecodable"]

T = TypeVar("T", bound=Record)
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Undecodable:
    """An object that does not fit its record: whose it is and why."""

    metadata: Meta
    error: str

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.metadata.key


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A watch event that only tells how far the server's history is."""

    resource_version: str


class Change(Wire, Generic[A], frozen=True, kw_only=True):
    """A watch event about an object. `type` is ADDED, MODIFIED or DELETED."""

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
_RAW_CHANGE: Final = msgspec.json.Decoder(Change[msgspec.Raw])
_RAW_LIST: Final = msgspec.json.Decoder(_List[msgspec.Raw])
_BARE: Final = msgspec.json.Decoder(_Bare)
_ANY: Final = msgspec.json.Decoder(dict[str, Any])


class Decoder(Generic[T]):
    """Decodes for one type of record.

    All is decoded in one pass; only when that fails is it taken apart, to find the object at fault.
    """

    def __init__(self, record: type[T]) -> None:
        self._object = msgspec.json.Decoder(record)
        self._change = msgspec.json.Decoder(Change[record])  # type: ignore[valid-type]
        self._list = msgspec.json.Decoder(_List[record])  # type: ignore[valid-type]

    def page(self, body: bytes) -> Page[T | Undecodable]:
        """A page of a list."""
        try:
            whole = self._list.decode(body)
        except msgspec.ValidationError:
            return self._page_by_object(body)
        except msgspec.DecodeError as error:
            raise ConnectionFailed(f"the list is not JSON: {error}") from error
        return Page(whole.items or (), whole.metadata.resource_version, whole.metadata.rest or "")

    def change(self, line: bytes) -> Change[T | Undecodable] | Bookmark:
        """A line of a watch.

        Raises:
            ApiError: the server ended the watch with an ERROR event.
            ConnectionFailed: not a watch event.
        """
        try:
            change: Change[T | Undecodable] = self._change.decode(line)
        except msgspec.ValidationError:
            return self._change_by_part(line)
        except msgspec.DecodeError as error:
            raise ConnectionFailed(f"the watch event is not JSON: {error}") from error
        return change if change.type in _ABOUT_OBJECTS else self._change_by_part(line)

    def _page_by_object(self, body: bytes) -> Page[T | Undecodable]:
        try:
            whole = _RAW_LIST.decode(body)
        except msgspec.ValidationError as error:
            raise ConnectionFailed(f"not a list: {error}") from error
        items = [self._one(raw) for raw in whole.items or ()]
        return Page(items, whole.metadata.resource_version, whole.metadata.rest or "")

    def _change_by_part(self, line: bytes) -> Change[T | Undecodable] | Bookmark:
        try:
            change = _RAW_CHANGE.decode(line)
        except msgspec.ValidationError as error:
            raise ConnectionFailed(f"not a watch event: {error}") from error
        match change.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                return Change(type=change.type, object=self._one(change.object))
            case "BOOKMARK":
                return Bookmark(_meta(change.object).resource_version)
            case "ERROR":
                status = _ANY.decode(change.object)
                raise ApiError.from_status(int(status.get("code") or 500), status, verb="watch")
        raise ConnectionFailed(f'a watch event of the unknown type "{change.type}"')

    def _one(self, raw: msgspec.Raw) -> T | Undecodable:
        try:
            return self._object.decode(raw)
        except msgspec.ValidationError as error:
            return Undecodable(_meta(raw), str(error))


def _meta(raw: msgspec.Raw) -> Meta:
    """The metadata of an object whose rest may be at fault; if it is at fault itself, what names the object."""
    try:
        return _BARE.decode(raw).metadata
    except msgspec.ValidationError:
        metadata = _ANY.decode(raw).get("metadata")
        if not isinstance(metadata, dict):
            return Meta()
        text = {field: metadata[wire] for field, wire in _NAMES if isinstance(metadata.get(wire), str)}
        return Meta(**text)


_NAMES: Final = (("name", "name"), ("namespace", "namespace"), ("uid", "uid"), ("resource_version", "resourceVersion"))

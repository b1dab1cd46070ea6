"""Informers: a local copy of the objects of one kind, kept current by a list and a watch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.client import Client

__all__ = ["Informer"]


class _Meta(Protocol):
    @property
    def resource_version(self) -> str: ...

    @property
    def uid(self) -> str: ...


class _Record(Protocol):
    @property
    def key(self) -> Key: ...

    @property
    def metadata(self) -> _Meta: ...


T = TypeVar("T", bound=_Record)


class Informer(Generic[T]):
    """Typed records of one kind by key, with indexes."""

    def __init__(
        self,
        client: Client,
        kind: ResourceType,
        record: type[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        indexers: Mapping[str, Callable[[T], Iterable[str]]] | None = None,
    ) -> None:
        self.kind = kind

    def get(self, key: Key) -> T | None:
        """The object of that key."""
        raise NotImplementedError

    def values(self) -> Collection[T]:
        """All objects."""
        raise NotImplementedError

    def by_index(self, name: str, value: str) -> list[T]:
        """The objects for which indexer `name` gave `value`."""
        raise NotImplementedError

    def on_change(self, handler: Callable[[T | None, T | None], None]) -> None:
        """Call `handler(old, new)` for each add (old None), update and delete (new None), synchronously."""
        raise NotImplementedError

    @property
    def has_synced(self) -> bool:
        """Whether the first list is complete."""
        raise NotImplementedError

    async def synced(self) -> None:
        """Wait until the first list is complete."""
        raise NotImplementedError

    def stalled_for(self) -> float:
        """Seconds without any progress of list and watch, for liveness."""
        raise NotImplementedError

    async def run(self) -> None:
        """Keep the copy current, until cancelled."""
        raise NotImplementedError

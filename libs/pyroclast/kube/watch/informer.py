"""Informers: a local copy of the objects of one kind, kept up to date by a list and a watch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, Generic, TypeVar

import structlog

from pyroclast.api.records.meta import Record
from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.basics.errors import ApiError, ConnectionFailed, Expired
from pyroclast.kube.basics.time_slices import Turn
from pyroclast.kube.http.client import Client, selectors
from pyroclast.kube.watch.decode import Bookmark, Decoder, Partial, Undecodable
from pyroclast.kube.watch.follower import Follower, Reader, Timing
from pyroclast.kube.watch.listing import Listing
from pyroclast.kube.watch.store import Handler, Indexer, Store

log = structlog.get_logger()

T = TypeVar("T", bound=Record)

FaultHandler = Callable[[Partial[Record] | Undecodable], None]

SAMPLE: Final = 10
"""The most deleted objects that one log line names."""


class Informer(Reader, Generic[T]):
    """Typed records of one kind by key, with indexes.

    Reading from an informer costs no request. A field that cannot be read has its default; an object without an essential field
    is left out. Both are logged once per error, and counted. `run` must be running, as a supervised task. `indexers`: for each
    name, a pure function from a record to the values under which `by_index` finds the record.
    """

    def __init__(
        self,
        client: Client,
        kind: ResourceType,
        record: type[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        indexers: Mapping[str, Indexer[T]] | None = None,
        timing: Timing | None = None,
    ) -> None:
        self.kind = kind
        self._client = client
        self._selectors = selectors(label_selector, field_selector)
        self._decoder = Decoder(record)
        self._timing = timing or Timing()
        self._listing = Listing(client, kind, namespace, self._selectors, self._decoder, patience=self._timing.list_timeout)
        self._store: Store[T] = Store(indexers or {}, on_error=lambda: self._incident("handler_error"))
        self.get, self.values, self.by_index = self._store.get, self._store.values, self._store.by_index
        self._fault_handlers: list[FaultHandler] = []
        self._synced = asyncio.Event()
        # `version`: up to there the copy is complete
        self._follower = Follower(client, kind, self, namespace=namespace, selectors=self._selectors, timing=self._timing)
        self.stalled_for, self.unheard_for = self._follower.stalled_for, self._follower.unheard_for
        self._number = -1  # the version as a number; -1 when the server's versions are not numbers
        self._newest: Key | None = None  # the object that was written at the version, if the copy has it
        # outages of the server until its history was last checked: the server may be restored from a backup in an outage
        self._outages = 0
        self._faults: dict[Key, str] = {}
        self._refusal = ""

    def __len__(self) -> int:
        return len(self._store)

    def on_change(self, handler: Handler[T]) -> None:
        """Call `handler(old, new)` for each add (old None), update and delete (new None), also for changes that a relist finds.

        The informer calls the handler synchronously, in the order of the server's history, and at once for all existing objects.
        A handler should only note keys.
        """
        self._store.on_change(handler)

    def on_fault(self, handler: FaultHandler) -> None:
        """Call `handler` for each object that cannot be read as a whole, once per error."""
        self._fault_handlers.append(handler)

    @property
    def has_synced(self) -> bool:
        """Whether the first list is complete."""
        return self._synced.is_set()

    async def synced(self) -> None:
        """Wait until the first list is complete."""
        await self._synced.wait()

    @property
    def undecodable(self) -> Mapping[Key, str]:
        """The objects that cannot be read as a whole, with the error of each."""
        return self._faults

    async def run(self) -> None:
        """Keep the local copy of the objects up to date, until cancelled."""
        await self._follower.run()

    async def prepare(self) -> None:
        """Check the history also after an outage of the server that other connections have noticed."""
        self._follower.is_doubtful = self._follower.is_doubtful or self._client.outages != self._outages

    async def read_list(self) -> None:
        """Replace the copy by the list part by part, so that the list is never in memory as a whole."""
        refill = self._store.refill()
        faults: dict[Key, Partial[T] | Undecodable] = {}
        turn = Turn()
        outages = self._client.outages
        async with aclosing(self._listing.parts()) as parts:
            async for part in parts:
                if part.begins:
                    refill.restart()
                    faults.clear()
                await turn.next()  # other informers list too, at the start all at the same time
                for item in part.items:
                    if isinstance(item, Undecodable | Partial):
                        faults[item.key] = item
                    if not isinstance(item, Undecodable):
                        refill.take(item.record if isinstance(item, Partial) else item)
                    if turn.is_over:
                        await turn.next()
                self._follower.expect_within(self._timing.list_timeout)
        for _ in refill.finish():
            if turn.is_over:
                await turn.next()
        for key in self._faults.keys() - faults.keys():
            del self._faults[key]
        for fault in faults.values():
            self._report(fault)
        self._note(self._listing.version, None)
        if outages != self._outages and refill.dropped:
            sample = [str(key) for key in refill.dropped[:SAMPLE]]
            log.warning("informer.objects_gone", kind=self.kind.kind, count=len(refill.dropped), some=sample)
        self._outages = outages
        self._synced.set()

    async def take(self, lines: list[bytes]) -> None:
        """Update the copy by lines of the watch."""
        turn = Turn()
        for line in lines:
            self._take(line)
            if turn.is_over:
                await turn.next()
        self._client.observer.events(self.kind.qualified, len(lines))

    async def expired(self) -> None:
        """Count the list that follows."""
        self._incident("relist")

    def failed(self, error: Exception) -> None:
        """Count the failure; a refusal is logged once per reason."""
        match error:
            case ApiError():
                self._incident("refused")
                if str(error) != self._refusal:
                    self._refusal = str(error)
                    log.warning("informer.refused", kind=self.kind.kind, error=self._refusal)
            case TimeoutError():
                self._incident("stall")
            case ConnectionFailed():
                self._incident("reconnect")
            case _:
                raise error

    def accepted(self) -> None:
        """Log that the server no longer refuses."""
        if self._refusal:
            self._refusal = ""
            log.info("informer.resumed", kind=self.kind.kind)

    def _take(self, line: bytes) -> None:
        change = self._decoder.change(line)
        if isinstance(change, Bookmark):
            self._bookmark(change.resource_version)
            return
        item = change.object
        if not self._advance(item.metadata.resource_version, None if change.type == "DELETED" else item.key):
            return
        if isinstance(item, Undecodable):
            self._store.drop(item.key)
        elif change.type == "DELETED":
            self._store.drop(item.key, item.record if isinstance(item, Partial) else item)
        else:
            self._store.put(item.record if isinstance(item, Partial) else item)
        if change.type != "DELETED" and isinstance(item, Undecodable | Partial):
            self._report(item)
        elif self._faults:
            self._faults.pop(item.key, None)

    def _advance(self, version: str, key: Key | None) -> bool:
        """Advance to `version`, at which `key` was written; return False for a version that is not newer than the present one."""
        number = _number(version)
        if 0 <= number <= self._number:
            self._incident("stale")
            return False
        if version:
            self._note(version, key)
        return True

    def _bookmark(self, version: str) -> None:
        number = _number(version)
        if 0 <= number < self._number:
            raise Expired(410, "Expired", f"the server's history went back from {self._follower.version} to {version}")
        if version and version != self._follower.version:
            self._note(version, None)

    def _note(self, version: str, newest: Key | None) -> None:
        self._follower.version, self._number, self._newest = version, _number(version), newest

    async def is_continued(self) -> bool:
        """Whether the server still has the versions up to that of the copy: it was not restored or replaced."""
        page = await self._listing.page({"limit": "1", **self._only_newest()})
        outages = self._client.outages
        went_back = 0 <= _number(page.resource_version) < self._number
        if went_back or (outages != self._outages and not self._is_known(page.items)):
            self._incident("relist")
            return False
        self._outages = outages
        return True

    def _only_newest(self) -> dict[str, str]:
        """Return the field selector of the object that was written at the last version. Reading the object this way only needs
        the right to list.
        """
        if self._newest is None:
            return {}
        own = {"metadata.namespace": self._newest.namespace, "metadata.name": self._newest.name}
        fields = [self._selectors.get("fieldSelector", ""), *(f"{name}={value}" for name, value in own.items() if value)]
        return {"fieldSelector": ",".join(filter(None, fields))}

    def _is_known(self, items: Sequence[T | Partial[T] | Undecodable]) -> bool:
        """Whether the server certainly has the same history: it has, unchanged, the object that was written at the last version.

        Otherwise the list is read anew: that object may have changed since, or the last version may be a deletion.
        """
        return self._newest is not None and any(item.metadata.resource_version == self._follower.version for item in items)

    def _report(self, fault: Partial[T] | Undecodable) -> None:
        if self._faults.get(fault.key) != fault.error:
            self._faults[fault.key] = fault.error
            self._incident("undecodable")
            event = "informer.undecodable" if isinstance(fault, Undecodable) else "informer.fields_undecodable"
            log.error(event, kind=self.kind.kind, key=str(fault.key), error=fault.error)
            for handler in self._fault_handlers:
                handler(fault)

    def _incident(self, what: str) -> None:
        self._client.observer.incident(self.kind.qualified, what)


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else -1

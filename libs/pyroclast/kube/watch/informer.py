"""Informers: a local copy of the objects of one kind, kept current by a list and a watch."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import structlog

from pyroclast.api.records.meta import Meta, Record
from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.basics.backoff import Backoff
from pyroclast.kube.basics.errors import ApiError, ConnectionFailed, Expired, KubeError
from pyroclast.kube.basics.time_slices import Turn
from pyroclast.kube.http.client import Client, selectors
from pyroclast.kube.watch.decode import Bookmark, Decoder, Undecodable
from pyroclast.kube.watch.listing import Listing
from pyroclast.kube.watch.store import Handler, Indexer, Store

__all__ = ["Informer", "Timing"]

log = structlog.get_logger()

T = TypeVar("T", bound=Record)

FaultHandler = Callable[[Meta, str], None]

SAMPLE: Final = 10
"""Objects that are named in the log where some are gone."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long an informer waits for what, in seconds.

    Attributes:
        watch: the server is asked to end each watch after a random time between these, so that a dead one is noticed.
        slack: how much later than that the watch is given up from our side.
        list_timeout: how long a part of the list may take, attempts and all.
        settled: a watch that ended sooner counts as a failure, whatever it brought.
        first_pause: before trying again after a failure; doubles up to `longest_pause`.
        longest_pause: see there.
    """

    watch: tuple[float, float] = (120.0, 240.0)
    slack: float = 15.0
    list_timeout: float = 30.0
    settled: float = 5.0
    first_pause: float = 0.2
    longest_pause: float = 30.0


class Informer(Generic[T]):
    """Typed records of one kind by key, with indexes.

    Reading it costs no request. An object that does not decode is left out, said in the log once per fault, and counted; it never
    stops the others. `run` must be running, as a supervised task, for the copy to follow the server.

    Args:
        client: the API server.
        kind: what to list and watch.
        record: the type the objects are decoded into.
        namespace: only this one; empty for all.
        label_selector: only objects with these labels.
        field_selector: only objects with these fields.
        indexers: for each name, a pure function from a record to the values under which `by_index` finds it.
        timing: for tests.
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
        self._namespace = namespace
        self._selectors = selectors(label_selector, field_selector)
        self._decoder = Decoder(record)
        self._timing = timing or Timing()
        self._listing = Listing(client, kind, namespace, self._selectors, self._decoder, patience=self._timing.list_timeout)
        self._store: Store[T] = Store(indexers or {}, on_error=lambda: self._incident("handler_error"))
        self._fault_handlers: list[FaultHandler] = []
        self._synced = asyncio.Event()
        self._version = ""  # where in the server's history we are; empty: the list must be read (anew)
        self._number = -1  # the same as a number, for servers that count
        self._newest: Key | None = None  # the object that was written at `_version`, if it is one that we hold
        self._doubtful = False  # the connection was lost: does the server still know what we know?
        self._outages = 0  # of the server until we last knew its history: in one of them it may be restored from a backup
        self._faults: dict[Key, str] = {}
        self._refusal = ""
        self._overdue_at: float | None = None
        self._unheard_since: float | None = None

    def __len__(self) -> int:
        return len(self._store)

    def get(self, key: Key) -> T | None:
        """The object of that key."""
        return self._store.get(key)

    def values(self) -> Collection[T]:
        """All objects; a live view."""
        return self._store.values()

    def by_index(self, name: str, value: str) -> list[T]:
        """The objects for which indexer `name` gave `value`."""
        return self._store.by_index(name, value)

    def on_change(self, handler: Handler[T]) -> None:
        """Call `handler(old, new)` for each add (old None), update and delete (new None), also those that a relist finds.

        Called synchronously, in the order of the server's history; at once for what is here already. It should only note keys.
        """
        self._store.on_change(handler)

    def on_fault(self, handler: FaultHandler) -> None:
        """Call `handler(metadata, why)` for each object that cannot be decoded, once per fault."""
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
        """The objects that are left out, and why."""
        return self._faults

    def stalled_for(self) -> float:
        """Seconds for which progress of list and watch has been overdue; the silence of an idle watch is not a stall."""
        if self._overdue_at is None:
            return 0.0
        return max(0.0, asyncio.get_running_loop().time() - self._overdue_at)

    def unheard_for(self) -> float:
        """Seconds since the server stopped answering or began to refuse: how old the copy may be. 0 while it is followed."""
        if self._unheard_since is None:
            return 0.0
        return asyncio.get_running_loop().time() - self._unheard_since

    async def run(self) -> None:
        """Keep the copy current, until cancelled."""
        backoff = Backoff(self._timing.first_pause, self._timing.longest_pause)
        try:
            while True:
                pause = await self._follow(backoff)
                self._expect_within(pause)
                await asyncio.sleep(pause)
        finally:
            self._overdue_at = None

    async def _follow(self, backoff: Backoff) -> float:
        """One list (if needed) and one watch; seconds to wait before the next."""
        try:
            if self._doubtful or (self._version and self._client.outages != self._outages):
                await self._check_history()
            if not self._version:
                await self._list()
                self._accepted()
            return 0.0 if await self._watch(backoff) else backoff.next()
        except Expired:
            self._incident("relist")
            self._version = ""
        except ApiError as error:
            self._unheard()
            self._refused(error)
            return max(backoff.next(), min(error.retry_after or 0.0, self._timing.longest_pause))
        except (ConnectionFailed, TimeoutError) as error:
            self._unheard()
            self._incident("stall" if isinstance(error, TimeoutError) else "reconnect")
            self._doubtful = bool(self._version)
        return backoff.next()

    async def _list(self) -> None:
        """Become what the list says, as it comes in: it is never in memory as a whole."""
        refill = self._store.refill()
        faults: dict[Key, Undecodable] = {}
        turn = Turn()
        outages = self._client.outages
        self._expect_within(self._timing.list_timeout)
        async with aclosing(self._listing.parts()) as parts:
            async for part in parts:
                if part.begins:
                    refill.restart()
                    faults.clear()
                await turn.next()  # others list too, at the start all at once
                for item in part.items:
                    if isinstance(item, Undecodable):
                        faults[item.key] = item
                    else:
                        refill.take(item)
                    if turn.is_over:
                        await turn.next()
                self._expect_within(self._timing.list_timeout)
        for _ in refill.finish():
            if turn.is_over:
                await turn.next()
        for key in self._faults.keys() - faults.keys():
            del self._faults[key]
        for fault in faults.values():
            self._leave_out(fault)
        self._note(self._listing.version, None)
        if outages != self._outages and refill.dropped:
            sample = [str(key) for key in refill.dropped[:SAMPLE]]
            log.warning("informer.objects_gone", kind=self.kind.kind, count=len(refill.dropped), some=sample)
        self._doubtful, self._outages = False, outages
        self._synced.set()

    async def _watch(self, backoff: Backoff) -> bool:
        """Follow one watch to its end; whether it lived long enough to be of use."""
        seconds = random.uniform(*self._timing.watch)  # noqa: S311 - not a secret
        query = {
            **self._selectors,
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(math.ceil(seconds)),
        }
        loop = asyncio.get_running_loop()
        began = loop.time()
        limit = seconds + self._timing.slack
        turn = Turn()
        try:
            async with (
                asyncio.timeout(limit),
                aclosing(self._client.watch(self.kind, self._namespace, query, silence=limit)) as batches,
            ):
                self._expect_within(limit)
                async for lines in batches:
                    if not lines:
                        self._accepted()
                    turn.begin()
                    for line in lines:
                        self._take(line)
                        if turn.is_over:
                            await turn.next()
                    self._client.observer.events(self.kind.qualified, len(lines))
        finally:
            settled = loop.time() - began >= self._timing.settled
            if settled:
                backoff.reset()
        return settled

    def _take(self, line: bytes) -> None:
        change = self._decoder.change(line)
        if isinstance(change, Bookmark):
            self._bookmark(change.resource_version)
            return
        record = change.object
        if not self._advance(record.metadata.resource_version, None if change.type == "DELETED" else record.key):
            return
        if isinstance(record, Undecodable):
            self._store.drop(record.key)
            if change.type == "DELETED":
                self._faults.pop(record.key, None)
            else:
                self._leave_out(record)
            return
        if self._faults:
            self._faults.pop(record.key, None)
        if change.type == "DELETED":
            self._store.drop(record.key, record)
        else:
            self._store.put(record)

    def _advance(self, version: str, key: Key | None) -> bool:
        """Move on to `version`, at which `key` was written; False for what we have seen already, or something older."""
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
            raise Expired(410, "Expired", f"the server's history went back from {self._version} to {version}")
        if version and version != self._version:
            self._note(version, None)

    def _note(self, version: str, newest: Key | None) -> None:
        self._version, self._number, self._newest = version, _number(version), newest

    async def _check_history(self) -> None:
        """After a lost connection: if the server lost its latest history too (restored, replaced), start from a list.

        A watch from a version that the server has not reached would stay silent for ever. One that it has reached anew, since it
        was away, would leave out what is different before it.
        """
        self._expect_within(self._timing.list_timeout)
        page = await self._listing.page({"limit": "1", **self._only_newest()})
        outages = self._client.outages
        went_back = 0 <= _number(page.resource_version) < self._number
        if went_back or (outages != self._outages and not self._is_known(page.items)):
            self._incident("relist")
            self._version = ""
            return
        self._doubtful, self._outages = False, outages

    def _only_newest(self) -> dict[str, str]:
        """The field selector of the object with which our history ends; a right to list is all that it takes."""
        if self._newest is None:
            return {}
        own = {"metadata.namespace": self._newest.namespace, "metadata.name": self._newest.name}
        fields = [self._selectors.get("fieldSelector", ""), *(f"{name}={value}" for name, value in own.items() if value)]
        return {"fieldSelector": ",".join(filter(None, fields))}

    def _is_known(self, items: Sequence[T | Undecodable]) -> bool:
        """Whether the server certainly has our history: it holds, unchanged, the object with which that ends.

        A list is read where that cannot be told, as the object has changed since, or the history ends with a deletion.
        """
        return self._newest is not None and any(item.metadata.resource_version == self._version for item in items)

    def _leave_out(self, fault: Undecodable) -> None:
        if self._faults.get(fault.key) != fault.error:
            self._faults[fault.key] = fault.error
            self._incident("undecodable")
            log.error("informer.undecodable", kind=self.kind.kind, key=str(fault.key), error=fault.error)
            for handler in self._fault_handlers:
                handler(fault.metadata, fault.error)

    def _refused(self, error: KubeError) -> None:
        """Say why nothing comes, once per reason."""
        self._incident("refused")
        if str(error) != self._refusal:
            self._refusal = str(error)
            log.warning("informer.refused", kind=self.kind.kind, error=self._refusal)

    def _unheard(self) -> None:
        if self._unheard_since is None:
            self._unheard_since = asyncio.get_running_loop().time()

    def _accepted(self) -> None:
        self._unheard_since = None
        if self._refusal:
            self._refusal = ""
            log.info("informer.resumed", kind=self.kind.kind)

    def _incident(self, what: str) -> None:
        self._client.observer.incident(self.kind.qualified, what)

    def _expect_within(self, seconds: float) -> None:
        self._overdue_at = asyncio.get_running_loop().time() + seconds


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else -1

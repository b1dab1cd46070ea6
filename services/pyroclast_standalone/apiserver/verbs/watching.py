"""Watches: the changes of a collection as chunks of lines.

An object becomes JSON once, when it is committed. A watcher copies these bytes into its chunk, and all pending changes are sent
in one chunk.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import orjson

from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.requests.context import Context, Form
from pyroclast_standalone.apiserver.requests.present import partial, row, served
from pyroclast_standalone.apiserver.storage.registry import Resource
from pyroclast_standalone.apiserver.storage.store import ADDED, DELETED, MODIFIED, Change, Compacted, Store, Stored, Subscription
from pyroclast_standalone.apiserver.verbs.listing import check_list_options, revision_of, selection

_BOOKMARK_SECONDS: Final = 60.0
_LAST_BOOKMARKS: Final = (2.0, 1.0)  # seconds before the end of the watch
_DEFAULT_TIMEOUT: Final = 1800.0
_QUEUE_LIMIT: Final = 10_000  # changes that a slow reader may have pending before it must list again
_CHUNK: Final = 100  # events per chunk: 400 kB of pods, so that many slow readers need little memory
_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class Watches:
    """Opens watches of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def open(self, context: Context, resource: Resource) -> AsyncIterator[bytes]:
        """Return chunks of whole lines until the watch ends. Faults of the request are raised before the first chunk."""
        query = context.query
        check_list_options(query, watch=True)
        chosen = selection(query, resource, context.info.namespace, context.info.name)
        try:
            revision = revision_of(query.text("resourceVersion"))
        except ValueError as error:
            raise status.unreasoned(500, str(error)) from None
        seconds = query.number("timeoutSeconds") or 0
        timeout = float(seconds) if seconds > 0 else _DEFAULT_TIMEOUT * (1 + random.random())  # noqa: S311 - spreads reconnects
        return self._lines(context, resource, chosen.filter(), revision, time.monotonic() + timeout)

    async def _lines(
        self, context: Context, resource: Resource, selects: Callable[[Stored], bool] | None, revision: int, ends: float
    ) -> AsyncIterator[bytes]:
        query = context.query
        bookmarks = query.flag("allowWatchBookmarks")
        initial = query.flag("sendInitialEvents") if "sendInitialEvents" in query else not revision
        form = _Form(context, resource)
        store = self._store
        start = store.revision
        try:
            subscription = resource.collection.subscribe(
                start if initial or not revision else revision, start, selects, _QUEUE_LIMIT
            )
        except Compacted as compacted:
            error = status.expired(f"too old resource version: {revision} ({compacted.oldest})")
            yield orjson.dumps({"type": "ERROR", "object": error.body()}) + b"\n"
            return
        told = start if initial or not revision else revision
        try:
            if initial:
                present = [
                    item for item in resource.collection.select(context.info.namespace) if selects is None or selects(item)
                ]
                for first in range(0, len(present), _CHUNK):
                    yield b"".join(form.line(ADDED, item) for item in present[first : first + _CHUNK])
                if bookmarks:
                    yield form.bookmark(start, initial_events_end=True)
            async for chunk in self._live(subscription, form, selects, told, ends, bookmarks=bookmarks):
                yield chunk
        finally:
            resource.collection.subscriptions.discard(subscription)
            subscription.close()

    async def _live(
        self,
        subscription: Subscription,
        form: _Form,
        selects: Callable[[Stored], bool] | None,
        told: int,
        ends: float,
        *,
        bookmarks: bool,
    ) -> AsyncIterator[bytes]:
        store = self._store
        begun = time.monotonic()
        marks = [ends - before for before in _LAST_BOOKMARKS if ends - before > begun]
        next_mark = min([begun + _BOOKMARK_SECONDS, *marks]) if bookmarks else ends
        while True:
            now = time.monotonic()
            if now >= ends or subscription.closed:
                return
            if now >= next_mark:
                marks = [mark for mark in marks if mark > now]
                next_mark = min([now + _BOOKMARK_SECONDS, *marks])
                if store.published > told and not subscription.pending:
                    told = store.published
                    yield form.bookmark(told)
            if subscription.overrun:
                return  # the client connects again, and learns then whether its revision is too old
            await subscription.wait(now, min(ends, next_mark))
            pending = subscription.pending
            while pending:
                count = min(len(pending), _CHUNK)
                changes = [pending.popleft() for _ in range(count)]
                told = changes[-1].revision
                yield b"".join([form.change(change, selects) for change in changes])


class _Form:
    """The form of a watcher's events: JSON in the stored version, or converted for the watcher."""

    def __init__(self, context: Context, resource: Resource) -> None:
        self._context = context
        self._resource = resource
        self._form = context.wanted.form
        self._is_plain = self._form is Form.OBJECT and resource.from_stored is None
        self._has_columns = False

    def line(self, kind: str, item: Stored) -> bytes:
        """Return the line of the watch for `item`, with the event type `kind`."""
        if self._is_plain:
            return _line(kind, item.data)
        body = served(self._resource, item)
        if self._form is Form.TABLE:
            body = row(self._context, self._resource, body, definitions=not self._has_columns)
            self._has_columns = True
        elif self._form is not Form.OBJECT:
            body = partial(body, self._context.wanted.version)
        return _line(kind, orjson.dumps(body))

    def change(self, change: Change, selects: Callable[[Stored], bool] | None) -> bytes:
        """Return the line for a change, which a selector may turn into an addition or deletion; empty without a match."""
        kind = change.kind
        if selects is not None:
            is_in = kind is not DELETED and selects(change.current)
            was_in = change.previous is not None and selects(change.previous)
            if not is_in and not was_in:
                return b""
            if is_in:
                kind = MODIFIED if was_in else ADDED
            elif kind is not DELETED:
                return self.line(DELETED, _departed(change))
        return self.line(kind, change.current)

    def bookmark(self, revision: int, *, initial_events_end: bool = False) -> bytes:
        """Return the line of the watch for a bookmark at `revision`."""
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        if initial_events_end:
            metadata["annotations"] = {_INITIAL_EVENTS_END: "true"}
        resource = self._resource
        body: dict[str, Any] = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        if self._form is Form.TABLE:
            blank = {**body, "metadata": {**metadata, "name": "", "creationTimestamp": None}}
            body = row(self._context, resource, blank, definitions=False)
            if body["rows"] and "object" in body["rows"][0]:
                body["rows"][0]["object"]["metadata"] = metadata
        elif self._form is not Form.OBJECT:
            body = partial(body, self._context.wanted.version)
        return _line("BOOKMARK", orjson.dumps(body))


def _line(kind: str, data: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), data)


def _departed(change: Change) -> Stored:
    """Return the last matching state, with the revision at which it no longer matched."""
    previous = change.previous
    if previous is None:
        return change.current
    body = previous.load()
    body["metadata"]["resourceVersion"] = str(change.revision)
    return Stored(
        previous.key,
        change.revision,
        orjson.dumps(body),
        uid=previous.uid,
        labels=previous.labels,
        fields=previous.fields,
        owners=previous.owners,
        deleting=previous.deleting,
    )

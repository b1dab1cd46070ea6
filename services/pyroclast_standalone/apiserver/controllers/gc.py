"""The garbage collector: deletes or orphans dependents according to the propagation policy of their owner's deletion.

References point from dependents to owners, and a deletion needs the other direction. A search through the store for each
deletion would cost as much as all objects. So an index of dependents by the UID of their owner follows every commit, and a
worker judges one object at a time, from the store as it is then. While the kind of an owner is unknown, the owner counts as
present: a late deletion is made up for, and a wrong one is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyroclast_standalone.apiserver.access.internal import GARBAGE_COLLECTOR, KeyedWorker, request
from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.storage import objectmeta
from pyroclast_standalone.apiserver.storage.registry import Registry, Resource
from pyroclast_standalone.apiserver.storage.store import DELETED, Change, Collection, Store, Stored
from pyroclast_standalone.apiserver.verbs.deleting import FOREGROUND, ORPHAN, DeleteOptions, Deleter
from pyroclast_standalone.apiserver.verbs.write import Writer

_Item = tuple[str, str]  # collection and key


class GarbageCollector:
    """Follows the owner references in the whole store."""

    def __init__(self, store: Store, registry: Registry, writer: Writer, now: Callable[[], float]) -> None:
        self._store = store
        self._registry = registry
        self._writer = writer
        self._deleter = Deleter(writer)
        self._now = now
        self._dependents: dict[str, set[_Item]] = {}  # by UID of the owner
        self._present: dict[str, _Item] = {}  # by UID
        self.worker: KeyedWorker[_Item] = KeyedWorker("gc", self._work)
        store.listeners.append(self.on_change)

    def start(self) -> None:
        """Index the stored objects, and enqueue all that have owners."""
        for collection in self._store.collections():
            for stored in collection.select():
                self._index((collection.name, stored.key), None, stored)
        for items in list(self._dependents.values()):
            for item in items:
                self.worker.add(item)
        for collection in self._store.collections():
            for stored in collection.select():
                if stored.deleting:
                    self.worker.add((collection.name, stored.key))

    def on_change(self, collection: Collection, change: Change) -> None:
        """Update the graph of owners after a committed change of an object."""
        item = (collection.name, change.current.key)
        current = None if change.kind is DELETED else change.current
        self._index(item, change.previous, current)
        if current is None:
            for dependent in self._dependents.get(change.current.uid, ()):
                self.worker.add(dependent)
            for owner in change.current.owners:
                if owner in self._present:
                    self.worker.add(self._present[owner])
        elif current.deleting or (current.owners and (change.previous is None or change.previous.owners != current.owners)):
            self.worker.add(item)

    def _index(self, item: _Item, previous: Stored | None, current: Stored | None) -> None:
        if previous is not None:
            for owner in previous.owners:
                known = self._dependents.get(owner)
                if known is not None:
                    known.discard(item)
                    if not known:
                        del self._dependents[owner]
            if current is None or current.uid != previous.uid:
                self._present.pop(previous.uid, None)
        if current is not None:
            self._present[current.uid] = item
            for owner in current.owners:
                self._dependents.setdefault(owner, set()).add(item)

    async def _work(self, item: _Item) -> None:
        stored = self._stored(item)
        if stored is None:
            return
        resource = self._registry.over(item[0])
        if resource is None:
            return
        if stored.deleting:
            finalizers = stored.load()["metadata"].get("finalizers") or []
            if ORPHAN in finalizers:
                await self._orphan(resource, stored)
            elif FOREGROUND in finalizers:
                await self._delete_dependents_first(resource, stored)
            return
        if stored.owners:
            await self._judge(resource, stored)

    # --- an owner that is being deleted -------------------------------------------------------------------------

    async def _orphan(self, resource: Resource, stored: Stored) -> None:
        for item in sorted(self._dependents.get(stored.uid, ())):
            dependent, of = self._stored(item), self._registry.over(item[0])
            if dependent is not None and of is not None:
                await self._change(of, dependent, lambda body: _without_owners(body, {stored.uid}))
        await self._change(resource, stored, lambda body: _without_finalizer(body, ORPHAN))

    async def _delete_dependents_first(self, resource: Resource, stored: Stored) -> None:
        blocking = [
            (item, dependent)
            for item in sorted(self._dependents.get(stored.uid, ()))
            if (dependent := self._stored(item)) is not None and _blocks(dependent.load(), stored.uid)
        ]
        for item, dependent in blocking:
            if not dependent.deleting:
                self.worker.add(item)
        if not blocking:
            await self._change(resource, stored, lambda body: _without_finalizer(body, FOREGROUND))

    # --- a dependent --------------------------------------------------------------------------------------------

    async def _judge(self, resource: Resource, stored: Stored) -> None:
        """Delete a dependent when all its owners are gone. Otherwise remove the references to deleted owners."""
        references = stored.load()["metadata"].get("ownerReferences") or []
        present, gone, waiting = 0, set(), set()
        for reference in references:
            match self._state(reference, resource, stored):
                case "gone":
                    gone.add(reference["uid"])
                case "waiting":
                    waiting.add(reference["uid"])
                case _:
                    present += 1
        if not gone and not waiting:
            return
        if present:
            await self._change(resource, stored, lambda body: _without_owners(body, gone | waiting))
            return
        finalizers = stored.load()["metadata"].get("finalizers") or []
        policy = "Background"
        if ORPHAN in finalizers:
            policy = "Orphan"
        elif FOREGROUND in finalizers or (waiting and self._dependents.get(stored.uid)):
            policy = "Foreground"
        await self._delete(resource, stored, policy)

    def _state(self, reference: dict[str, Any], resource: Resource, stored: Stored) -> str:
        """Return whether an owner is `present`, `gone`, or `waiting` for its dependents."""
        group, _, version = str(reference.get("apiVersion", "")).rpartition("/")
        owner_resource = self._registry.of_kind(group, version, str(reference.get("kind", "")))
        if owner_resource is None:
            return "present"  # nothing is deleted while the kind is unknown
        if owner_resource.namespaced and not resource.namespaced:
            return "present"
        item = self._present.get(reference.get("uid", ""))
        name = str(reference.get("name", ""))
        key = f"{stored.namespace}/{name}" if owner_resource.namespaced else name
        if item is None or item != (owner_resource.collection.name, key):
            return "gone"
        owner = self._stored(item)
        if owner is None:
            return "gone"
        if owner.deleting and FOREGROUND in (owner.load()["metadata"].get("finalizers") or ()):
            return "waiting"
        return "present"

    # --- writes -------------------------------------------------------------------------------------------------

    async def _delete(self, resource: Resource, stored: Stored, policy: str) -> None:
        context = request(GARBAGE_COLLECTOR, "delete", resource, stored.key, self._now())
        wire = {**_OPTIONS, "preconditions": {"uid": stored.uid}, "propagationPolicy": policy}
        options = DeleteOptions(policy=policy, uid=stored.uid, wire=wire)
        try:
            await self._deleter.delete_key(context, resource, stored.key, options)
        except status.StatusError as error:
            if error.code not in {404, 409}:
                raise

    async def _change(self, resource: Resource, stored: Stored, change: Callable[[dict[str, Any]], None]) -> None:
        context = request(GARBAGE_COLLECTOR, "patch", resource, stored.key, self._now())

        def changed(live: dict[str, Any] | None) -> dict[str, Any]:
            body: dict[str, Any] = {**(live or {}), "metadata": dict((live or {})["metadata"])}
            change(body)
            return body

        try:
            await self._writer.change(context, resource, stored.key, changed)
        except status.StatusError as error:
            if error.code != 404:
                raise

    def _stored(self, item: _Item) -> Stored | None:
        return self._store.collection(item[0]).items.get(item[1])


_OPTIONS: Final = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}


def _blocks(body: dict[str, Any], uid: str) -> bool:
    references = body["metadata"].get("ownerReferences") or ()
    return any(each.get("uid") == uid and each.get("blockOwnerDeletion") for each in references)


def _without_owners(body: dict[str, Any], uids: set[str]) -> None:
    kept = [each for each in body["metadata"].get("ownerReferences") or () if each.get("uid") not in uids]
    objectmeta.keep_items(body["metadata"], "ownerReferences", kept)


def _without_finalizer(body: dict[str, Any], finalizer: str) -> None:
    kept = [each for each in body["metadata"].get("finalizers") or () if each != finalizer]
    objectmeta.keep_items(body["metadata"], "finalizers", kept)

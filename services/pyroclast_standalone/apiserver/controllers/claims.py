"""The controller of PersistentVolumeClaims: binds claims to existing or new volumes, protects used ones, and releases volumes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyroclast_standalone import times
from pyroclast_standalone.apiserver.access.internal import KeyedWorker
from pyroclast_standalone.apiserver.controllers import volumes
from pyroclast_standalone.apiserver.controllers.events import EventTeller
from pyroclast_standalone.apiserver.kinds.storage import CLAIM_PROTECTION, VOLUME_PROTECTION
from pyroclast_standalone.apiserver.storage import objectmeta
from pyroclast_standalone.apiserver.storage.registry import Registry
from pyroclast_standalone.apiserver.storage.store import DELETED, Change, Collection, Store, Stored
from pyroclast_standalone.apiserver.verbs.deleting import release

_Item = tuple[str, str]  # collection and key
_WORD: Final = b'"persistentVolumeClaim"'  # contained in the JSON of every pod with claims
_CLASSES: Final = "storageclasses.storage.k8s.io"


class ClaimController:
    """Binds claims and volumes, and releases them."""

    def __init__(self, store: Store, registry: Registry, now: Callable[[], float]) -> None:
        self._store = store
        self._claim, self._volume = (registry.require("", "v1", name) for name in ("persistentvolumeclaims", "persistentvolumes"))
        self._claims, self._volumes = self._claim.collection, self._volume.collection
        self._pods, self._classes = store.collection("pods"), store.collection(_CLASSES)
        self._now = now
        self._events = EventTeller(store, registry, "persistentvolume-controller", now)
        self.worker: KeyedWorker[_Item] = KeyedWorker("claim", self._work)
        store.listeners.append(self._on_change)

    def start(self) -> None:
        """Enqueue every claim and volume."""
        for collection in (self._claims, self._volumes):
            for stored in collection.select():
                self._add(collection, stored.key)

    def _add(self, collection: Collection, key: str) -> None:
        self.worker.add((collection.name, key))

    def _on_change(self, collection: Collection, change: Change) -> None:
        current = change.current
        if collection is self._pods:
            is_new = change.previous is None or change.previous.fields != current.fields
            if (is_new or change.kind is DELETED) and _WORD in current.data:
                for name in volumes.claims_of(current.load()):
                    self._add(self._claims, f"{current.namespace}/{name}")
        elif collection is self._claims:
            self._add(collection, current.key)
            bound = current.load()["spec"].get("volumeName")
            if change.kind is DELETED and bound:
                self._add(self._volumes, bound)
        elif collection is self._volumes or collection is self._classes:
            for stored in self._claims.select():
                self._add(self._claims, stored.key)
            if collection is self._volumes:
                self._add(collection, current.key)

    async def _work(self, item: _Item) -> None:
        name, key = item
        stored = self._store.collection(name).items.get(key)
        if stored is None:
            return
        if name == self._claims.name:
            self._settle_claim(stored)
        else:
            self._settle_volume(stored)

    def _settle_claim(self, stored: Stored) -> None:
        claim = stored.load()
        is_used = any(_uses(each, stored.name) for each in self._pods.select(stored.namespace))
        if stored.deleting:
            if not is_used:
                release(self._store, self._claims, stored.key, claim, CLAIM_PROTECTION)
            return
        if (claim.get("status") or {}).get("phase") == "Bound":
            return
        wanted = claim["spec"].get("volumeName")
        known = [each.load() for each in self._volumes.select() if not each.deleting and wanted in {None, "", each.name}]
        found = volumes.best_of(claim, known)
        if found is None and not wanted:
            name = claim["spec"].get("storageClassName") or ""
            chosen = self._classes.items.get(name)
            means = volumes.provided_by(claim, chosen.load() if chosen is not None else None, is_used=is_used)
            if isinstance(means, str):
                self._events.tell(self._claim, stored, *means.split(": ", 1), kind="Normal")
                return
            found = means
        if found is not None:
            self._bind(stored, claim, found)

    def _bind(self, stored: Stored, claim: dict[str, Any], volume: dict[str, Any]) -> None:
        volumes.bind(claim, volume)
        if "uid" not in volume["metadata"]:
            objectmeta.complete(volume["metadata"], self._now())
        volume["status"]["lastPhaseTransitionTime"] = times.rfc3339(self._now())
        self._put(self._volumes, volume["metadata"]["name"], "PersistentVolume", volume)
        self._put(self._claims, stored.key, "PersistentVolumeClaim", claim)

    def _settle_volume(self, stored: Stored) -> None:
        volume = stored.load()
        reference = volume["spec"].get("claimRef") or {}
        claim = self._claims.items.get(f"{reference.get('namespace')}/{reference.get('name')}")
        is_claimed = claim is not None and reference.get("uid") in {None, claim.uid}
        if stored.deleting:
            if not is_claimed:
                release(self._store, self._volumes, stored.key, volume, VOLUME_PROTECTION)
            return
        state = volume.setdefault("status", {})
        phase = volumes.phase_of(volume, is_claimed=is_claimed)
        if phase == "Gone":
            self._store.delete(self._volumes, stored.key)
        elif state.get("phase") != phase:
            state |= {"phase": phase, "lastPhaseTransitionTime": times.rfc3339(self._now())}
            self._put(self._volumes, stored.key, "PersistentVolume", volume)

    def _put(self, collection: Collection, key: str, kind: str, body: dict[str, Any]) -> None:
        self._store.put(collection, key, objectmeta.ordered(body, kind, "v1"))


def _uses(stored: Stored, claim: str) -> bool:
    """Return whether a pod that is bound to a node names the claim. Also a finished pod uses it until the pod is deleted."""
    if _WORD not in stored.data:
        return False
    pod = stored.load()
    return bool(pod["spec"].get("nodeName")) and claim in volumes.claims_of(pod)

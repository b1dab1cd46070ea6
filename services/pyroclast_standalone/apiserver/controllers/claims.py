"""The controller of PersistentVolumeClaims: binds claims to existing or new volumes, protects used ones, and releases volumes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast_standalone import times
from pyroclast_standalone.apiserver.access.internal import KeyedWorker
from pyroclast_standalone.apiserver.controllers import events
from pyroclast_standalone.apiserver.documents.selectors import from_label_selector
from pyroclast_standalone.apiserver.kinds.core_cluster import CLAIM_PROTECTION, VOLUME_PROTECTION
from pyroclast_standalone.apiserver.storage import objectmeta
from pyroclast_standalone.apiserver.storage.registry import Registry
from pyroclast_standalone.apiserver.storage.store import DELETED, Change, Collection, Store, Stored
from pyroclast_standalone.apiserver.verbs.deleting import release

PROVISIONER: Final = "standalone.pyroclast.io/volume"
"""The provisioner name of storage classes whose volumes this server creates."""
_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_PROVISIONED: Final = "pv.kubernetes.io/provisioned-by"


def _size(resources: Mapping[str, Any]) -> quantity.Quantity:
    return quantity.parse(resources.get("storage", "0"))


def _asked(claim: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (claim["spec"].get("resources") or {}).get("requests") or {}
    return found


def claims_of(pod: Mapping[str, Any]) -> set[str]:
    """Return the names of the claims that a pod uses."""
    own = (volume.get("persistentVolumeClaim") for volume in pod["spec"].get("volumes") or ())
    return {claim.get("claimName", "") for claim in own if claim}


def _fits(claim: Mapping[str, Any], volume: Mapping[str, Any]) -> bool:
    wish, spec, metadata = claim["spec"], volume["spec"], claim["metadata"]
    reference = spec.get("claimRef")
    if reference is not None:
        own = (metadata["namespace"], metadata["name"])
        if (reference.get("namespace"), reference.get("name")) != own or reference.get("uid") not in {None, metadata["uid"]}:
            return False
    if reference is None and not from_label_selector(wish.get("selector")).selects(volume):
        return False
    return (
        (wish.get("storageClassName") or "") == (spec.get("storageClassName") or "")
        and set(wish.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
        and (wish.get("volumeMode") or "Filesystem") == (spec.get("volumeMode") or "Filesystem")
        and _size(_asked(claim)) <= _size(spec.get("capacity") or {})
    )


def best_of(claim: Mapping[str, Any], known: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the volume in `known` that is reserved for the claim, otherwise the smallest that fits. None when none fits."""
    fitting = [
        each for each in known if (each.get("status") or {}).get("phase") in {"Available", "Pending"} and _fits(claim, each)
    ]
    return min(
        fitting,
        key=lambda each: ("claimRef" not in each["spec"], _size(each["spec"].get("capacity") or {}), each["metadata"]["name"]),
        default=None,
    )


def provided_by(claim: Mapping[str, Any], chosen: Mapping[str, Any] | None, *, is_used: bool) -> dict[str, Any] | str:
    """Return the volume that a storage class provides for the claim, or the reason for an event as `reason: message`."""
    name = claim["spec"].get("storageClassName") or ""
    if chosen is None:
        if name:
            return f'ProvisioningFailed: storageclass.storage.k8s.io "{name}" not found'
        return "FailedBinding: no persistent volumes available for this claim and no storage class is set"
    if chosen.get("volumeBindingMode") == "WaitForFirstConsumer" and not is_used:
        return "WaitForFirstConsumer: waiting for first consumer to be created before binding"
    provisioner = chosen.get("provisioner", "")
    if provisioner != PROVISIONER:
        return f"ExternalProvisioning: nothing here makes volumes for the provisioner {provisioner!r}; {PROVISIONER!r} is served"
    volume = f"pvc-{claim['metadata']['uid']}"
    return {
        "metadata": {"name": volume, "annotations": {_PROVISIONED: PROVISIONER}, "finalizers": ["kubernetes.io/pv-protection"]},
        "spec": {
            "capacity": {"storage": _asked(claim).get("storage", "0")},
            "accessModes": list(claim["spec"].get("accessModes") or ()),
            "persistentVolumeReclaimPolicy": chosen.get("reclaimPolicy", "Delete"),
            "storageClassName": name,
            "volumeMode": claim["spec"].get("volumeMode", "Filesystem"),
            "hostPath": {"path": f"/var/lib/pyroclast/volumes/{volume}", "type": "DirectoryOrCreate"},
        },
        "status": {},
    }


def bind(claim: dict[str, Any], volume: dict[str, Any]) -> None:
    """Bind the claim and the volume to each other, in place."""
    metadata, spec = claim["metadata"], volume["spec"]
    if "claimRef" not in spec:
        volume["metadata"].setdefault("annotations", {})[_BY_CONTROLLER] = "yes"
    reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    reference |= {field: metadata[field] for field in ("namespace", "name", "uid", "resourceVersion") if field in metadata}
    spec["claimRef"] = reference
    volume.setdefault("status", {})["phase"] = "Bound"
    notes = metadata.setdefault("annotations", {})
    notes[_COMPLETED] = "yes"
    if not claim["spec"].get("volumeName"):
        notes[_BY_CONTROLLER] = "yes"
        claim["spec"]["volumeName"] = volume["metadata"]["name"]
    claim["status"] = {
        **(claim.get("status") or {}),
        "phase": "Bound",
        "accessModes": list(spec.get("accessModes") or ()),
        "capacity": dict(spec.get("capacity") or {}),
    }


def phase_of(volume: Mapping[str, Any], *, is_claimed: bool) -> str:
    """Return the phase of a volume: Available, Bound or Released. `Gone` means that it is deleted with its claim."""
    spec, phase = volume["spec"], (volume.get("status") or {}).get("phase", "")
    if not (spec.get("claimRef") or {}).get("uid"):
        return "Available"
    if is_claimed:
        return phase or "Bound"
    is_ours = (volume["metadata"].get("annotations") or {}).get(_PROVISIONED) == PROVISIONER
    return "Gone" if spec.get("persistentVolumeReclaimPolicy") == "Delete" and is_ours else "Released"


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
                for name in claims_of(current.load()):
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
        found = best_of(claim, known)
        if found is None and not wanted:
            name = claim["spec"].get("storageClassName") or ""
            chosen = self._classes.items.get(name)
            means = provided_by(claim, chosen.load() if chosen is not None else None, is_used=is_used)
            if isinstance(means, str):
                reason, _, message = means.partition(": ")
                by = "persistentvolume-controller"
                events.tell(self._store, self._claim, stored, reason, message, component=by, now=self._now())
                return
            found = means
        if found is not None:
            self._bind(stored, claim, found)

    def _bind(self, stored: Stored, claim: dict[str, Any], volume: dict[str, Any]) -> None:
        bind(claim, volume)
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
        phase = phase_of(volume, is_claimed=is_claimed)
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
    return bool(pod["spec"].get("nodeName")) and claim in claims_of(pod)

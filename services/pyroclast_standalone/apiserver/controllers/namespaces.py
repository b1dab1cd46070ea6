"""The namespace controller: creates the default objects of each namespace, and empties a terminating namespace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyroclast_standalone import times
from pyroclast_standalone.apiserver.access.internal import NAMESPACE_CONTROLLER, KeyedWorker, request
from pyroclast_standalone.apiserver.documents import managed_fields
from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.storage import objectmeta
from pyroclast_standalone.apiserver.storage.registry import Registry
from pyroclast_standalone.apiserver.storage.store import ADDED, DELETED, Change, Collection, Store
from pyroclast_standalone.apiserver.verbs.deleting import DeleteOptions, Deleter
from pyroclast_standalone.apiserver.verbs.write import Writer

_ROOT_CA: Final = "kube-root-ca.crt"
_ROOT_CA_NOTE: Final = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
    "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of "
    "Kubernetes clusters."
}
_RECHECK_SECONDS: Final = 0.5


class NamespaceController:
    """Creates default objects in namespaces, and deletes the content of terminating ones."""

    def __init__(self, store: Store, registry: Registry, writer: Writer, authority: str, now: Callable[[], float]) -> None:
        """`authority` is the CA certificate of the server in PEM."""
        self._store = store
        self._registry = registry
        self._deleter = Deleter(writer)
        self._authority = authority
        self._now = now
        self._namespaces = registry.require("", "v1", "namespaces")
        self.worker: KeyedWorker[str] = KeyedWorker("namespace", self._work)
        store.listeners.append(self.on_change)

    def start(self) -> None:
        """Enqueue every namespace."""
        for stored in list(self._namespaces.collection.select()):
            self.worker.add(stored.name)

    def on_change(self, collection: Collection, change: Change) -> None:
        """Enqueue the namespaces that a committed change of an object concerns."""
        if collection is self._namespaces.collection:
            if change.kind is ADDED:
                self.furnish(change.current.name)
            if change.current.deleting and change.kind is not DELETED:
                self.worker.add(change.current.name)
        elif change.kind is DELETED and change.current.namespace:
            namespace = self._namespaces.collection.items.get(change.current.namespace)
            if namespace is not None and namespace.deleting:
                self.worker.add(namespace.name)

    def furnish(self, namespace: str) -> None:
        """Create the default ServiceAccount and the ConfigMap of the CA, if they are missing."""
        wanted: tuple[tuple[str, str, dict[str, Any]], ...] = (
            ("serviceaccounts", "default", {}),
            ("configmaps", _ROOT_CA, {"data": {"ca.crt": self._authority}}),
        )
        for plural, name, content in wanted:
            resource = self._registry.require("", "v1", plural)
            key = f"{namespace}/{name}"
            if key in resource.collection.items:
                continue
            metadata: dict[str, Any] = {"name": name, "namespace": namespace}
            if name == _ROOT_CA:
                metadata["annotations"] = dict(_ROOT_CA_NOTE)
            objectmeta.complete(metadata, self._now())
            body = objectmeta.ordered({"metadata": metadata, **content}, resource.kind, resource.api_version)
            managed_fields.track_update(
                body,
                None,
                resource.strategy.schema,
                manager="kube-controller-manager",
                api_version="v1",
                now=times.rfc3339(self._now()),
            )
            self._store.put(resource.collection, key, body)

    async def _work(self, namespace: str) -> None:
        stored = self._namespaces.collection.items.get(namespace)
        if stored is None:
            return
        if not stored.deleting:
            self.furnish(namespace)
            return
        remaining = await self._empty(namespace)
        stored = self._namespaces.collection.items.get(namespace)
        if stored is None:
            return
        if remaining:
            self.worker.add_after(namespace, _RECHECK_SECONDS)
            return
        body = stored.load()
        finalizers = body.get("spec", {}).get("finalizers") or []
        if "kubernetes" in finalizers:
            body["spec"]["finalizers"] = [each for each in finalizers if each != "kubernetes"]
            if not body["spec"]["finalizers"]:
                body["spec"] = {}
            stored = self._store.put(self._namespaces.collection, namespace, body)
        if not body.get("spec", {}).get("finalizers") and not body["metadata"].get("finalizers"):
            self._store.delete(self._namespaces.collection, namespace)

    async def _empty(self, namespace: str) -> int:
        """Delete the content of the namespace. Return how many objects remain."""
        remaining = 0
        seen: set[str] = set()
        for resource in self._registry.resources():
            collection = resource.collection
            if not resource.namespaced or not resource.stores or collection.name in seen or resource.from_stored is not None:
                continue
            seen.add(collection.name)
            for stored in list(collection.select(namespace)):
                if not stored.deleting:
                    context = request(NAMESPACE_CONTROLLER, "deletecollection", resource, stored.key, self._now())
                    options = DeleteOptions(policy="Background", wire={"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"})
                    try:
                        await self._deleter.delete_key(context, resource, stored.key, options)
                    except status.StatusError as error:
                        if error.code != 404:
                            raise
            remaining += len(collection.keys(namespace))
        return remaining

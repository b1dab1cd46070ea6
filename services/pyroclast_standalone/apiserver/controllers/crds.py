"""CustomResourceDefinitions: accepted names, conditions, and the served resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyroclast_standalone import times
from pyroclast_standalone.apiserver.access.internal import GARBAGE_COLLECTOR, KeyedWorker, request
from pyroclast_standalone.apiserver.kinds import Strategy, custom_strategy
from pyroclast_standalone.apiserver.storage.registry import Registry, Resource, reader_of, version_order
from pyroclast_standalone.apiserver.storage.store import DELETED, Change, Collection, Store, make_stored
from pyroclast_standalone.apiserver.verbs.deleting import CRD_CLEANUP, DeleteOptions, Deleter, release
from pyroclast_standalone.apiserver.verbs.write import Writer

_RECHECK_SECONDS: Final = 0.2
COLLECTION: Final = "customresourcedefinitions.apiextensions.k8s.io"


class Definitions:
    """Updates the registry from the stored definitions, within the commit of each change."""

    def __init__(self, store: Store, registry: Registry, now: Callable[[], float]) -> None:
        self._store = store
        self._registry = registry
        self._now = now
        self._definitions = store.collection(COLLECTION)

    def serve_all(self) -> None:
        """Serve the stored definitions at the start."""
        for stored in self._definitions.select():
            self._serve(stored.load())

    def settle_status(self, body: dict[str, Any]) -> None:
        """Set the status of a definition before it is stored: accepted names, conditions and stored versions."""
        spec = body["spec"]
        status = body["status"] = body.get("status") or {}
        names = spec["names"]
        clashes = self._clashes(spec)
        accepted = dict(status.get("acceptedNames") or {})
        accepted |= {field: value for field, value in names.items() if field not in clashes}
        accepted.setdefault("plural", "")
        accepted.setdefault("kind", "")
        status["acceptedNames"] = accepted
        conditions: list[dict[str, Any]] = status.get("conditions") or []
        status["conditions"] = conditions
        if clashes:
            field, text = list(clashes.items())[-1]
            reason = field[:1].upper() + field[1:] + "Conflict"
            self._set(conditions, "NamesAccepted", "False", reason, text)
        else:
            self._set(conditions, "NamesAccepted", "True", "NoConflicts", "no conflicts found")
        is_established = any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
        if not clashes:
            self._set(conditions, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
        elif not is_established:
            self._set(conditions, "Established", "False", "NotAccepted", "not all names are accepted")
        storage = next((each["name"] for each in spec["versions"] if each.get("storage")), "")
        versions = status["storedVersions"] = status.get("storedVersions") or []
        if storage and storage not in versions:
            versions.append(storage)

    def _set(self, conditions: list[dict[str, Any]], kind: str, value: str, reason: str, message: str) -> None:
        for condition in conditions:
            if condition["type"] == kind:
                if condition["status"] != value:
                    condition["lastTransitionTime"] = times.rfc3339(self._now())
                condition.update(status=value, reason=reason, message=message)
                return
        since = times.rfc3339(self._now())
        conditions.append({"type": kind, "status": value, "lastTransitionTime": since, "reason": reason, "message": message})

    def _clashes(self, spec: Mapping[str, Any]) -> dict[str, str]:
        """Return the names that another definition of the group already has, by field."""
        own = spec["names"]
        names: set[str] = set()
        kinds: set[str] = set()
        for stored in self._definitions.select():
            plural, _, group = stored.name.partition(".")
            if group != spec["group"] or plural == own["plural"]:
                continue
            accepted = (stored.load().get("status") or {}).get("acceptedNames") or {}
            names |= {accepted.get("plural", ""), accepted.get("singular", ""), *(accepted.get("shortNames") or ())}
            kinds |= {accepted.get("kind", ""), accepted.get("listKind", "")}
        clashes: dict[str, str] = {}
        for field, taken in (("plural", names), ("singular", names), ("shortNames", names), ("kind", kinds), ("listKind", kinds)):
            wanted = own.get(field) or ()
            used = [each for each in ([wanted] if isinstance(wanted, str) else wanted) if each in taken]
            if used:
                clashes[field] = ", ".join(f'"{each}" is already in use' for each in used)
        return clashes

    def on_change(self, collection: Collection, change: Change) -> None:
        """Update the served resources after a committed change of a CustomResourceDefinition."""
        if collection is not self._definitions:
            return
        body = change.current.load()
        if change.kind is DELETED:
            self._registry.serve_custom(body["spec"]["group"], body["spec"]["names"]["plural"], ())
            self._settle_others(body["spec"]["group"])
        elif change.previous is None or _served_part(change.previous.load()) != _served_part(body):
            self._serve(body)

    def _settle_others(self, group: str) -> None:
        """Update the other definitions of the group, which may get names that became free."""
        for stored in list(self._definitions.select()):
            body = stored.load()
            if body["spec"]["group"] == group and not stored.deleting:
                before = stored.load().get("status")
                self.settle_status(body)
                if body["status"] != before:
                    self._store.put(self._definitions, stored.key, body)

    def _serve(self, body: dict[str, Any]) -> None:
        spec = body["spec"]
        group, plural = spec["group"], spec["names"]["plural"]
        if not _is_established(body):
            self._registry.serve_custom(group, plural, ())
            return
        collection = self._store.collection(f"{plural}.{group}")
        storage = next(each["name"] for each in spec["versions"] if each.get("storage"))
        stored_strategy = custom_strategy(body, storage)
        collection.fields_of = reader_of(stored_strategy.fields)
        resources = []
        for version in spec["versions"]:
            if not version.get("served"):
                continue
            strategy = stored_strategy if version["name"] == storage else custom_strategy(body, version["name"])
            api_version = f"{group}/{version['name']}"
            warning = ""
            if version.get("deprecated"):
                warning = version.get("deprecationWarning") or _deprecation(spec, version["name"])
            is_stored = version["name"] == storage
            resources.append(
                Resource(
                    strategy,
                    collection,
                    from_stored=None if is_stored else _to_version(api_version, strategy),
                    to_stored=None if is_stored else _to_version(f"{group}/{storage}", stored_strategy),
                    warning=warning,
                )
            )
        self._registry.serve_custom(group, plural, resources)
        stored = next((each for each in resources if each.from_stored is None), None)
        if stored is not None:
            self._reread(stored)

    def _reread(self, resource: Resource) -> None:
        """Decode the stored objects again with the present definition: its new defaults and its storage version."""
        collection = resource.collection
        for stored in list(collection.select()):
            body = stored.load()
            body["apiVersion"] = resource.api_version
            resource.strategy.default(body)
            fresh = make_stored(collection, stored.key, stored.revision, body)
            if fresh.data != stored.data or fresh.fields != stored.fields:
                collection.adopt(fresh)


def _served_part(body: dict[str, Any]) -> tuple[Any, bool]:
    """Return the parts of a definition that determine its served resources."""
    return body["spec"], _is_established(body)


def _is_established(body: dict[str, Any]) -> bool:
    conditions = (body.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _deprecation(spec: Mapping[str, Any], version: str) -> str:
    """Return the warning for a deprecated version, with a better version if there is one."""
    kind, group = spec["names"]["kind"], spec["group"]
    better = [each["name"] for each in spec["versions"] if each.get("served") and not each.get("deprecated")]
    better = [name for name in sorted(better, key=version_order) if version_order(name) < version_order(version)]
    return f"{group}/{version} {kind} is deprecated" + (f"; use {group}/{better[0]} {kind}" if better else "")


def _to_version(api_version: str, strategy: Strategy) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that converts an object to `api_version`, prunes it by the schema of that version, and sets defaults."""

    def convert(body: dict[str, Any]) -> dict[str, Any]:
        body["apiVersion"] = api_version
        strategy.decode(body)
        strategy.default(body)
        return body

    return convert


class DefinitionCleanup:
    """Deletes the objects of a definition that is being deleted, then removes the definition's finalizer."""

    def __init__(self, store: Store, registry: Registry, writer: Writer, now: Callable[[], float]) -> None:
        self._store = store
        self._registry = registry
        self._deleter = Deleter(writer)
        self._now = now
        self._definitions = store.collection(COLLECTION)
        self.worker: KeyedWorker[str] = KeyedWorker("definition", self._work)
        store.listeners.append(self._on_change)

    def start(self) -> None:
        """Continue the deletions that were started before."""
        for stored in self._definitions.select():
            if stored.deleting:
                self.worker.add(stored.name)

    def _on_change(self, collection: Collection, change: Change) -> None:
        if collection is self._definitions and change.current.deleting and change.kind is not DELETED:
            self.worker.add(change.current.name)

    async def _work(self, name: str) -> None:
        stored = self._definitions.items.get(name)
        if stored is None or not stored.deleting:
            return
        resource = self._registry.over(name)
        if resource is not None:
            for item in list(resource.collection.select()):
                if not item.deleting:
                    context = request(GARBAGE_COLLECTOR, "delete", resource, item.key, self._now())
                    await self._deleter.delete_key(context, resource, item.key, DeleteOptions(policy="Background"))
            if resource.collection.items:
                self.worker.add_after(name, _RECHECK_SECONDS)
                return
        stored = self._definitions.items.get(name)
        if stored is None:
            return
        release(self._store, self._definitions, name, stored.load(), CRD_CLEANUP)

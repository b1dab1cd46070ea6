"""ResourceQuotas: charged at the commit of each new object, and recounted when objects are deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from pyroclast.resources import quantity
from pyroclast.resources.pods import effective
from pyroclast.resources.quantity import Quantity
from pyroclast_standalone.apiserver.access.internal import KeyedWorker
from pyroclast_standalone.apiserver.admission.chain import Review
from pyroclast_standalone.apiserver.storage.registry import Registry
from pyroclast_standalone.apiserver.storage.store import ADDED, DELETED, Change, Collection, Store, Stored

_RECOUNT_SECONDS: Final = 0.1  # between the end of an object and the recount, so that many ends cause one recount

Usage: TypeAlias = dict[str, Quantity]

_ZERO, _ONE = quantity.parse("0"), quantity.from_value(1)
_COUNTED_BY_NAME: Final = {
    *("pods", "services", "configmaps", "secrets", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas")
}
_SHORT: Final = {"cpu", "memory", "ephemeral-storage"}
_FINISHED: Final = {"Succeeded", "Failed"}


def _parse(resources: Mapping[str, Any] | None) -> Usage:
    """Return the quantities of a resource list, by name of the resource."""
    return {name: quantity.parse(value) for name, value in (resources or {}).items()}


def _wire(usage: Usage) -> dict[str, str]:
    """Return `usage` as a resource list of an API object."""
    return {name: str(usage[name]) for name in sorted(usage)}


def _shown(usage: Usage) -> str:
    """Return `usage` as text for messages, such as `cpu=1,pods=2`."""
    return ",".join(f"{name}={usage[name]}" for name in sorted(usage))


def _add(total: Usage, more: Usage) -> None:
    """Add `more` to `total` in place, for the names that `total` has."""
    for name, value in more.items():
        if name in total:
            total[name] = total[name] + value


def _usage_of(qualified: str, body: Mapping[str, Any]) -> Usage:
    """Return the usage of one object of the resource `plural.group`. A finished pod only counts as an object."""
    usage: Usage = {f"count/{qualified}": _ONE}
    spec, is_pod = body.get("spec") or {}, qualified == "pods"
    if is_pod and (body.get("status") or {}).get("phase") in _FINISHED:
        return usage
    if qualified in _COUNTED_BY_NAME:
        usage[qualified] = _ONE
    if is_pod:
        usage |= _pod(spec)
    elif qualified == "persistentvolumeclaims":
        requests = (spec.get("resources") or {}).get("requests") or {}
        if "storage" in requests:
            usage["requests.storage"] = quantity.parse(requests["storage"])
    return usage


def _pod(spec: Mapping[str, Any]) -> Usage:
    usage: Usage = {}
    for prefix in ("requests", "limits"):
        for name, value in effective(spec, prefix).items():
            usage[f"{prefix}.{name}"] = value
            if prefix == "requests" and name in _SHORT:
                usage[name] = value
    return usage


def _states(container: Mapping[str, Any], kind: str, resource: str) -> bool:
    return resource in ((container.get("resources") or {}).get(kind) or {})


def _missing_resources(spec: Mapping[str, Any], names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of the containers that lack a constrained resource, by resource."""
    missing: dict[str, list[str]] = {}
    whole = spec.get("resources") or {}
    if whole.get("requests") or whole.get("limits"):
        return missing
    for name in sorted(names):
        kind, _, resource = name.rpartition(".")
        kind = kind or "requests"
        if resource not in _SHORT or kind not in {"requests", "limits"}:
            continue
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        without = {each["name"] for each in containers if not _states(each, kind, resource)}
        if without:
            missing[name] = sorted(without)
    return missing


class Quotas:
    """The admission guard and the controller of quotas."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._quotas = store.collection("resourcequotas")
        self.worker: KeyedWorker[str] = KeyedWorker("quota", self._recount)
        store.listeners.append(self._on_change)

    def start(self) -> None:
        """Enqueue every quota for a count."""
        for stored in self._quotas.select():
            self.worker.add(stored.key)

    def _on_change(self, collection: Collection, change: Change) -> None:
        if collection is self._quotas:
            if change.kind is ADDED or (change.kind is not DELETED and _spec(change.previous) != _spec(change.current)):
                self.worker.add(change.current.key)
        elif self._quotas.items and change.current.namespace and _frees(collection, change):
            for key in self._quotas.keys(change.current.namespace):
                self.worker.add_after(key, _RECOUNT_SECONDS)

    # --- admission ----------------------------------------------------------------------------------------------

    def guard(self, review: Review) -> None:
        """Charge the usage of a new object to its quotas."""
        body = review.body
        if review.operation != "CREATE" or review.subresource or body is None or not review.namespace:
            return
        keys = self._quotas.keys(review.namespace)
        if not keys:
            return
        wanted = _usage_of(review.resource.qualified, body)
        spent: list[tuple[str, dict[str, Any]]] = []
        for key in list(keys):
            quota = self._quotas.items[key].load()
            if self._fits(review, body, wanted, quota):
                spent.append((key, quota))
        if not review.dry_run:
            for key, quota in spent:
                self._store.put(self._quotas, key, quota)

    def _fits(self, review: Review, body: dict[str, Any], wanted: Usage, quota: dict[str, Any]) -> bool:
        """Return whether the quota applies to the object. If so, add the object to its status."""
        spec = quota["spec"]
        hard = _parse(spec.get("hard"))
        if review.resource.qualified == "pods":
            missing = _missing_resources(body["spec"], hard)
            if missing:
                text = "; ".join(f"{each} for: {','.join(names)}" for each, names in missing.items())
                why = f"failed quota: {quota['metadata']['name']}: must specify {text}"
                raise review.refusal(why)
        delta = {each: value for each, value in wanted.items() if each in hard and value}
        if not delta:
            return False
        state = quota.setdefault("status", {})
        used = {**dict.fromkeys(hard, _ZERO), **_parse(state.get("used"))}
        over = {each: value for each, value in delta.items() if hard[each] < used[each] + value}
        if over:
            why = (
                f"exceeded quota: {quota['metadata']['name']}, requested: {_shown(over)}, "
                f"used: {_shown({each: used[each] for each in over})}, "
                f"limited: {_shown({each: hard[each] for each in over})}"
            )
            raise review.refusal(why)
        _add(used, delta)
        state["hard"], state["used"] = _wire(hard), _wire(used)
        return True

    # --- counting -----------------------------------------------------------------------------------------------

    async def _recount(self, key: str) -> None:
        stored = self._quotas.items.get(key)
        if stored is None or stored.deleting:
            return
        quota = stored.load()
        spec = quota["spec"]
        hard = _parse(spec.get("hard"))
        used = dict.fromkeys(hard, _ZERO)
        for collection in self._counted(hard):
            resource = self._registry.over(collection.name)
            if resource is None or not resource.namespaced:
                continue
            for item in collection.select(stored.namespace):
                body = item.load()
                _add(used, _usage_of(resource.qualified, body))
        state = {"hard": _wire(hard), "used": _wire(used)}
        if quota.get("status") != state:
            quota["status"] = state
            self._store.put(self._quotas, key, quota)

    def _counted(self, hard: Usage) -> list[Collection]:
        names: set[str] = set()
        for name in hard:
            if name.startswith("count/"):
                names.add(name.removeprefix("count/"))
            elif name.startswith("services"):
                names.add("services")
            elif name == "requests.storage" or name.endswith("persistentvolumeclaims"):
                names.add("persistentvolumeclaims")
            elif name in {"configmaps", "secrets", "replicationcontrollers", "resourcequotas"}:
                names.add(name)
            else:
                names.add("pods")
        return [self._store.collection(name) for name in sorted(names)]


def _spec(stored: Stored | None) -> Any:  # noqa: ANN401 - any JSON
    return stored.load().get("spec") if stored is not None else None


def _frees(collection: Collection, change: Change) -> bool:
    """Return whether a change frees quota: an object was deleted, or a pod finished."""
    if change.kind is DELETED:
        return True
    if collection.name != "pods" or change.previous is None:
        return False
    return change.current.fields.get("status.phase") in _FINISHED and change.previous.fields.get("status.phase") not in _FINISHED

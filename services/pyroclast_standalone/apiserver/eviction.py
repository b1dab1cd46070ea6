"""Eviction: deletion of a pod that respects disruption budgets."""

from __future__ import annotations

from typing import Any, Final

from . import bodies, clock, status
from .context import Answer, Context
from .deleting import Deleter, check_preconditions, options_of
from .documents.selectors import from_label_selector
from .present import json_answer
from .registry import Registry, Resource
from .store import Store, Stored
from .write import Writer

__all__ = ["Evictor"]

_KIND: Final = bodies.BodyKind("policy", "v1", "Eviction")
_FINISHED: Final = {"Succeeded", "Failed"}


class Evictor:
    """Evicts pods."""

    def __init__(self, store: Store, registry: Registry, writer: Writer) -> None:
        self._store = store
        self._pods = registry.require("", "v1", "pods")
        self._budgets = registry.require("policy", "v1", "poddisruptionbudgets")
        self._writer = writer
        self._deleter = Deleter(writer)

    async def evict(self, context: Context, resource: Resource) -> Answer:
        """POST of an Eviction."""
        context.check_options()
        body = bodies.decode(context, _KIND)
        name, namespace = context.info.name, context.info.namespace
        if body["metadata"].get("namespace", namespace) != namespace:
            raise status.bad_request("the namespace of the provided object does not match the namespace sent on the request")
        body["metadata"]["namespace"] = namespace
        if body["metadata"].get("name", "") != name:
            raise status.bad_request("name in URL does not match name in Eviction object")
        key = f"{context.info.namespace}/{name}"
        stored = resource.collection.items.get(key)
        if stored is None:
            raise status.not_found("", "pods", name)
        wanted: dict[str, Any] = body.get("deleteOptions") or {}
        options = options_of(wanted)
        dry_run = options.dry_run or context.is_dry_run
        options.dry_run = dry_run
        kind = (_KIND.group, _KIND.version, _KIND.kind)
        await self._writer.admission.admit_posted(context, resource, "eviction", body, kind=kind, dry_run=dry_run)
        check_preconditions(resource, stored, options)
        self._spend_budget(stored, dry_run=dry_run)
        if not dry_run:
            self._mark(key)
        await self._deleter.delete_key(context, resource, key, options, is_admitted=True)
        return json_answer(context.wanted, status.success(201), 201)

    def _spend_budget(self, stored: Stored, *, dry_run: bool) -> None:
        pod = stored.load()
        if (pod.get("status") or {}).get("phase") in {*_FINISHED, "Pending"} or stored.deleting:
            return
        budgets = [
            each
            for each in self._budgets.collection.select(stored.namespace)
            if from_label_selector(each.load()["spec"].get("selector")).matches(stored.labels)
        ]
        if not budgets:
            return
        if len(budgets) > 1:
            raise status.unreasoned(
                500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            )
        budget = budgets[0].load()
        state = budget.setdefault("status", {})
        if state.get("disruptionsAllowed", 0) <= 0:
            healthy, desired = state.get("currentHealthy", 0), state.get("desiredHealthy", 0)
            why = f"The disruption budget {budgets[0].name} needs {desired} healthy pods and has {healthy} currently"
            raise status.too_many_requests(
                "Cannot evict pod as it would violate the pod's disruption budget.",
                causes=[status.cause("DisruptionBudget", why)],
            )
        if not dry_run:
            state["disruptionsAllowed"] -= 1
            state.setdefault("disruptedPods", {})[stored.name] = clock.timestamp(self._writer.now())
            self._store.put(self._budgets.collection, budgets[0].key, budget)

    def _mark(self, key: str) -> None:
        """Say on the pod why it goes."""
        stored = self._pods.collection.items[key]
        pod = stored.load()
        conditions = pod.setdefault("status", {}).setdefault("conditions", [])
        if any(each["type"] == "DisruptionTarget" for each in conditions):
            return
        conditions.append(
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
                "lastProbeTime": None,
                "lastTransitionTime": clock.timestamp(self._writer.now()),
            }
        )
        self._store.put(self._pods.collection, key, pod)

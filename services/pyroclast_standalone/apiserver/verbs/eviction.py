"""The eviction subresource: deletes a pod after adding a condition with the reason. PodDisruptionBudgets are not enforced."""

from __future__ import annotations

from typing import Any, Final

from pyroclast_standalone import times
from pyroclast_standalone.apiserver.requests import bodies, status
from pyroclast_standalone.apiserver.requests.context import Answer, Context
from pyroclast_standalone.apiserver.requests.present import json_answer
from pyroclast_standalone.apiserver.storage.registry import Registry, Resource
from pyroclast_standalone.apiserver.storage.store import Store
from pyroclast_standalone.apiserver.verbs.deleting import Deleter, check_preconditions, options_of
from pyroclast_standalone.apiserver.verbs.write import Writer

_KIND: Final = bodies.BodyKind("policy", "v1", "Eviction")


class Evictor:
    """Evicts pods."""

    def __init__(self, store: Store, registry: Registry, writer: Writer) -> None:
        self._store = store
        self._pods = registry.require("", "v1", "pods")
        self._writer = writer
        self._deleter = Deleter(writer)

    async def evict(self, context: Context, resource: Resource) -> Answer:
        """Handle the POST of an Eviction."""
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
        if not dry_run:
            self._mark(key)
        await self._deleter.delete_key(context, resource, key, options, is_admitted=True)
        return json_answer(status.success(201), 201)

    def _mark(self, key: str) -> None:
        """Add the condition DisruptionTarget to the pod."""
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
                "lastTransitionTime": times.rfc3339(self._writer.now()),
            }
        )
        self._store.put(self._pods.collection, key, pod)

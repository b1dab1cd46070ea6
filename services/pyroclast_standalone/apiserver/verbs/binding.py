"""The binding subresource, with which a scheduler binds a pod to a node."""

from __future__ import annotations

from typing import Any

from pyroclast_standalone import times
from pyroclast_standalone.apiserver.requests import bodies, status
from pyroclast_standalone.apiserver.requests.context import Answer, Context
from pyroclast_standalone.apiserver.requests.present import json_answer
from pyroclast_standalone.apiserver.storage.registry import Registry, Resource
from pyroclast_standalone.apiserver.storage.store import Store
from pyroclast_standalone.apiserver.verbs.write import Writer


class Binder:
    """Binds pods."""

    def __init__(self, store: Store, registry: Registry, writer: Writer) -> None:
        self._store = store
        self._pods = registry.require("", "v1", "pods")
        self._bindings = registry.require("", "v1", "bindings")
        self._writer = writer

    async def bind(self, context: Context, _resource: Resource) -> Answer:
        """Handle the POST of a Binding to a pod or to the collection of bindings. Copy its labels and annotations to the pod."""
        body = bodies.decode(context, self._bindings.strategy)
        metadata = body.get("metadata") or {}
        if metadata.get("namespace", context.info.namespace) != context.info.namespace:
            raise status.bad_request("the namespace of the provided object does not match the namespace sent on the request")
        name = metadata.get("name", "")
        if context.info.name and name != context.info.name:
            raise status.bad_request("name in URL does not match name in Binding object")
        target = body.get("target") or {}
        if not target.get("name"):
            raise status.unreasoned(500, "target.name: Required value")
        if target.get("kind", "Node") not in {"", "Node"}:
            raise status.unreasoned(
                500, f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"'
            )
        if not name:
            raise status.bad_request("Name parameter required.")
        key = f"{context.info.namespace}/{name}"
        body["metadata"] = {**metadata, "name": name, "namespace": context.info.namespace}
        review = await self._writer.admission.admit_posted(
            context, self._pods, "binding", body, kind=("", "v1", "Binding"), dry_run=context.is_dry_run
        )
        self._assign(key, name, review.body or body, dry_run=review.dry_run)
        return json_answer(status.success(201), 201)

    def _assign(self, key: str, name: str, body: dict[str, Any], *, dry_run: bool) -> None:
        stored = self._pods.collection.items.get(key)
        if stored is None:
            raise status.not_found("", "pods", name)
        pod = stored.load()
        spec, metadata = pod["spec"], pod["metadata"]
        wanted = body["metadata"]
        target = body["target"]["name"]
        uid = wanted.get("uid")
        if uid and uid != metadata["uid"]:
            why = status.no_such_uid(f"/registry/pods/{key}", uid, metadata["uid"])
            raise status.conflict("", "pods", name, why)
        if "deletionTimestamp" in metadata:
            raise status.conflict("", "pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
        if spec.get("nodeName"):
            raise status.conflict("", "pods/binding", name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
        if spec.get("schedulingGates"):
            raise status.conflict("", "pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")
        if dry_run:
            return
        spec["nodeName"] = target
        for field in ("annotations", "labels"):
            if wanted.get(field):
                metadata[field] = {**metadata.get(field, {}), **wanted[field]}
        conditions = pod.setdefault("status", {}).setdefault("conditions", [])
        conditions[:] = [each for each in conditions if each["type"] != "PodScheduled"]
        conditions.append(
            {
                "type": "PodScheduled",
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": times.rfc3339(self._writer.now()),
            }
        )
        self._store.put(self._pods.collection, key, pod)

"""PodGroups of Kubernetes' own API and their pods, as the watches show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pyroclast.api import records
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.configuration import Configuration
from tests.scenarios import objects
from tests.unit.scheduler.deciding import configured

_TEXT = """
actions: "{actions}"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: predicates
  - name: capacity
  - name: nodeorder
"""
_ACTIONS = "allocate, preempt, reclaim, backfill"


def settings(actions: str) -> Configuration:
    """A configuration with these actions."""
    return configured(_TEXT.format(actions=actions))


SETTINGS, WITHOUT_ENQUEUE = settings(f"enqueue, {_ACTIONS}"), settings(_ACTIONS)


def _metadata(name: str, age: float, given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": objects.NAMESPACE,
        "uid": given.get("uid", f"uid-{name}"),
        "creationTimestamp": objects.timestamp(objects.NOW - given.get("age", age)),
        "resourceVersion": str(given.get("arrives", "")),
        "labels": given.get("labels", {}),
        "annotations": given.get("annotations", {}),
        "ownerReferences": [_owner(given["owner"])] if "owner" in given else [],
    }


def gang(name: str = "g", minimum: int | None = 3, *, started: bool = False, **given: Any) -> records.NativePodGroup:
    """A PodGroup; `minimum` None: policy basic. `spec`, `labels`, `annotations`, `owner` (apiVersion, kind, uid) as given."""
    initially = [{"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"}] if started else []
    return msgspec.convert(_group(name, "minCount", minimum, initially, given), records.NativePodGroup)


def composite(name: str = "c", minimum: int | None = 2, **given: Any) -> records.CompositePodGroup:
    """A CompositePodGroup; `minimum` None: policy basic. `spec`, `uid` and `conditions` as given."""
    return msgspec.convert(_group(name, "minGroupCount", minimum, given.get("conditions", []), given), records.CompositePodGroup)


def _group(name: str, field: str, minimum: int | None, conditions: list[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    policy: dict[str, Any] = {"basic": {}} if minimum is None else {"gang": {field: minimum}}
    spec = {"schedulingPolicy": policy, **given.get("spec", {})}
    return {"metadata": _metadata(name, 60, given), "spec": spec, "status": {"conditions": conditions}}


def pod(name: str, group: str = "g", **given: Any) -> records.Pod:
    """A pod of 1 cpu; `node`, `phase`, `labels`, `annotations`, `age`, `cpu` and `spec` as given."""
    node = given.get("node", "")
    metadata = _metadata(name, given.get("age", 30), given)
    requests = {"cpu": str(given.get("cpu", 1))}
    spec = {
        "schedulerName": given.get("scheduler", "volcano"),
        "nodeName": node,
        "priority": given.get("priority", 0),
        "schedulingGroup": {"podGroupName": group} if group else None,
        "containers": [{"name": "c", "resources": {"requests": requests}}],
        **given.get("spec", {}),
    }
    status = {"phase": given.get("phase", "Running" if node else "Pending")}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, records.Pod)


def namespace(queue: str) -> records.Namespace:
    """The Namespace of the pods, which names a queue."""
    annotations = {"scheduling.volcano.sh/queue-name": queue}
    return msgspec.convert({"metadata": {"name": objects.NAMESPACE, "annotations": annotations}}, records.Namespace)


def world(nodes: Mapping[str, int | tuple[int, Mapping[str, str]]], *queues: list[Any], now: list[float] | None = None) -> Cache:
    """A cache with nodes of so many cpus, and labels, and with queues beside `default`."""
    clock = [0.0] if now is None else now
    cache = Cache(now=lambda: clock[0])
    for name, size in nodes.items():
        cpus, labels = size if isinstance(size, tuple) else (size, {})
        cache.node_changed(None, objects.node([name, cpus, "8Gi", {"labels": dict(labels)}]))
    for queue in [["default"], *queues]:
        cache.queue_changed(None, objects.queue(queue))
    return cache


def _owner(given: tuple[str, str, str]) -> dict[str, Any]:
    api_version, kind, uid = given
    return {"apiVersion": api_version, "kind": kind, "name": kind.lower(), "uid": uid, "controller": True}

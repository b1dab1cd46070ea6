"""The objects of the loads: pods, gangs and Jobs, which differ between the sides only in whose they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyroclast.api.types import BATCH_JOBS, JOBS, NATIVE_POD_GROUPS, PODS
from tests.bench.peers.arena import LOAD, OURS, SCHEDULERS, Item, Side

KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
FOREVER = 3600.0


def pod_spec(side: Side, requests: dict[str, str], seconds: float = FOREVER, **more: Any) -> dict[str, Any]:
    resources = {"requests": requests, "limits": {name: amount for name, amount in requests.items() if "/" in name}}
    container = {"name": "main", "image": "busybox:1.37", "command": ["sleep", f"{seconds:g}"], "resources": resources}
    return {
        "schedulerName": SCHEDULERS[side],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        **more,
    }


def pods(side: Side, prefix: str, count: int, cpu: str, **more: Any) -> Iterator[Item]:
    """Pods one by one."""
    for number in range(count):
        name = f"{prefix}-{number}"
        yield Item(PODS, {"metadata": {"name": name, "labels": {LOAD: name}}, "spec": pod_spec(side, {"cpu": cpu}, **more)})


def gang(side: Side, name: str, size: int, cpu: str, *, priority: str = "", **spec: Any) -> Iterator[Item]:
    """A PodGroup of Kubernetes and its pods, all of which start together; `spec` is of the PodGroup."""
    named = {"priorityClassName": priority} if priority else {}
    group = {"schedulingPolicy": {"gang": {"minCount": size}}, **named, **spec}
    yield Item(NATIVE_POD_GROUPS, {"metadata": {"name": name}, "spec": group})
    yield from pods(side, name, size, cpu, schedulingGroup={"podGroupName": name}, **named)


def job(
    side: Side,
    name: str,
    size: int,
    requests: dict[str, str],
    queue: str,
    *,
    seconds: float = FOREVER,
    priority: str = "",
    after: float = 0.0,
    group: str = "",
    **spec: Any,
) -> Item:
    """A Job of `size` pods that start together: of ours in our queue, or of `batch` in a LocalQueue of Kueue."""
    named = {"priorityClassName": priority} if priority else {}
    template = {"metadata": {"labels": {LOAD: name}}, "spec": pod_spec(side, requests, seconds, **named)}
    if side == OURS:
        body = {"minAvailable": size, "queue": queue, "schedulerName": SCHEDULERS[side], **named, **spec}
        body["tasks"] = [{"name": "main", "replicas": size, "template": template}]
        return Item(JOBS, {"metadata": {"name": name}, "spec": body}, after, group)
    batch = {"parallelism": size, "completions": size, "suspend": True, "template": template}
    return Item(BATCH_JOBS, {"metadata": {"name": name, "labels": {KUEUE_QUEUE: queue}}, "spec": batch}, after, group)

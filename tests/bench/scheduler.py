"""What the benches of the scheduler are made of: its default configuration, nodes, queues, groups and pods."""

from __future__ import annotations

import msgspec

from pyroclast.api import records
from pyroclast_scheduler import registry
from pyroclast_scheduler.session.configuration import parse

CHART = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf, enablePreemptable: false}, {name: predicates}, {name: proportion}, {name: nodeorder},
    {name: binpack}]
"""


ACTIONS, PLUGINS = registry.actions(), registry.plugins()
CONFIGURATION = parse(CHART, actions=ACTIONS, plugins=PLUGINS)


def node(i: int, *, cpu: int = 32) -> records.Node:
    body = {
        "metadata": {
            "name": f"node-{i}",
            "uid": f"n{i}",
            "labels": {"kubernetes.io/hostname": f"node-{i}", "zone": f"z{i % 10}"},
        },
        "status": {"allocatable": {"cpu": str(cpu), "memory": f"{cpu * 8}Gi", "pods": "110"}},
    }
    return msgspec.convert(body, records.Node)


def queue(name: str) -> records.Queue:
    return msgspec.convert({"metadata": {"name": name, "uid": name}, "spec": {"weight": 1}}, records.Queue)


def group(name: str, size: int, *, queue_name: str = "default") -> records.PodGroup:
    body = {
        "metadata": {"namespace": "b", "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"minMember": size, "queue": queue_name, "minResources": {"cpu": str(size)}},
        "status": {"phase": "Inqueue"},
    }
    return msgspec.convert(body, records.PodGroup)


def pod(group_name: str, i: int, *, millis: int = 1000, spec: dict[str, object] | None = None) -> records.Pod:
    body = {
        "metadata": {
            "namespace": "b",
            "name": f"{group_name}-w-{i}",
            "uid": f"{group_name}-w-{i}",
            "labels": {"app": "b"},
            "annotations": {"scheduling.k8s.io/group-name": group_name, "volcano.sh/task-spec": "w"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "schedulerName": "volcano",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": f"{millis}m", "memory": "1Gi"}}}],
            **(spec or {}),
        },
        "status": {"phase": "Pending"},
    }
    return msgspec.convert(body, records.Pod)


def running(given: records.Pod, node_name: str, start: str) -> records.Pod:
    """The pod as it runs on that node since `start`, a timestamp."""
    body = msgspec.to_builtins(given)
    body["spec"]["nodeName"] = node_name
    body["status"] = {"phase": "Running", "startTime": start}
    return msgspec.convert(body, records.Pod)

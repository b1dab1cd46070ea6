"""The Node objects of simulated nodes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyroclast_standalone import times
from pyroclast_standalone.nodes import records
from pyroclast_standalone.nodes.injections import SIMULATED, NodeState

_TAINTS: Final = {NodeState.NOT_READY: "node.kubernetes.io/not-ready", NodeState.LOST: "node.kubernetes.io/unreachable"}
_LEASE_RENEWALS = 4  # a Lease expires after this many missed renewals

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """The resources, labels and address of each node."""

    resources: Mapping[str, str]
    labels: Mapping[str, str]
    host_ip: str
    port: int  # port of the kubelet endpoint


def node_object(name: str, fleet: str, shape: Shape, now: float) -> Json:
    """Return the node to register. `fleet` is the mark of the process that simulates it."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels | dict(shape.labels), "annotations": {SIMULATED: fleet}},
        "status": node_status(name, shape, NodeState.READY, None, now),
    }


def node_status(name: str, shape: Shape, state: NodeState, known: records.Node | None, now: float) -> Json:
    """Return the status of a node in `state`. Capacity and unchanged transition times are those of `known`."""
    resources: Mapping[str, Any] = shape.resources
    allocatable = resources
    if known is not None and known.status.capacity:
        resources = known.status.capacity
        allocatable = known.status.allocatable or resources
    return {
        "capacity": dict(resources),
        "allocatable": dict(allocatable),
        "addresses": [{"type": "InternalIP", "address": shape.host_ip}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": shape.port}},
        "conditions": [_condition(kind, *said, known, now) for kind, said in _conditions(state).items()],
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": name,
            "containerRuntimeVersion": "pyroclast://simulated",
            "kernelVersion": "simulated",
            "kubeProxyVersion": "",
            "kubeletVersion": "v1.36.0-pyroclast",
            "machineID": name,
            "operatingSystem": "linux",
            "osImage": "Pyroclast simulated node",
            "systemUUID": name,
        },
    }


def taints(found: tuple[Mapping[str, Any], ...], state: NodeState) -> tuple[Mapping[str, Any], ...]:
    """Return the taints of a node in `state`: `found`, and for a node that is not ready the taint of Kubernetes."""
    own = _TAINTS.get(state)
    kept = tuple(taint for taint in found if taint.get("key") not in _TAINTS.values() or taint.get("key") == own)
    if own is None or any(taint.get("key") == own and taint.get("effect") == "NoSchedule" for taint in kept):
        return kept
    return (*kept, {"key": own, "effect": "NoSchedule"})


def lease(name: str, uid: str, interval: float, now: float) -> Json:
    """Return the Lease of a node. `interval` is the time between renewals in seconds."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": "kube-node-lease",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}],
        },
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": int(interval * _LEASE_RENEWALS),
            "renewTime": times.micro_rfc3339(now),
        },
    }


def _conditions(state: NodeState) -> dict[str, tuple[str, str, str]]:
    healthy = {
        "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
    }
    match state:
        case NodeState.READY:
            return healthy
        case NodeState.NOT_READY:
            return healthy | {"Ready": ("False", "KubeletNotReady", "made not ready by an annotation")}
        case NodeState.LOST:
            return dict.fromkeys(healthy, ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."))


def _condition(kind: str, status: str, reason: str, message: str, known: records.Node | None, now: float) -> Json:  # noqa: PLR0917
    before = next((c for c in known.status.conditions if c.type == kind), None) if known is not None else None
    since = before.last_transition_time if before is not None and before.status == status else None
    heard = times.rfc3339(now)
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": heard,
        "lastTransitionTime": since or heard,
    }

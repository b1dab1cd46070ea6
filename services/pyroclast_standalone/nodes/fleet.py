"""The simulated nodes: registers their Node objects, renews their Leases, and sets the state that their annotations request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from pyroclast.api.types import LEASES, NODES, Key
from pyroclast.kube.basics.errors import AlreadyExists, Conflict, KubeError, NotFound
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.workqueue.queue import WorkQueue, run_workers
from pyroclast_standalone import times
from pyroclast_standalone.nodes import records
from pyroclast_standalone.nodes.capacity import Ledger
from pyroclast_standalone.nodes.injections import SIMULATED, NodeState, of_node

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
    is_machine: bool = False  # whether it is the size of this machine, which may have changed since the last start
    runtime: str = "simulated"  # or "process"


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
    if known is not None and known.status.capacity and not shape.is_machine:
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
            "containerRuntimeVersion": f"pyroclast://{shape.runtime}",
            "kernelVersion": "simulated",
            "kubeProxyVersion": "",
            "kubeletVersion": "v1.36.0-pyroclast",
            "machineID": name,
            "operatingSystem": "linux",
            "osImage": "Pyroclast on this machine" if shape.is_machine else "Pyroclast simulated node",
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


log = structlog.get_logger()

_WORKERS = 16  # nodes that are written at the same time
_RENEWALS_PER_SECOND = 20.0  # of all nodes together: the load of Leases on the API server
_SHORTEST_INTERVAL = 10.0  # seconds between renewals of one Lease, as for kubelets
_LEASE_NAMESPACE = "kube-node-lease"


@dataclass(slots=True)
class SimulatedNode:
    """A simulated node, its state and the allocation of its pods.

    `is_counted` means that the pods from before the start are counted.
    """

    name: str
    uid: str
    state: NodeState
    ledger: Ledger
    is_counted: bool = False


class Fleet:
    """Runs the nodes that it registers, and every other Node with the annotation `nodes.pyroclast.dev/simulated: "true"`.

    `names`: the nodes to register. `fleet`: the mark by which a restarted process recognises its nodes. `changed`: called with
    the name of a node whose pods must be reconciled.
    """

    def __init__(
        self,
        client: Client,
        nodes: Informer[records.Node],
        names: Sequence[str],
        *,
        fleet: str,
        shape: Shape,
        changed: Callable[[str], None],
    ) -> None:
        self._client, self._nodes, self._names = client, nodes, names
        self._fleet, self._changed = fleet, changed
        self.shape = shape
        self._served: dict[str, SimulatedNode] = {}
        self._to_register = set(names)
        self._queue: WorkQueue[str] = WorkQueue("nodes")
        nodes.on_change(self._on_change)

    def __len__(self) -> int:
        return len(self._served)

    def get(self, name: str) -> SimulatedNode | None:
        """Return the simulated node of that name. None when it is not one of these."""
        return self._served.get(name)

    def is_known(self, name: str) -> bool:
        """Whether a Node of that name exists, simulated or not."""
        return self._nodes.get(Key("", name)) is not None

    @property
    def unregistered(self) -> int:
        """How many nodes are not registered yet."""
        return len(self._to_register)

    async def keep(self) -> None:
        """Register missing nodes and update node statuses until cancelled. Starts after all nodes are listed.

        A node that is deleted later is not registered again, like a machine that was removed from the cluster.
        """
        for name in self._names:
            self._queue.add(name)
        await run_workers(self._queue, self._reconcile, _WORKERS)

    async def renew_leases(self) -> None:
        """Renew all Leases in turn, evenly distributed over the interval, until cancelled."""
        while True:
            names = sorted(self._served)
            interval = max(_SHORTEST_INTERVAL, len(names) / _RENEWALS_PER_SECOND)
            for name in names:
                served = self._served.get(name)
                if served is not None and served.state is not NodeState.LOST:
                    await self._renew(served, interval)
                await asyncio.sleep(interval / len(names))
            if not names:
                await asyncio.sleep(1.0)

    def _on_change(self, old: records.Node | None, new: records.Node | None) -> None:
        node = new or old
        if node is None:
            return
        name = node.metadata.name
        if new is None or new.metadata.annotations.get(SIMULATED) not in (self._fleet, "true"):
            if self._served.pop(name, None) is not None:
                self._changed(name)
            return
        state = of_node(new.metadata.annotations)
        served = self._served.get(name)
        if served is None or served.uid != new.metadata.uid:
            allocatable = new.status.allocatable or new.status.capacity or self.shape.resources
            self._served[name] = SimulatedNode(name, new.metadata.uid, state, Ledger(allocatable))
            self._changed(name)
        else:
            served.ledger.allocatable = new.status.allocatable or served.ledger.allocatable
            if served.state is not state:
                served.state = state
                self._changed(name)
        if self._is_stale(new, state) or new.spec.taints != taints(new.spec.taints, state):
            self._queue.add(name)

    def _is_stale(self, node: records.Node, state: NodeState) -> bool:
        endpoint = node.status.daemon_endpoints.get("kubeletEndpoint") or {}
        said = {condition.type: condition.status for condition in node.status.conditions}
        wanted = {NodeState.READY: "True", NodeState.NOT_READY: "False", NodeState.LOST: "Unknown"}[state]
        is_resized = self.shape.is_machine and dict(node.status.capacity) != dict(self.shape.resources)
        return endpoint.get("Port") != self.shape.port or said.get("Ready") != wanted or not node.status.capacity or is_resized

    async def _reconcile(self, name: str) -> None:
        known = self._nodes.get(Key("", name))
        if known is None:
            if name in self._to_register:
                await self._register(name)
            return
        self._to_register.discard(name)
        served = self._served.get(name)
        if served is None:
            return
        if self._is_stale(known, served.state):
            status = node_status(name, self.shape, served.state, known, time.time())
            await self._client.patch(NODES, Key("", name), {"status": status}, PatchKind.STRATEGIC, subresource="status")
            log.info("node.status", node=name, state=str(served.state))
        wanted = taints(known.spec.taints, served.state)
        if wanted != known.spec.taints:
            await self._taint(known, wanted)

    async def _register(self, name: str) -> None:
        try:
            await self._client.create(NODES, node_object(name, self._fleet, self.shape, time.time()))
        except AlreadyExists:
            return  # the watch delivers the change
        log.info("node.registered", node=name)

    async def _taint(self, node: records.Node, taints: Sequence[Mapping[str, Any]]) -> None:
        """Write the taints of a node.

        A ready node loses the taint that the API server sets on every new node. A node that is not ready gets a taint against
        new pods.
        """
        body = {"metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": list(taints) or None}}
        try:
            await self._client.patch(NODES, node.key, body, PatchKind.MERGE)
        except Conflict:
            return  # the node has changed: the watch event reconciles it again

    async def _renew(self, served: SimulatedNode, interval: float) -> None:
        body = lease(served.name, served.uid, interval, time.time())
        try:
            try:
                spec = {"spec": body["spec"], "metadata": {"ownerReferences": body["metadata"]["ownerReferences"]}}
                await self._client.patch(LEASES, Key(_LEASE_NAMESPACE, served.name), spec, PatchKind.MERGE)
            except NotFound:
                await self._client.create(LEASES, body, namespace=_LEASE_NAMESPACE)
        except KubeError as error:
            log.warning("node.lease_failed", node=served.name, error=str(error))

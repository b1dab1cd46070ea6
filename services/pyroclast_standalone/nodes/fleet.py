"""The simulated nodes: registers them, renews their Leases, and sets the state that their annotations request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from pyroclast.api.types import LEASES, NODES, Key
from pyroclast.kube.basics.errors import AlreadyExists, Conflict, KubeError, NotFound
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.workqueue.queue import WorkQueue
from pyroclast.kube.workqueue.workers import run_workers
from pyroclast_standalone.nodes import machines, records
from pyroclast_standalone.nodes.capacity import Ledger
from pyroclast_standalone.nodes.injections import SIMULATED, NodeState, of_node

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

    Args:
        client: the client of the API server.
        nodes: the informer of all nodes.
        names: the nodes to register.
        fleet: the mark by which a restarted process recognises its nodes.
        shape: the resources and labels of each node.
        changed: called with the name of a node whose pods must be reconciled.
    """

    def __init__(
        self,
        client: Client,
        nodes: Informer[records.Node],
        names: Sequence[str],
        *,
        fleet: str,
        shape: machines.Shape,
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
        """Return whether a Node of that name exists, simulated or not."""
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
        if self._is_stale(new, state) or new.spec.taints != machines.taints(new.spec.taints, state):
            self._queue.add(name)

    def _is_stale(self, node: records.Node, state: NodeState) -> bool:
        endpoint = node.status.daemon_endpoints.get("kubeletEndpoint") or {}
        said = {condition.type: condition.status for condition in node.status.conditions}
        wanted = {NodeState.READY: "True", NodeState.NOT_READY: "False", NodeState.LOST: "Unknown"}[state]
        return endpoint.get("Port") != self.shape.port or said.get("Ready") != wanted or not node.status.capacity

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
            status = machines.node_status(name, self.shape, served.state, known, time.time())
            await self._client.patch(NODES, Key("", name), {"status": status}, PatchKind.STRATEGIC, subresource="status")
            log.info("node.status", node=name, state=str(served.state))
        taints = machines.taints(known.spec.taints, served.state)
        if taints != known.spec.taints:
            await self._taint(known, taints)

    async def _register(self, name: str) -> None:
        try:
            await self._client.create(NODES, machines.node_object(name, self._fleet, self.shape, time.time()))
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
        body = machines.lease(served.name, served.uid, interval, time.time())
        try:
            try:
                spec = {"spec": body["spec"], "metadata": {"ownerReferences": body["metadata"]["ownerReferences"]}}
                await self._client.patch(LEASES, Key(_LEASE_NAMESPACE, served.name), spec, PatchKind.MERGE)
            except NotFound:
                await self._client.create(LEASES, body, namespace=_LEASE_NAMESPACE)
        except KubeError as error:
            log.warning("node.lease_failed", node=served.name, error=str(error))

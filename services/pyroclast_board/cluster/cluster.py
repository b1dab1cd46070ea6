"""The board's copy of the cluster: small records, which watches keep current and which all viewers share."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec
import structlog

from pyroclast.api import keys
from pyroclast.api.pod_groups_on_pods import group_of
from pyroclast.api.records import HyperNode, Pod
from pyroclast.api.schedulers import Schedulers, schedulers_of
from pyroclast.api.types import HYPER_NODES, JOB_FLOWS, JOBS, LEASES, NAMESPACES, NODES, POD_GROUPS, PODS, QUEUES, Key
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.health_queries import read_health
from pyroclast.kube.watch.informer import Informer
from pyroclast.resources.pods import Amounts, effective
from pyroclast.resources.quantity import ZERO
from pyroclast.views.health import judged
from pyroclast.views.readable import amount
from pyroclast_board.cluster.jobs import JobTable, as_object
from pyroclast_board.cluster.natives import native_gangs, plain_gangs
from pyroclast_board.cluster.records import ShownGroup, ShownJob, ShownNamespace, ShownNode, ShownObject, ShownPod

ENDED: Final = frozenset({"Succeeded", "Failed"})


class NodeBooks:
    """The sums of requests and the numbers of pods by node, and the nodes on which the pods of each Job run."""

    def __init__(self) -> None:
        self._held: dict[Key, tuple[str, Amounts, str]] = {}
        self._used: dict[str, Amounts] = {}
        self._pods: dict[str, int] = {}
        self._of_job: dict[str, dict[str, int]] = {}

    def put_pod(self, old: ShownPod | None, new: ShownPod | None) -> None:
        """Handle an added, updated or deleted pod."""
        if old is not None:
            self._release(old.key)
        if new is not None and new.spec.node_name and new.status.phase not in ENDED:
            controller = new.metadata.controller
            self._take(
                new.key, new.spec.node_name, effective(as_object(new.spec), "requests"), controller.uid if controller else ""
            )

    def pods(self, node: str) -> int:
        """Return how many pods are on a node."""
        return self._pods.get(node, 0)

    def free(self, node: ShownNode) -> Amounts:
        """Return the allocatable resources of a node minus the requests of its pods."""
        used = self._used.get(node.metadata.name, {})
        return {name: amount(value) - used.get(name, ZERO) for name, value in node.status.allocatable.items()}

    def held(self) -> Iterable[tuple[Key, str, Amounts, str]]:
        """Return the key, the node, the requests and the UID of the controller of each pod on a node."""
        return ((key, *each) for key, each in self._held.items())

    def nodes_of(self, job: str) -> Mapping[str, int]:
        """Return the nodes on which the Job with this UID has pods, with the number of pods on each."""
        return self._of_job.get(job, {})

    def _take(self, key: Key, node: str, requests: Amounts, owner: str) -> None:
        self._held[key] = (node, requests, owner)
        used = self._used.setdefault(node, {})
        for name, asked in requests.items():
            used[name] = used.get(name, ZERO) + asked
        self._pods[node] = self._pods.get(node, 0) + 1
        if owner:
            nodes = self._of_job.setdefault(owner, {})
            nodes[node] = nodes.get(node, 0) + 1

    def _release(self, key: Key) -> None:
        node, requests, owner = self._held.pop(key, ("", {}, ""))
        if not node:
            return
        used = self._used[node]
        for name, asked in requests.items():
            used[name] -= asked
        self._pods[node] -= 1
        if not self._pods[node]:
            del self._pods[node], self._used[node]
        nodes = self._of_job.get(owner, {})
        if node in nodes:
            nodes[node] -= 1
            if not nodes[node]:
                del nodes[node]
            if not nodes:
                del self._of_job[owner]


BACK_OFF: Final = "CrashLoopBackOff"


class CrashingPods:
    """The pods of Jobs with a container whose restart the kubelet delays because the container crashed too often."""

    def __init__(self) -> None:
        self._jobs: dict[str, set[Key]] = {}

    @property
    def jobs(self) -> Collection[str]:
        """The UIDs of the Jobs with pods that crash repeatedly, as a live view."""
        return self._jobs.keys()

    def put_pod(self, old: ShownPod | None, new: ShownPod | None) -> None:
        """Handle an added, updated or deleted pod."""
        pod = new or old
        controller = pod.metadata.controller if pod else None
        if pod is None or controller is None:
            return
        if new is not None and _is_crashing(new):
            self._jobs.setdefault(controller.uid, set()).add(new.key)
        elif (known := self._jobs.get(controller.uid)) is not None:
            known.discard(pod.key)
            if not known:
                del self._jobs[controller.uid]


def _is_crashing(pod: ShownPod) -> bool:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return any(each.state.waiting is not None and each.state.waiting.reason == BACK_OFF for each in statuses)


log = structlog.get_logger()

LEASE_SECONDS: Final = 5.0
HEALTH_SECONDS: Final = 10.0
NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"


class Reservation(msgspec.Struct, frozen=True):
    """Nodes that the scheduler reserves for a Job, until `promise` in seconds since the epoch."""

    namespace: str
    job: str
    nodes: tuple[str, ...]
    promise: float | None


class Cluster:
    """The board's copy of the cluster.

    `generation` increases with every change, so that unchanged results are not computed again.
    """

    def __init__(self, client: Client, lease_namespace: str) -> None:
        self._client, self._lease_namespace = client, lease_namespace
        self.generation = 0
        self.table = JobTable()
        self.natives, self.plain = native_gangs(self.table.put_row), plain_gangs(self.table.put_row)
        self.books = NodeBooks()
        self.crashing = CrashingPods()
        self.services: dict[str, bool] | None = None
        self.health: list[dict[str, Any]] = []
        self._inhabited: tuple[int, frozenset[str]] = (-1, frozenset())
        self._reservations: dict[Key, Reservation] = {}
        self.jobs = Informer(client, JOBS, ShownJob)
        self.groups = Informer(client, POD_GROUPS, ShownGroup)
        self.pods = Informer(client, PODS, ShownPod, field_selector=NOT_ENDED)
        self.queues = Informer(client, QUEUES, ShownObject)
        self.flows = Informer(client, JOB_FLOWS, ShownObject)
        self.nodes = Informer(client, NODES, ShownNode)
        self.hyper_nodes = Informer(client, HYPER_NODES, HyperNode)
        self._namespaces = Informer(client, NAMESPACES, ShownNamespace)
        self.jobs.on_change(self.table.put_job)
        self.groups.on_change(self.table.put_group)
        self.groups.on_change(self._put_reservation)
        self.groups.on_change(self.plain.put_group)
        self.pods.on_change(self.books.put_pod)
        self.pods.on_change(self.crashing.put_pod)
        self.pods.on_change(self.natives.put_pod)
        self.pods.on_change(self.plain.put_pod)
        self.groups_on_pods: dict[Key, ShownGroup] = {}
        self._described = Informer(client, PODS, Pod, label_selector=f"{keys.POD_GROUP}=none", field_selector=NOT_ENDED)
        self._described.on_change(self._put_described)
        self.table.on_row(self._changed)
        for informer in self.informers:
            informer.on_change(self._changed)

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """The informers of all watched kinds."""
        own = (self.jobs, self.groups, self.pods, self.queues, self.flows, self.nodes, self.hyper_nodes)
        return (*own, self._namespaces, self._described)

    @property
    def reservations(self) -> Iterable[Reservation]:
        """The reservations of nodes for Jobs."""
        return self._reservations.values()

    @property
    def kept_nodes(self) -> set[str]:
        """The names of all nodes that are reserved for a Job."""
        return {name for each in self.reservations for name in each.nodes}

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces that contain a Job or flow that the board shows."""
        if self._inhabited[0] != self.generation:
            flows = (flow.metadata.namespace for flow in self.flows.values())
            found = frozenset({*(row.namespace for row in self.table.rows), *flows})
            self._inhabited = (self.generation, found)
        return self._inhabited[1]

    @property
    def all_namespaces(self) -> frozenset[str]:
        """All namespaces of the cluster."""
        return frozenset(each.metadata.name for each in self._namespaces.values())

    def now(self) -> float:
        """Return the seconds since the epoch by the clock of the API server."""
        return self._client.now()

    def ages(self) -> Mapping[str, float]:
        """Return for each kind the seconds since the last news from its watch, by plural. 0 while the watch is working."""
        return {informer.kind.plural: informer.unheard_for() for informer in self.informers}

    def flow(self, uid: str) -> ShownObject | None:
        """Return the flow with this UID. None when it does not exist."""
        return next((each for each in self.flows.values() if each.metadata.uid == uid), None)

    async def follow_leases(self) -> None:
        """Poll the Leases until cancelled, so that the board knows which services run.

        Leases are not watched, because each of them changes every 2 s.
        """
        complaint = ""
        while True:
            try:
                leases, _ = await self._client.list(LEASES)
            except KubeError as error:
                if str(error) != complaint:
                    complaint = str(error)
                    log.warning("board.leases_unknown", error=complaint)
                self._serve(None, None)
            else:
                complaint = ""
                held = schedulers_of(leases, self.now())
                own = [each["metadata"]["name"] for each in leases if each["metadata"]["namespace"] == self._lease_namespace]
                self._serve(held, {name: name in held.live for name in sorted(own)})
            await asyncio.sleep(LEASE_SECONDS)

    async def follow_health(self) -> None:
        """Judge the health of the services until cancelled: see `pyroclast.views.health`."""
        while True:
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            nodes: list[Mapping[str, Any]] = [
                {"metadata": {"name": each.metadata.name}, "status": ready} if _is_ready(each) else as_object(each)
                for each in self.nodes.values()
            ]
            health = judged(await read_health(self._client, nodes=nodes, may_create=False))
            if health != self.health:
                self.health = health
                self.generation += 1
            await asyncio.sleep(HEALTH_SECONDS)

    def _serve(self, held: Schedulers | None, services: dict[str, bool] | None) -> None:
        if self.table.serve(held) or services != self.services:
            self.services = services
            self.generation += 1

    @property
    def all_groups(self) -> Iterable[ShownGroup]:
        """The PodGroups, and the groups that pods of Jobs without a PodGroup describe."""
        return (*self.groups.values(), *self.groups_on_pods.values())

    def _put_described(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None:
            return
        group = None if new is None else group_of(new)
        before, after = self.groups_on_pods.pop(pod.key, None), None
        if group is not None:
            after = self.groups_on_pods[pod.key] = msgspec.convert(msgspec.to_builtins(group), ShownGroup)
        self.table.put_group(before, after)
        self._put_reservation(before, after)

    def _put_reservation(self, old: ShownGroup | None, new: ShownGroup | None) -> None:
        group = new or old
        if group is None:
            return
        found = None if new is None else _reservation(new)
        if found is None:
            self._reservations.pop(group.key, None)
        else:
            self._reservations[group.key] = found

    def _changed(self, _old: object, _new: object) -> None:
        self.generation += 1


def _is_ready(node: ShownNode) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)


class _Lock(msgspec.Struct, frozen=True):
    node: str


class _Written(msgspec.Struct, frozen=True):
    locks: tuple[_Lock, ...] = ()
    promise: float | None = None


def _reservation(group: ShownGroup) -> Reservation | None:
    text = group.metadata.annotations.get(keys.RESERVATION, "")
    if not text:
        return None
    try:
        written = msgspec.json.decode(text, type=_Written)
    except msgspec.MsgspecError:  # any user who may write PodGroups may write invalid content
        return None
    owner = group.metadata.controller
    name = owner.name if owner is not None else group.metadata.name
    return Reservation(group.metadata.namespace, name, tuple(lock.node for lock in written.locks), written.promise)

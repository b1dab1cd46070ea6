"""The nodes service: its settings, and its components, which it creates, connects and runs."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import structlog
from pydantic import Field, field_validator, model_validator

from pyroclast.api.types import NODES, PODS, Key
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.workqueue.queue import WorkQueue, run_workers
from pyroclast.resources import quantity
from pyroclast.resources.backoff import Backoff
from pyroclast.runtime.fields import Duration, Names
from pyroclast.runtime.service import Service
from pyroclast.runtime.settings import ServiceSettings, SettingsError
from pyroclast_standalone.nodes import records
from pyroclast_standalone.nodes.capacity import AddressPool
from pyroclast_standalone.nodes.endpoint import Endpoint
from pyroclast_standalone.nodes.environment import Place
from pyroclast_standalone.nodes.fleet import Fleet, Shape
from pyroclast_standalone.nodes.injections import MACHINE
from pyroclast_standalone.nodes.pods import PodKeeper, pod_log
from pyroclast_standalone.nodes.processes.machine import Machine, find_machine
from pyroclast_standalone.nodes.simulated import SimulatedRuntime
from pyroclast_standalone.nodes.sources import Sources

if TYPE_CHECKING:
    from pyroclast_standalone.nodes.processes.runtime import ProcessRuntime  # the other mode does not need it

log = structlog.get_logger()
_PAIR = re.compile(r"[^=\s]+=[^=]*")
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9.-]*)?")


class NodesSettings(ServiceSettings):
    """The number and resources of the nodes, and how they run pods."""

    nodes: int = Field(4, ge=0, le=5000, description="how many nodes to register")
    name_prefix: str = Field("node-", description="prefix of node names; a number from 0 follows")
    cpu: str = Field("8", description="cpu of each node")
    memory: str = Field("16Gi", description="memory of each node")
    pods: int = Field(110, ge=1, description="most pods of each node")
    resource: Names = Field((), description="further resource of each node, such as nvidia.com/gpu=8; may be repeated")
    label: Names = Field((), description="label of each node, such as zone=a; may be repeated")
    mode: Literal["simulated", "process"] = Field(
        "simulated",
        description="simulated: containers only simulate their commands; process: containers run as processes of this machine",
    )
    machine: bool = Field(
        False,
        description="register one node with the name and the size of this machine, and enforce the limits of its pods; "
        "needs --mode=process",
    )
    run_as_submitter: bool = Field(
        False, description="run each pod under the account of the user who submitted it; needs the rights of root"
    )
    client_ca_file: str = Field(
        "", description="CA of the administrators who may read logs here, such as the API server; empty: everybody on --node-ip"
    )
    data_dir: str = Field("", description="directory for the state of containers; required with --mode=process")
    pod_log: str = Field("", description="file with a line of JSON for each start and end of a pod")
    node_ip: str = Field("127.0.0.1", description="address at which the API server reaches the nodes, for logs")
    kubelet_port: int = Field(0, ge=0, le=65535, description="port of --node-ip, for logs; 0: any free port")
    pod_network: str = Field(
        "", description="network of pod addresses (default 10.128.0.0/9; loopback 127.64.0.0/10 for processes)"
    )
    restart_backoff: Duration = Field(
        timedelta(seconds=10), description="delay before the second restart of a container; doubles with each further restart"
    )
    unknown_command: Duration = Field(timedelta(seconds=1), description="simulated duration of an unknown command")

    @field_validator("cpu", "memory")
    @classmethod
    def _is_quantity(cls, text: str) -> str:
        quantity.parse(text)  # the ValueError of the parser names the text
        return text

    @field_validator("resource", "label")
    @classmethod
    def _are_pairs(cls, pairs: tuple[str, ...]) -> tuple[str, ...]:
        for pair in pairs:
            if not _PAIR.fullmatch(pair):
                raise ValueError(f'"{pair}" is not of the form name=value')
        return pairs

    @field_validator("resource")
    @classmethod
    def _are_quantities(cls, pairs: tuple[str, ...]) -> tuple[str, ...]:
        for pair in pairs:
            quantity.parse(pair.partition("=")[2])
        return pairs

    @field_validator("pod_network")
    @classmethod
    def _is_network(cls, text: str) -> str:
        if text and ipaddress.IPv4Network(text).num_addresses < 4:
            raise ValueError(f'"{text}" has no room for pods')
        return text

    @field_validator("name_prefix")
    @classmethod
    def _is_prefix(cls, text: str) -> str:
        if not _PREFIX.fullmatch(text):
            raise ValueError(f'"{text}" cannot begin the name of a node: lower-case letters, digits, "-" and "."')
        return text

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        if self.mode == "process" and not self.data_dir:
            raise ValueError("--mode=process needs --data-dir, a folder for the state of its containers")
        if self.machine and self.mode != "process":
            raise ValueError("--machine needs --mode=process: simulated pods use nothing of this machine")
        if self.run_as_submitter and (self.mode != "process" or os.geteuid() != 0):
            raise ValueError("--run-as-submitter needs --mode=process and the rights of root")
        return self

    @property
    def network(self) -> str:
        """The network of pod addresses. For processes it is a network in which every address is this machine."""
        return self.pod_network or ("127.64.0.0/10" if self.mode == "process" else "10.128.0.0/9")

    def names(self, machine: Machine | None) -> list[str]:
        """Return the names of the nodes to register."""
        return [machine.name] if machine else [f"{self.name_prefix}{number}" for number in range(self.nodes)]

    def shape(self, machine: Machine | None, port: int) -> Shape:
        """Return the resources and labels of each node. `port` is that of the endpoint for logs."""
        fixed = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods), "ephemeral-storage": "100Gi"}
        resources = fixed | (machine.resources if machine else {}) | _mapping(self.resource)
        labels = (machine.labels if machine else {}) | _mapping(self.label)
        return Shape(resources, labels, self.node_ip, port, is_machine=machine is not None, runtime=self.mode)


def _mapping(pairs: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


_WORKERS = 32  # pods that are written at the same time
_LONGEST_BACKOFF = 30  # times the first delay, as for kubelets (10 s to 5 min)


async def run(service: Service) -> None:
    """Run the nodes until the service stops."""
    settings = service.settings
    assert isinstance(settings, NodesSettings)  # noqa: S101 - what __main__ parsed
    client = await service.client()
    nodes = Informer(client, NODES, records.Node)
    pods = Informer(client, PODS, records.Pod, field_selector="spec.nodeName!=", indexers={"node": _node_of})
    queue: WorkQueue[Key] = WorkQueue("pods", observer=service.observer)
    events = service.record_events(client, "kubelet")
    first = settings.restart_backoff / timedelta(seconds=1)
    async with AsyncExitStack() as stack:
        machine = await asyncio.to_thread(find_machine, len(os.sched_getaffinity(0))) if settings.machine else None
        runtime = await stack.enter_async_context(_runtime(service, settings, client, nodes, queue, machine=machine))
        keeper = PodKeeper(
            client,
            pods,
            runtime,
            addresses=_addresses(settings),
            backoff=Backoff(first, first * _LONGEST_BACKOFF),
            queue=queue,
            events=events,
            log=stack.enter_context(pod_log(settings.pod_log)),
        )
        endpoint = Endpoint(keeper, runtime, settings.client_ca_file, client.config.authority.read())
        async with endpoint.serving(settings.node_ip, settings.kubelet_port) as port:
            names, mark = settings.names(machine), MACHINE if machine else settings.name_prefix
            shape = settings.shape(machine, port)
            fleet = Fleet(client, nodes, names, fleet=mark, shape=shape, changed=keeper.look_at_node)
            keeper.fleet = fleet
            service.add_ready("nodes", lambda: f"{fleet.unregistered} are not registered" if fleet.unregistered else None)
            service.watch(nodes)
            service.watch(pods)
            await service.synced()
            if not isinstance(runtime, SimulatedRuntime):
                existing = {pod.metadata.uid: pod.status.phase not in ("Succeeded", "Failed") for pod in pods.values()}
                await asyncio.to_thread(runtime.sweep, existing)
            service.spawn("pods", run_workers(queue, keeper.reconcile, _WORKERS))
            service.spawn("nodes", fleet.keep())
            service.spawn("leases", fleet.renew_leases())
            await service.forever()


def _addresses(settings: NodesSettings) -> AddressPool:
    """Return the pool of pod addresses.

    Processes start at a random one, as pods of another control plane may use the same ports.
    """
    network = ipaddress.IPv4Network(settings.network)
    return AddressPool(network, secrets.randbelow(network.num_addresses) if settings.mode == "process" else 0)


@asynccontextmanager
async def _runtime(
    service: Service,
    settings: NodesSettings,
    client: Client,
    nodes: Informer[records.Node],
    queue: WorkQueue[Key],
    *,
    machine: Machine | None,
) -> AsyncIterator[SimulatedRuntime | ProcessRuntime]:
    sources = Sources(client)

    def place(node: str, pod_ip: str) -> Place:
        known = nodes.get(Key("", node))
        allocatable: Mapping[str, Any] = known.status.allocatable if known is not None else {}
        return Place(pod_ip, settings.node_ip, allocatable)

    if settings.mode == "simulated":
        unknown = settings.unknown_command / timedelta(seconds=1)
        yield SimulatedRuntime(sources, place, unknown_seconds=unknown, now=time.time)
        return
    from pyroclast_standalone.nodes.processes.launcher import find_isolation  # noqa: PLC0415 - the other mode does not need it
    from pyroclast_standalone.nodes.processes.limits import find_groups  # noqa: PLC0415
    from pyroclast_standalone.nodes.processes.runtime import ProcessRuntime  # noqa: PLC0415

    isolation = await asyncio.to_thread(find_isolation)
    if settings.run_as_submitter and isolation != "root":
        raise SettingsError("--run-as-submitter: a process can have no mounts of its own here, so users would not be apart")
    root = Path(settings.data_dir)
    digest = hashlib.sha256(os.path.abspath(root).encode()).hexdigest()  # noqa: ASYNC240 - reads no file
    groups = find_groups(f"pyroclast-{digest[:8]}") if machine else None
    if machine is not None:
        log.info("node.machine", machine=str(machine), limits=str(groups), isolation=isolation)
    runtime = ProcessRuntime(
        sources,
        place,
        root,
        server=client.config.server,
        wake=queue.add,
        isolation=isolation,
        now=time.time,
        machine=machine,
        groups=groups,
        client=client if settings.run_as_submitter else None,
    )
    service.spawn("volumes", runtime.refresh())
    try:
        yield runtime
    finally:
        await runtime.close()


def _node_of(pod: records.Pod) -> list[str]:
    return [pod.spec.node_name]

"""Creates, connects and runs the components of the nodes service."""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyroclast.api.types import NODES, PODS, Key
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.workqueue.queue import WorkQueue
from pyroclast.kube.workqueue.workers import run_workers
from pyroclast.resources.backoff import Backoff
from pyroclast.runtime.service import Service
from pyroclast_standalone.nodes import machines, records
from pyroclast_standalone.nodes.addresses import AddressPool
from pyroclast_standalone.nodes.endpoint import Endpoint
from pyroclast_standalone.nodes.environment import Place
from pyroclast_standalone.nodes.fleet import Fleet
from pyroclast_standalone.nodes.pod_log import pod_log
from pyroclast_standalone.nodes.pods import PodKeeper
from pyroclast_standalone.nodes.runtime import Runtime
from pyroclast_standalone.nodes.settings import NodesSettings
from pyroclast_standalone.nodes.simulated import SimulatedRuntime
from pyroclast_standalone.nodes.sources import Sources

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
        runtime = await stack.enter_async_context(_runtime(service, settings, client, nodes, queue))
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
        async with Endpoint(keeper, runtime).serving(settings.node_ip, settings.kubelet_port) as port:
            shape = machines.Shape(settings.resources, settings.labels, settings.node_ip, port)
            fleet = Fleet(client, nodes, settings.names, fleet=settings.name_prefix, shape=shape, changed=keeper.look_at_node)
            keeper.fleet = fleet
            service.add_ready("nodes", lambda: f"{fleet.unregistered} are not registered" if fleet.unregistered else None)
            service.watch(nodes)
            service.watch(pods)
            await service.synced()
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
    service: Service, settings: NodesSettings, client: Client, nodes: Informer[records.Node], queue: WorkQueue[Key]
) -> AsyncIterator[Runtime]:
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
    from pyroclast_standalone.nodes.processes.runtime import ProcessRuntime  # noqa: PLC0415

    isolation = await asyncio.to_thread(find_isolation)
    root = Path(settings.data_dir)
    runtime = ProcessRuntime(
        sources, place, root, server=client.config.server, wake=queue.add, isolation=isolation, now=time.time
    )
    service.spawn("volumes", runtime.refresh())
    try:
        yield runtime
    finally:
        await runtime.close()


def _node_of(pod: records.Pod) -> list[str]:
    return [pod.spec.node_name]

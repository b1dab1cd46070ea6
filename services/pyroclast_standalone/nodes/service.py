"""Puts the parts of the nodes together and runs them."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pyroclast.api.types import NODES, PODS, Key
from pyroclast.kube.events import EventRecorder
from pyroclast.kube.informer import Informer
from pyroclast.kube.queue import WorkQueue
from pyroclast.kube.workers import run_workers
from pyroclast.runtime.service import Service

from . import machines, records
from .addresses import AddressPool
from .endpoint import Endpoint
from .environment import Place
from .fleet import Fleet
from .lifecycle import Backoff
from .pods import PodKeeper
from .settings import NodesSettings
from .simulated import SimulatedRuntime
from .sources import Sources

__all__ = ["run"]

_WORKERS = 32  # pods written at the same time
_LONGEST_BACKOFF = 30  # times the first delay, as with kubelets (10 s to 5 min)
_STALLED_SECONDS = 90.0  # without a word of a watch, though bookmarks come every minute


async def run(service: Service) -> None:
    """Run the nodes until the service stops."""
    settings = service.settings
    assert isinstance(settings, NodesSettings)  # noqa: S101 - what __main__ parsed
    client = await service.client()
    nodes = Informer(client, NODES, records.Node)
    pods = Informer(client, PODS, records.Pod, field_selector="spec.nodeName!=", indexers={"node": _node_of})
    queue: WorkQueue[Key] = WorkQueue("pods")
    events = EventRecorder(client, "kubelet")
    sources = Sources(client)
    unknown = settings.unknown_command / timedelta(seconds=1)
    host_ip = settings.node_ip

    def place(node: str, pod_ip: str) -> Place:
        known = nodes.get(Key("", node))
        allocatable: Mapping[str, Any] = known.status.allocatable if known is not None else {}
        return Place(pod_ip, host_ip, allocatable)

    runtime = SimulatedRuntime(sources, place, unknown_seconds=unknown, now=time.time)
    first = settings.restart_backoff / timedelta(seconds=1)
    keeper = PodKeeper(
        client,
        pods,
        runtime,
        addresses=AddressPool(ipaddress.IPv4Network(settings.pod_network)),
        backoff=Backoff(first, first * _LONGEST_BACKOFF),
        queue=queue,
        events=events,
    )
    async with Endpoint(keeper, runtime).serving(host_ip, settings.kubelet_port) as port:
        shape = machines.Shape(settings.resources, settings.labels, host_ip, port)
        fleet = Fleet(client, nodes, settings.names, fleet=settings.name_prefix, shape=shape, changed=keeper.look_at_node)
        keeper.fleet = fleet
        service.add_check("watches", lambda: _stalled(nodes, pods))
        service.add_ready(
            "nodes", lambda: None if len(fleet) >= settings.nodes else f"{len(fleet)} of {settings.nodes} registered"
        )
        service.spawn("watch nodes", nodes.run())
        await nodes.synced()
        service.spawn("watch pods", pods.run())
        service.spawn("node statuses", fleet.write_statuses())
        service.spawn("events", events.run())
        await pods.synced()
        await fleet.register()
        service.spawn("leases", fleet.renew_leases())
        service.spawn("pods", run_workers(queue, keeper.reconcile, _WORKERS))
        await service.stopping.wait()


def _node_of(pod: records.Pod) -> list[str]:
    return [pod.spec.node_name]


def _stalled(*informers: Informer[Any]) -> str | None:
    longest = max(informer.stalled_for() for informer in informers)
    return f"no word of a watch for {longest:.0f} s" if longest > _STALLED_SECONDS else None

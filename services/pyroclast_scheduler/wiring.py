"""Putting the service together: watches feed the cache, the cache wakes the loop, the loop's decisions are sent."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from typing import cast

import structlog

from pyroclast.api import records
from pyroclast.api.schedulers import SCHEDULER_NAMES
from pyroclast.api.types import LEASES, NODE_SHARDS
from pyroclast.kube.events.recorder import EventRecorder, Reference
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from pyroclast.runtime.access import Access
from pyroclast.runtime.errors import StartFailure
from pyroclast.runtime.leadership import lead
from pyroclast.runtime.service import Service
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.ring import Ring, ring_of
from pyroclast_scheduler.replay.capture import Ours, taken
from pyroclast_scheduler.session import configuration
from pyroclast_scheduler.settings import SchedulerSettings
from pyroclast_scheduler.shell import debug
from pyroclast_scheduler.shell.binder import Binder
from pyroclast_scheduler.shell.bootstrap import ensure_queues
from pyroclast_scheduler.shell.change_trials import ChangeTrials
from pyroclast_scheduler.shell.configfile import ConfigurationFile
from pyroclast_scheduler.shell.configuration_events import Complaints
from pyroclast_scheduler.shell.estimates import Estimates
from pyroclast_scheduler.shell.evictor import Evictor
from pyroclast_scheduler.shell.explain_server import AUDIENCE, PATH, ExplainServer, finder
from pyroclast_scheduler.shell.explainer import Explainer
from pyroclast_scheduler.shell.gangs import GangKeeper
from pyroclast_scheduler.shell.loop import Loop
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.native_watch import NativeWatch
from pyroclast_scheduler.shell.run_lengths import follow_run_lengths
from pyroclast_scheduler.shell.seat_keeper import SeatKeeper
from pyroclast_scheduler.shell.sharding import RingMember, ShardKeeper
from pyroclast_scheduler.shell.usage import Collector
from pyroclast_scheduler.shell.verifier import Verifier
from pyroclast_scheduler.shell.waiting_metrics import WaitingSeries
from pyroclast_scheduler.shell.watches import PluginWatches, watch
from pyroclast_scheduler.shell.writer import Writer

__all__ = ["main"]

log = structlog.get_logger()

_ALL_NODES = "--place-before-pods: one scheduler must know all nodes: take it away, or --scheduler-sharding-mode and the ring"


async def main(service: Service) -> None:
    """Set everything up, then decide while the Lease is held."""
    settings = cast("SchedulerSettings", service.settings)
    metrics = SchedulerMetrics(service.metrics)
    actions, plugins = await asyncio.to_thread(registry.loaded)
    file = ConfigurationFile(
        settings.scheduler_conf,
        partial(configuration.parse, actions=actions, plugins=plugins),
        is_required=settings.disable_default_scheduler_config,
    )
    complaints = Complaints(metrics)
    file.warned, file.refused = complaints.passed_over, complaints.refused
    file.load()
    client = await service.client()
    recorder = service.record_events(client, settings.scheduler_name[0] if len(settings.scheduler_name) == 1 else "volcano")
    complaints.record(
        recorder,
        Reference(LEASES.api_version, LEASES.kind, settings.lease_namespace, settings.leader_elect_resource_name, ""),
    )
    cache = _cache(settings)
    binder = Binder(client, cache, recorder, metrics)
    evictor = Evictor(client, cache, recorder, metrics)
    verifier = Verifier(client, cache, now=time.monotonic)
    writer = Writer(client, cache, recorder)
    binder.refused, evictor.told = writer.bind_refused, writer.evicted
    usage = Collector(client, lambda: file.current)
    loop = Loop(
        cache,
        lambda: file.current,
        actions=actions,
        plugins=plugins,
        binder=binder,
        evictor=evictor,
        writer=writer,
        keeper=GangKeeper(client, cache, recorder, releasing=binder.pause),
        metrics=metrics,
        recorder=recorder,
        usage=usage,
        now=client.now,
        period=settings.schedule_period.total_seconds(),
        budget_patience=settings.budget_unknown_after.total_seconds(),
    )
    explainer = Explainer(cache, writer, WaitingSeries(metrics.registry), now=client.now)
    explainer.estimates = _estimates(service, client, cache, loop, settings)
    trials = ChangeTrials(client, cache, loop, explainer, lambda: file.current, actions=actions, plugins=plugins)
    _explain(service, client, cache, loop=loop, explainer=explainer, trials=trials)
    loop.warned = complaints.passed_over
    loop.scheduler = settings.scheduler_name[0]
    cache.on_change(loop.wake)
    service.add_check("cycle", loop.stalled)
    ours = Ours(settings.scheduler_name, settings.default_queue, settings.scheduler_sharding_mode != "none")
    service.pages["/debug/snapshot"] = lambda: debug.page(cache, taken(cache, file.current, loop.circumstances(), ours))
    service.spawn("configuration", file.follow())
    await ensure_queues(client, settings.default_queue)
    taker, settings, keeper = _beside(service, client, cache, recorder, settings, loop=loop, writer=writer)
    watch(service, taker, cache, settings, client, watched=metrics.watched)
    watches = PluginWatches(service, cache, client, plugins)
    await watches.discover()
    watches.ensure(file.current)

    def reconfigured(changed: configuration.Configuration) -> None:
        watches.ensure(changed)
        loop.wake()

    file.changed = reconfigured
    await _synced(service, client, cache, taker, settings)

    async def decide(_shard: int) -> None:
        log.info("scheduler.leading")
        async with asyncio.TaskGroup() as group:
            seats = SeatKeeper(client, cache, recorder, now=time.monotonic)
            for work in (binder, evictor, writer, explainer, loop, verifier, seats, usage):
                group.create_task(work.run())
            if keeper is not None:
                group.create_task(keeper.run())

    service.spawn("leader", lead(client, settings, decide, recorder, {SCHEDULER_NAMES: ",".join(settings.scheduler_name)}))


def _cache(settings: SchedulerSettings) -> Cache:
    """The cache that the settings ask for.

    Raises:
        StartFailure: it cannot be as they ask.
    """
    is_shared = settings.scheduler_sharding_mode != "none"
    if settings.place_before_pods and (is_shared or _ring() is not None):
        raise StartFailure(_ALL_NODES, status=2)
    return Cache(
        settings.scheduler_name,
        default_queue=settings.default_queue,
        is_shared=is_shared,
        places_seats=settings.place_before_pods,
        now=time.monotonic,
    )


def _ring() -> Ring | None:
    """The ring of schedulers that this one belongs to; None if to none.

    Raises:
        StartFailure: the ring that the environment describes makes no sense.
    """
    try:
        return ring_of(os.environ)
    except ValueError as error:
        raise StartFailure(str(error), status=2) from error


async def _synced(service: Service, client: Client, cache: Cache, taker: Cache | RingMember, settings: SchedulerSettings) -> None:
    """Wait for all that is watched; the PodGroups of Kubernetes itself too, which are followed once the API server has them."""
    if settings.native_workloads:
        take = cache.natives.group_changed if isinstance(taker, Cache) else taker.native_group_changed
        natives = NativeWatch(client, cache, take, partial(service.watch, is_needed=False))
        await natives.start()
        service.spawn("native-groups", natives.run())
    await service.synced()


def _estimates(service: Service, client: Client, cache: Cache, loop: Loop, settings: SchedulerSettings) -> Estimates | None:
    """What estimates starts, and learns from the recorder how long Jobs ran; None where nobody should. Sessions ask it, too."""
    if not settings.estimate_starts:
        return None
    estimates = Estimates(cache, loop, now=client.now)
    loop.usual_seconds = estimates.usual_seconds
    service.watch(follow_run_lengths(client, settings.lease_namespace, estimates), is_needed=False)
    return estimates


def _explain(service: Service, client: Client, cache: Cache, *, loop: Loop, explainer: Explainer, trials: ChangeTrials) -> None:
    """Let sessions tell the explainer what they found out, and answer who asks."""
    loop.explained, loop.waiting = explainer.take, explainer.book
    explainer.reservations = lambda: loop.reservations
    access = Access(client, AUDIENCE)
    service.branches[PATH] = ExplainServer(
        explainer.source,
        finder(cache.facts),
        access,
        trials,
        trials.fits,
        leads=lambda: explainer.is_at_work,
        belongs_to=cache.natives.explained_by,
    )


def _beside(
    service: Service,
    client: Client,
    cache: Cache,
    recorder: EventRecorder,
    settings: SchedulerSettings,
    *,
    loop: Loop,
    writer: Writer,
) -> tuple[Cache | RingMember, SchedulerSettings, ShardKeeper | None]:
    """Work beside other schedulers, if there are any: what takes up what is watched, our own Lease, and our NodeShard.

    Raises:
        StartFailure: the ring that the environment describes makes no sense.
    """
    taker: Cache | RingMember = cache
    ring = _ring()
    if ring is not None:
        taker = RingMember(ring, cache, settings.scheduler_name, default_queue=settings.default_queue)
        loop.elsewhere, writer.writes = taker.elsewhere, taker.writes
        lease = f"{settings.leader_elect_resource_name}-{ring.index}"  # all members work at the same time
        settings = settings.model_copy(update={"leader_elect_resource_name": lease})
    if settings.scheduler_sharding_mode == "none":
        return taker, settings, None
    is_hard = settings.scheduler_sharding_mode == "hard"
    keeper = ShardKeeper(client, cache, recorder, settings.scheduler_sharding_name, is_hard=is_hard)
    loop.shard, loop.shard_seen = keeper.shard, keeper.seen
    shards = Informer(client, NODE_SHARDS, records.NodeShard)
    shards.on_change(keeper.changed)
    service.watch(shards)
    return taker, settings, keeper

"""Assembles the service: watches update the cache, the cache wakes the loop, and the decisions of the loop are sent."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, cast

import structlog

from pyroclast.api.schedulers import SCHEDULER_NAMES
from pyroclast.api.types import LEASES, QUEUES, Key
from pyroclast.kube.basics.errors import AlreadyExists, KubeError, NotFound
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client
from pyroclast.resources.pods import Additions
from pyroclast.runtime.access import Access
from pyroclast.runtime.errors import StartFailure
from pyroclast.runtime.in_process.pod_additions import PodAdditions
from pyroclast.runtime.leadership import lead
from pyroclast.runtime.service import Service
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.explaining.book import WaitingBook
from pyroclast_scheduler.model.sharding import Ring, ring_of
from pyroclast_scheduler.replay.capture import taken
from pyroclast_scheduler.session import configuration
from pyroclast_scheduler.settings import SchedulerSettings
from pyroclast_scheduler.shell import debug
from pyroclast_scheduler.shell.binder import Binder
from pyroclast_scheduler.shell.change_trials import ChangeTrials
from pyroclast_scheduler.shell.configfile import Complaints, ConfigurationFile
from pyroclast_scheduler.shell.estimates import Estimates, WaitingText, follow_run_lengths
from pyroclast_scheduler.shell.evictor import Evictor
from pyroclast_scheduler.shell.explain_server import AUDIENCE, PATH, ExplainServer, finder
from pyroclast_scheduler.shell.explainer import Explainer
from pyroclast_scheduler.shell.gangs import GangKeeper
from pyroclast_scheduler.shell.loop import Loop
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.object_metrics import WaitingSeries
from pyroclast_scheduler.shell.seat_keeper import SeatKeeper, Verifier
from pyroclast_scheduler.shell.session_inputs import ReservedNodes, SessionGaps, SessionInputs
from pyroclast_scheduler.shell.sharding import RingMember, ShardKeeper
from pyroclast_scheduler.shell.usage import Collector
from pyroclast_scheduler.shell.watches import NativeWatch, PluginWatches, watch
from pyroclast_scheduler.shell.writer import Writer

log = structlog.get_logger()


_TRIES: Final = 60  # a minute: CRDs and webhooks of a new installation need some seconds to start
_PAUSE_SECONDS: Final = 1.0
_ALL_NODES = "--place-before-pods: one scheduler must know all nodes: take it away, or --scheduler-sharding-mode and the ring"


async def ensure_queues(client: Client, default_queue: str) -> None:
    """Create the queue `root` and the default queue if they do not exist; KubeError after a minute of failures."""
    await _ensure(client, "root", {"weight": 1, "reclaimable": False})
    await _ensure(client, default_queue, {"weight": 1, "reclaimable": True})


async def _ensure(client: Client, name: str, spec: Mapping[str, Any]) -> None:
    body = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": {"name": name}, "spec": spec}
    for left in reversed(range(_TRIES)):
        try:
            try:
                await client.get(QUEUES, Key("", name))
            except NotFound:
                await client.create(QUEUES, body)
                log.info("queue.created", queue=name)
        except AlreadyExists:
            return
        except KubeError as error:
            if not left:
                raise
            log.warning("queue.not_created", queue=name, error=str(error))
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            return


async def main(service: Service) -> None:
    """Create all components, then decide while the Lease is held."""
    settings = cast("SchedulerSettings", service.settings)
    metrics = SchedulerMetrics(service.metrics)
    actions, plugins = await asyncio.to_thread(registry.loaded)
    complaints = Complaints(metrics)
    file = _configuration_file(settings, partial(configuration.parse, actions=actions, plugins=plugins), complaints)
    file.load()
    client = await service.client()
    recorder = service.record_events(client, settings.scheduler_name[0] if len(settings.scheduler_name) == 1 else "volcano")
    complaints.record(
        recorder,
        Reference(LEASES.api_version, LEASES.kind, settings.lease_namespace, settings.leader_elect_resource_name, ""),
    )
    ring = _ring()
    cache = _cache(settings, ring)
    member = None if ring is None else RingMember(ring, cache, settings.scheduler_name, default_queue=settings.default_queue)
    shards = _shards(client, cache, recorder, settings)
    reserved, gaps, book = ReservedNodes(cache, metrics, now=client.now), SessionGaps(), WaitingBook()
    least_held = settings.estimate_least_held
    estimates = Estimates(cache, reserved, gaps, now=client.now, least_held=least_held) if settings.estimate_starts else None
    text = WaitingText(book, estimates)
    writer = Writer(client, cache, recorder, waiting=text.of, writes=(lambda _: True) if member is None else member.writes)
    binder = Binder(client, cache, recorder, metrics, refused=writer.bind_refused, lock=reserved.lock)
    evictor = Evictor(client, cache, recorder, metrics, evicted=writer.evicted)
    verifier = Verifier(client, cache, now=time.monotonic)
    explainer = Explainer(
        book,
        cache,
        writer,
        WaitingSeries(metrics.registry),
        text=text,
        estimates=estimates,
        reserved=reserved,
        now=client.now,
    )
    usage = Collector(client, lambda: file.current)
    inputs = SessionInputs(
        reserved,
        usage,
        period=settings.schedule_period.total_seconds(),
        budget_patience=settings.budget_unknown_after.total_seconds(),
        scheduler=settings.scheduler_name[0],
        waiting=book,
        usual_seconds=(lambda _: None) if estimates is None else estimates.usual_seconds,
        elsewhere=dict if member is None else member.elsewhere,
        shards=shards,
        now=client.now,
    )
    loop = Loop(
        cache,
        lambda: file.current,
        inputs,
        actions=actions,
        plugins=plugins,
        binder=binder,
        evictor=evictor,
        writer=writer,
        keeper=GangKeeper(client, cache, recorder, releasing=binder.pause),
        metrics=metrics,
        recorder=recorder,
        reserved=reserved,
        gaps=gaps,
        explained=explainer.take,
        warned=complaints.passed_over,
        now=client.now,
    )
    trials = ChangeTrials(
        client,
        cache,
        book,
        inputs,
        gaps=gaps,
        configuration=lambda: file.current,
        actions=actions,
        plugins=plugins,
        additions=_additions(service, client),
    )
    _serve_explanations(service, client, cache, explainer, trials, estimates=estimates)
    cache.on_change(loop.wake)
    service.add_check("cycle", loop.stalled)
    service.pages["/debug/snapshot"] = lambda: debug.page(cache, taken(cache, file.current, inputs.for_onlookers()))
    if estimates is not None:
        service.watch(follow_run_lengths(client, settings.lease_namespace, estimates), is_needed=False)
    await ensure_queues(client, settings.default_queue)
    if shards is not None:
        service.watch(shards.informer())
    taker: Cache | RingMember = cache if member is None else member
    watch(service, taker, cache, settings, client, watched=metrics.watched)
    await _follow_configuration(service, file, PluginWatches(service, cache, client, plugins), loop)
    await _synced(service, client, cache, taker, settings)
    sharing = [] if shards is None else [shards.run]
    work = [binder.run, evictor.run, writer.run, explainer.run, loop.run, verifier.run, usage.run, *sharing]

    async def decide(_shard: int) -> None:
        log.info("scheduler.leading")
        async with asyncio.TaskGroup() as group:
            for run in (*work, SeatKeeper(client, cache, recorder, now=time.monotonic).run):
                group.create_task(run())

    name = settings.leader_elect_resource_name if ring is None else f"{settings.leader_elect_resource_name}-{ring.index}"
    lease = settings.model_copy(update={"leader_elect_resource_name": name})  # all members of a ring work at the same time
    leading = partial(lead, annotations={SCHEDULER_NAMES: ",".join(settings.scheduler_name)}, problem=file.problem)
    service.spawn("leader", leading(client, lease, decide, recorder, metrics=service.metrics))


def _configuration_file(
    settings: SchedulerSettings, parse: Callable[..., configuration.Configuration], complaints: Complaints
) -> ConfigurationFile:
    return ConfigurationFile(
        settings.scheduler_conf,
        partial(parse, skip_unknown_plugins=settings.skip_unknown_plugins),
        warned=complaints.passed_over,
        refused=complaints.refused,
        is_required=settings.disable_default_scheduler_config,
        allows_unknown=settings.skip_unknown_plugins,
    )


async def _follow_configuration(service: Service, file: ConfigurationFile, watches: PluginWatches, loop: Loop) -> None:
    await watches.discover()
    watches.ensure(file.current)

    def reconfigured(changed: configuration.Configuration) -> None:
        watches.ensure(changed)
        loop.wake()

    service.spawn("configuration", file.follow(reconfigured))


def _cache(settings: SchedulerSettings, ring: Ring | None) -> Cache:
    """Return the cache for the settings, or raise StartFailure if they contradict each other."""
    is_shared = settings.scheduler_sharding_mode != "none"
    if settings.place_before_pods and (is_shared or ring is not None):
        raise StartFailure(_ALL_NODES, status=2)
    return Cache(
        settings.scheduler_name,
        default_queue=settings.default_queue,
        is_shared=is_shared,
        places_seats=settings.place_before_pods,
        now=time.monotonic,
    )


def _ring() -> Ring | None:
    """Return the hash ring of this scheduler; None if it belongs to none. StartFailure: it is malformed."""
    try:
        return ring_of(os.environ)
    except ValueError as error:
        raise StartFailure(str(error), status=2) from error


async def _synced(service: Service, client: Client, cache: Cache, taker: Cache | RingMember, settings: SchedulerSettings) -> None:
    """Wait for the first lists of all watches, including PodGroups of the Kubernetes API if the API server has them."""
    if settings.native_workloads:
        take = cache.natives.group_changed if isinstance(taker, Cache) else taker.native_group_changed
        natives = NativeWatch(client, cache, take, partial(service.watch, is_needed=False))
        await natives.start()
        service.spawn("native-groups", natives.run())
    await service.synced()


def _serve_explanations(
    service: Service, client: Client, cache: Cache, explainer: Explainer, trials: ChangeTrials, *, estimates: Estimates | None
) -> None:
    service.branches[PATH] = ExplainServer(
        explainer.source,
        finder(cache.jobs.all_facts),
        Access(client, AUDIENCE, trusts_local=service.settings.trust_local_clients),
        trials,
        trials.fits,
        what_if=None if estimates is None else partial(trials.what_if, compare=estimates.compared),
        leads=lambda: explainer.is_at_work,
        belongs_to=cache.natives.explained_by,
    )


def _additions(service: Service, client: Client) -> Callable[[str], Additions]:
    """Return the function that returns what the API server adds to new pods of a namespace. No decision waits for its watches."""
    additions = PodAdditions(client)
    for informer in additions.informers:
        service.watch(informer, is_needed=False)
    return additions.of


def _shards(client: Client, cache: Cache, recorder: EventRecorder, settings: SchedulerSettings) -> ShardKeeper | None:
    if settings.scheduler_sharding_mode == "none":
        return None
    is_hard = settings.scheduler_sharding_mode == "hard"
    return ShardKeeper(client, cache, recorder, settings.scheduler_sharding_name, is_hard=is_hard)

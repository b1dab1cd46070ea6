"""The controllers of a process: each has a queue, and workers for the shards that this replica leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client
from pyroclast.kube.lease.shards import Shards
from pyroclast.kube.workqueue.queue import run_workers
from pyroclast.kube.workqueue.rejections import Refusals
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.runtime.leadership import ForeignWrites, lead
from pyroclast.runtime.service import Service
from pyroclast.runtime.settings import LeaderElectionSettings

_LONGEST_DELAY: Final = 5.0
"""The longest delay between retries, in seconds, so that a recovered API server is soon noticed."""

_LONGEST_STANDSTILL: Final = 600.0
"""Seconds without progress after which the work on a key counts as stuck; every request ends long before that."""


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """The objects that all controllers of a process share.

    `now`: returns seconds since the epoch by the clock of the API server. `clock`: returns seconds of a monotonic clock.
    `foreign`: what the controllers notice of another program that does the same work.
    """

    client: Client
    recorder: EventRecorder
    shards: Shards
    now: Callable[[], float]
    clock: Callable[[], float]
    foreign: ForeignWrites | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Controller:
    """A queue and its workers.

    `enqueue_all` adds the keys of all objects in the shards that this replica leads. `about`: returns the object of a key, on
    which an Event with `reason` is recorded when the API server refuses a write.
    """

    name: str
    queue: ShardedQueue[Any]
    workers: int
    reconcile: Callable[[Any], Awaitable[None]]
    enqueue_all: Callable[[], None]
    about: Callable[[Any], Reference | None]
    reason: str = "FailedSync"


def work_queue(
    service: Service, context: ControllerContext, name: str, shard_of: Callable[[Any], int | None] | None = None
) -> ShardedQueue[Any]:
    """Return a queue of that name for keys of objects. `shard_of`: returns the shard of other keys, None for a key without a
    shard.
    """
    return ShardedQueue(
        name,
        shards=context.shards.total,
        shard_of=shard_of or context.shards.shard_of,
        longest_delay=_LONGEST_DELAY,
        now=context.now,
        observer=service.observer,
    )


def run_controllers(
    service: Service, settings: LeaderElectionSettings, context: ControllerContext, controllers: Sequence[Controller]
) -> None:
    """Run the controllers while this process leads. The caller has already read the objects that they watch."""
    for controller in controllers:
        service.add_check(f"work-{controller.name}", partial(stuck, controller))
    run, metrics = partial(work, context, controllers), service.metrics
    leading = lead(context.client, settings, run, context.recorder, metrics=metrics, foreign=context.foreign)
    service.spawn("leading", leading)


async def work(context: ControllerContext, controllers: Sequence[Controller], shard: int) -> None:
    """Work on a shard until cancelled.

    The Lease is released only after the last worker has stopped and the queues are dropped.
    """
    context.shards.take(shard)
    try:
        async with asyncio.TaskGroup() as workers:
            for controller in controllers:
                queue = controller.queue.open(shard)
                refusals = Refusals(context.recorder, controller.about, reason=controller.reason)
                workers.create_task(run_workers(queue, controller.reconcile, controller.workers, refusals))
                controller.enqueue_all()
    finally:
        for controller in controllers:
            controller.queue.close(shard)
        context.shards.give(shard)


def stuck(controller: Controller) -> str | None:
    """Return why the process should be restarted, when the work on one key is stuck; None otherwise."""
    seconds = controller.queue.longest_standstill()
    return f"the work on one key has not got on for {seconds:.0f} s" if seconds > _LONGEST_STANDSTILL else None

"""The controllers of a process: each is a queue and those who work on it, for the shards that are led here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pyroclast.kube.events.recorder import EventRecorder, Reference
from pyroclast.kube.http.client import Client
from pyroclast.kube.lease.shards import Shards
from pyroclast.kube.workqueue.rejections import Refusals
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.kube.workqueue.workers import run_workers
from pyroclast.runtime.leadership import lead
from pyroclast.runtime.service import Service
from pyroclast.runtime.settings import LeaderElectionSettings

__all__ = ["Controller", "ControllerContext", "run_controllers", "stuck", "work", "work_queue"]

_LONGEST_DELAY: Final = 5.0
"""Seconds until what failed is tried again: an API server that comes back is soon noticed."""

_LONGEST_STANDSTILL: Final = 600.0
"""Seconds in which nothing of the work on one key is done: a request ends long before that, with or without an answer."""


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """What all controllers of a process have in common.

    `now`: seconds since the epoch by the clock of the API server; `clock`: seconds, never set back.
    """

    client: Client
    recorder: EventRecorder
    shards: Shards
    now: Callable[[], float]
    clock: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Controller:
    """A queue with those who work on it.

    `enqueue_all` puts everything on the queue that is ours. `about`: the object of a key, on which an Event with `reason` says
    what we are refused.
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
    """A queue of that name, of keys of objects. `shard_of`: to which shard another key belongs, None: to none at present."""
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
    """Have them work while this process leads; what they watch has been read."""
    for controller in controllers:
        service.add_check(f"work-{controller.name}", partial(stuck, controller))
    service.spawn("leading", lead(context.client, settings, partial(work, context, controllers), context.recorder))


async def work(context: ControllerContext, controllers: Sequence[Controller], shard: int) -> None:
    """Work on a shard until cancelled; its Lease is given back only when the last worker has stopped and all is forgotten."""
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
    """Why the process should be restarted: the work on one key does not get on."""
    seconds = controller.queue.longest_standstill()
    return f"the work on one key has not got on for {seconds:.0f} s" if seconds > _LONGEST_STANDSTILL else None

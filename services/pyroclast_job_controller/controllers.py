"""What a controller of this process is: a queue, and those who work on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from pyroclast.api.types import Key
from pyroclast.kube.events.recorder import Reference
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.runtime.service import Service
from pyroclast_job_controller.shared import Shared

__all__ = ["Controller", "work_queue"]

_LONGEST_DELAY: Final = 5.0
"""Seconds until what failed is tried again: an API server that comes back is soon noticed."""


@dataclass(frozen=True, slots=True)
class Controller:
    """A queue with those who work on it.

    `enqueue_all` puts everything on the queue that is ours. `about`: the object of a key, on which an Event with `reason` says
    what we are refused.
    """

    name: str
    queue: ShardedQueue[Key]
    workers: int
    reconcile: Callable[[Key], Awaitable[None]]
    enqueue_all: Callable[[], None]
    about: Callable[[Key], Reference | None]
    reason: str = "FailedSync"


def work_queue(
    service: Service, shared: Shared, name: str, shard_of: Callable[[Key], int | None] | None = None
) -> ShardedQueue[Key]:
    """A queue of that name. `shard_of`: to which shard a key belongs, None: to none at present."""
    return ShardedQueue(
        name,
        shards=shared.shards.total,
        shard_of=shard_of or shared.shards.shard_of,
        longest_delay=_LONGEST_DELAY,
        now=shared.now,
        observer=service.observer,
    )

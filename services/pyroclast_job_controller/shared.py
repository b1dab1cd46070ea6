"""What all controllers of this process have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client
from pyroclast.kube.lease.scheduler_leases import SchedulerLeases
from pyroclast.kube.lease.shards import Shards
from pyroclast_job_controller.caches import Caches
from pyroclast_job_controller.metrics import ControllerMetrics

__all__ = ["Shared"]


@dataclass(frozen=True, slots=True)
class Shared:
    """The ways out of a controller.

    `now`: seconds since the epoch by the clock of the API server; `clock`: seconds, never set back.
    """

    client: Client
    caches: Caches
    recorder: EventRecorder
    metrics: ControllerMetrics
    shards: Shards
    schedulers: SchedulerLeases
    now: Callable[[], float]
    clock: Callable[[], float]

"""What the controllers of this process have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client
from pyroclast.kube.lease.shards import Shards
from pyroclast_jobflow_controller.caches import Caches
from pyroclast_jobflow_controller.metrics import FlowMetrics

__all__ = ["Shared"]


@dataclass(frozen=True, slots=True)
class Shared:
    """The ways out of a controller. `now`: seconds since the epoch, by the API server; `clock`: seconds, never set back."""

    client: Client
    caches: Caches
    recorder: EventRecorder
    metrics: FlowMetrics
    shards: Shards
    now: Callable[[], float]
    clock: Callable[[], float]
